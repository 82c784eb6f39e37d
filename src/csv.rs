//! Reads and writes CSV text (RFC 4180). Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Writes a header line and the rows, with `\n` line ends. The named columns come first, in this order;
/// all other keys follow, sorted. Missing values are empty.
#[must_use]
pub fn write(columns: &[String], rows: &[Map<String, Value>]) -> String {
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

/// Flattens nested maps: keys are joined with dots.
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

const MAX_ROWS: usize = 100_000;

/// The cells of a row by column name.
pub type Row = BTreeMap<String, String>;

/// The header; `None` if the text is empty.
pub fn columns(text: &str) -> Option<Vec<String>> {
    let mut records = Records { rest: text };
    records.next()?.ok()
}

/// The rows below the header, without empty lines.
///
/// # Errors
///
/// A message for a row with a wrong number of cells, for an unterminated quote, and for too many rows.
pub fn rows(text: &str) -> Result<Vec<Row>, String> {
    let mut records = Records { rest: text };
    let columns = records.next().unwrap_or_else(|| Ok(Vec::new()))?;
    let mut rows = Vec::new();
    for (index, record) in records.enumerate() {
        let (number, cells) = (
            index + 1,
            record.map_err(|error| format!("row {}: {error}", index + 1))?,
        );
        if cells.len() == 1 && cells[0].is_empty() {
            continue;
        }
        if cells.len() != columns.len() {
            return Err(format!(
                "row {number} has {} cells below {} columns",
                cells.len(),
                columns.len()
            ));
        }
        if rows.len() == MAX_ROWS {
            return Err(format!("it has more than {MAX_ROWS} rows"));
        }
        rows.push(columns.iter().cloned().zip(cells).collect());
    }
    Ok(rows)
}

struct Records<'a> {
    rest: &'a str,
}

impl Iterator for Records<'_> {
    type Item = Result<Vec<String>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let mut cells = Vec::new();
        loop {
            let (cell, end) = match self.cell() {
                Ok(cell) => cell,
                Err(error) => {
                    self.rest = "";
                    return Some(Err(error));
                }
            };
            cells.push(cell);
            if end {
                return Some(Ok(cells));
            }
        }
    }
}

impl Records<'_> {
    /// The next cell, and whether it ends its record.
    fn cell(&mut self) -> Result<(String, bool), String> {
        let mut cell = String::new();
        if let Some(mut rest) = self.rest.strip_prefix('"') {
            loop {
                let at = rest.find('"').ok_or("a text in quotes does not end")?;
                cell.push_str(&rest[..at]);
                rest = &rest[at + 1..];
                match rest.strip_prefix('"') {
                    Some(after) => {
                        cell.push('"');
                        rest = after;
                    }
                    None => break,
                }
            }
            self.rest = rest;
        }
        let at = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        cell.push_str(self.rest[..at].trim_end_matches('\r'));
        let end = !self.rest[at..].starts_with(',');
        self.rest = self.rest.get(at + 1..).unwrap_or("");
        Ok((cell, end))
    }
}

/// Splits a CSV text into its header and the cells of each row.
///
/// # Errors
///
/// A message if the text is not CSV.
pub fn sheet(text: &str) -> Result<(Vec<String>, Vec<Vec<String>>), String> {
    let heading = columns(text).ok_or("it is empty")?;
    let records = rows(text)?.into_iter();
    let cells = |row: Row| {
        heading
            .iter()
            .map(|name| row.get(name).cloned().unwrap_or_default())
            .collect()
    };
    let cells = records.map(cells).collect();
    Ok((heading, cells))
}

/// The rows as maps. Numeric cells become numbers, empty cells null.
///
/// # Errors
///
/// A message if the text is not CSV.
pub fn table(text: &str) -> Result<Vec<Map<String, Value>>, String> {
    let cell = |text: String| match serde_json::from_str(&text) {
        Ok(number @ Value::Number(_)) => number,
        _ if text.is_empty() => Value::Null,
        _ => Value::String(text),
    };
    let records = rows(text)?.into_iter();
    Ok(records
        .map(|row| row.into_iter().map(|(name, text)| (name, cell(text))).collect())
        .collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(columns: &[&str], rows: Value) -> String {
        let rows: Vec<Map<String, Value>> = serde_json::from_value(rows).unwrap();
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        write(&columns, &rows)
    }

    #[test]
    fn named_columns_come_first_and_the_rest_sorted() {
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
    fn special_characters_are_quoted() {
        let rows = json!([{ "error": "no \"room\", at all\nreally", "list": [1, 2] }]);
        assert_eq!(
            written(&[], rows),
            "error,list\n\"no \"\"room\"\", at all\nreally\",\"[1,2]\"\n"
        );
        assert_eq!(written(&["n"], json!([])), "n\n");
    }

    #[test]
    fn quotes_hold_commas_lines_and_quotes() {
        let text = "a,b,c\r\n1,\"x,\ny \"\"z\"\"\",\r\n\r\n2,,3";
        assert_eq!(columns(text).unwrap(), ["a", "b", "c"]);
        let rows = rows(text).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0]["b"], "x,\ny \"z\"");
        assert_eq!((rows[1]["b"].as_str(), rows[1]["c"].as_str()), ("", "3"));
    }

    #[test]
    fn a_row_of_another_width_is_refused() {
        assert_eq!(rows("a,b\n1,2\n3").unwrap_err(), "row 2 has 1 cells below 2 columns");
        assert_eq!(rows("a,b\n1,\"2").unwrap_err(), "row 1: a text in quotes does not end");
    }
}
