//! Rows of figures as CSV: one line a row, nested maps as columns with dots, for spreadsheets and other programs. Pure.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The text of a CSV file (RFC 4180, lines ended by `\n`): a line of headings, then the rows. The columns named come first and in this order; every other key that
/// any row has follows, sorted. What a row lacks is empty.
#[must_use]
pub fn csv(columns: &[String], rows: &[Map<String, Value>]) -> String {
    let rows: Vec<Map<String, Value>> = rows.iter().map(flat).collect();
    let known: BTreeSet<&str> = columns.iter().map(String::as_str).collect();
    let others: BTreeSet<&str> = rows.iter().flat_map(|row| row.keys().map(String::as_str)).collect();
    let names: Vec<&str> = columns
        .iter()
        .map(String::as_str)
        .chain(others.difference(&known).copied())
        .collect();
    let mut text = line(names.iter().map(|name| field(name)));
    for row in &rows {
        text.push_str(&line(
            names.iter().map(|name| cell(row.get(*name).unwrap_or(&Value::Null))),
        ));
    }
    text
}

/// A row without maps in it: their keys are appended with dots.
fn flat(row: &Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    for (name, value) in row {
        match value {
            Value::Object(inner) => all.extend(
                flat(inner)
                    .into_iter()
                    .map(|(key, value)| (format!("{name}.{key}"), value)),
            ),
            value => {
                all.insert(name.clone(), value.clone());
            }
        }
    }
    all
}

fn line(fields: impl Iterator<Item = String>) -> String {
    format!("{}\n", fields.collect::<Vec<_>>().join(","))
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => field(text),
        other => field(&other.to_string()),
    }
}

fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::csv;

    fn written(columns: &[&str], rows: Value) -> String {
        let rows: Vec<Map<String, Value>> = serde_json::from_value(rows).unwrap();
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        csv(&columns, &rows)
    }

    #[test]
    fn columns_come_in_the_order_asked_and_the_rest_sorted() {
        let rows = json!([
            { "b": 2.5, "concurrency": 1, "ttft_ms": { "p95": 7, "p50": null } },
            { "concurrency": 2, "a": true },
        ]);
        assert_eq!(
            written(&["concurrency", "b"], rows),
            "concurrency,b,a,ttft_ms.p50,ttft_ms.p95\n1,2.5,,,7\n2,,true,,\n"
        );
    }

    #[test]
    fn what_would_break_a_line_is_quoted() {
        let rows = json!([{ "error": "no \"room\", at all\nreally", "list": [1, 2] }]);
        assert_eq!(
            written(&[], rows),
            "error,list\n\"no \"\"room\"\", at all\nreally\",\"[1,2]\"\n"
        );
        assert_eq!(written(&["n"], json!([])), "n\n");
    }
}
