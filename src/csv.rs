//! Reads and writes CSV text (RFC 4180) as rows of named cells. Does no I/O.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use ::csv::{Reader, ReaderBuilder, StringRecord, Writer};
use serde_json::{Map, Value};

/// Writes a header line and the rows, with `\n` line ends. The named columns come first, in this order;
/// all other keys follow, sorted. Missing values are empty.
pub fn write(columns: &[String], rows: &[Map<String, Value>]) -> String {
    let rows: Vec<Map<String, Value>> = rows.iter().map(flat).collect();
    let known: BTreeSet<&str> = columns.iter().map(String::as_str).collect();
    let others: BTreeSet<&str> = rows.iter().flat_map(|row| row.keys().map(String::as_str)).collect();
    let names: Vec<&str> = columns
        .iter()
        .map(String::as_str)
        .chain(others.difference(&known).copied())
        .collect();
    let mut writer = Writer::from_writer(Vec::new());
    // Writing to memory cannot fail.
    let _ = writer.write_record(names.iter().map(|name| as_text(name).into_owned()));
    for row in &rows {
        let _ = writer.write_record(names.iter().map(|name| cell(row.get(*name))));
    }
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
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

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => as_text(text).into_owned(),
        Some(other) => other.to_string(),
    }
}

/// A text that no spreadsheet takes for a formula: an apostrophe before `=`, `+`, `-`, `@`, a tab or a line end marks
/// it as text. Numbers stay.
fn as_text(text: &str) -> Cow<'_, str> {
    if is_marked_or_formula(text) && text.parse::<f64>().is_err() {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The text that [`as_text`] marked.
fn unmarked(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(text) if is_marked_or_formula(text) => text,
        _ => cell,
    }
}

fn is_marked_or_formula(text: &str) -> bool {
    text.trim_start_matches('\'')
        .starts_with(['=', '+', '-', '@', '\t', '\r', '\n'])
}

const MAX_ROWS: usize = 100_000;
const MAX_CELLS: usize = 1_000_000;
/// Most commas of a text. A cell may have some; a row of more cells than this is not read.
const MAX_COMMAS: usize = 8 * MAX_CELLS;

/// The cells of a row by column name.
pub type Row = BTreeMap<String, String>;

fn reader(text: &str) -> Reader<&[u8]> {
    let mut builder = ReaderBuilder::new();
    builder.has_headers(false).flexible(true).from_reader(text.as_bytes())
}

/// The offset of the next record.
fn at(reader: &Reader<&[u8]>) -> usize {
    usize::try_from(reader.position().byte()).unwrap_or(usize::MAX)
}

/// Whether the quotes of the last record of a text are closed. A quote within an unquoted cell has no meaning.
fn is_closed(record: &[u8]) -> bool {
    let (mut quoted, mut may_open) = (false, true);
    for byte in record {
        match byte {
            // Two quotes within a quoted cell stand for one: the second one opens it again.
            b'"' if quoted => (quoted, may_open) = (false, true),
            b'"' => quoted = may_open,
            _ => may_open = matches!(byte, b',' | b'\n' | b'\r'),
        }
    }
    !quoted
}

/// Whether the reader would take too much memory for a row.
fn has_too_many(text: &str) -> bool {
    let (mut commas, mut quoted) = (0, false);
    text.bytes().any(|byte| {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' if !quoted => commas = 0,
            b',' if !quoted => commas += 1,
            _ => {}
        }
        commas > MAX_COMMAS
    })
}

/// The header; `None` if the text is empty, or has more commas than any table.
pub fn columns(text: &str) -> Option<Vec<String>> {
    if has_too_many(text) {
        return None;
    }
    let header = reader(text).into_records().next()?.ok()?;
    Some(header.iter().map(|name| unmarked(name).to_owned()).collect())
}

/// The rows below the header, without empty lines.
///
/// # Errors
///
/// A message for a row with a wrong number of cells, for an unterminated quote, and for too many rows.
pub fn rows(text: &str) -> Result<Vec<Row>, String> {
    if has_too_many(text) {
        return Err(format!("it has more than {MAX_COMMAS} cells"));
    }
    let mut reader = reader(text);
    let (mut columns, mut record, mut rows) = (StringRecord::new(), StringRecord::new(), Vec::new());
    reader.read_record(&mut columns).map_err(|error| error.to_string())?;
    for number in 1.. {
        let start = at(&reader);
        if !reader.read_record(&mut record).map_err(|error| error.to_string())? {
            break;
        }
        // The reader takes the rest of the text as the last cell.
        if at(&reader) == text.len() && !is_closed(&text.as_bytes()[start..]) {
            return Err(format!("row {number}: a text in quotes does not end"));
        }
        if record.len() != columns.len() {
            let (cells, columns) = (record.len(), columns.len());
            return Err(format!("row {number} has {cells} cells below {columns} columns"));
        }
        if rows.len() == MAX_ROWS {
            return Err(format!("it has more than {MAX_ROWS} rows"));
        }
        if (rows.len() + 1) * columns.len() > MAX_CELLS {
            return Err(format!("it has more than {MAX_CELLS} cells"));
        }
        let named = columns.iter().zip(&record);
        rows.push(
            named
                .map(|(name, cell)| (unmarked(name).to_owned(), unmarked(cell).to_owned()))
                .collect(),
        );
    }
    Ok(rows)
}

/// Splits a CSV text into its header and the cells of each row.
///
/// # Errors
///
/// A message if the text is not CSV.
pub fn sheet(text: &str) -> Result<(Vec<String>, Vec<Vec<String>>), String> {
    let heading = columns(text).ok_or("it is empty")?;
    let cells = |row: Row| {
        heading
            .iter()
            .map(|name| row.get(name).cloned().unwrap_or_default())
            .collect()
    };
    let records = rows(text)?.into_iter().map(cells).collect();
    Ok((heading, records))
}

/// The rows as maps. Numeric cells become numbers, empty cells null.
///
/// # Errors
///
/// A message if the text is not CSV.
pub fn table(text: &str) -> Result<Vec<Map<String, Value>>, String> {
    let cell = |text: String| match serde_json::from_str(&text) {
        Ok(number) => Value::Number(number),
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
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    proptest! {
        /// A spreadsheet takes no text for a formula, numbers stay numbers, and reading gives the texts back.
        #[test]
        fn no_text_is_a_formula_and_each_is_read_back(name in "[=+@'a-]{1,3}", text in "['=+@\t0-9a.-]{0,6}") {
            let rows = vec![Map::from_iter([(name.clone(), Value::from(text.clone()))])];
            let written = write(&[], &rows);
            let (heading, cells) = (written.lines().next().unwrap(), &written[written.find('\n').unwrap() + 1..]);
            for cell in [heading, cells.trim_end_matches('\n')] {
                let plain = cell.trim_matches('"');
                prop_assert!(!plain.starts_with(['=', '+', '-', '@', '\t']) || plain.parse::<f64>().is_ok(), "{}", cell);
            }
            if !text.is_empty() {
                prop_assert_eq!(rows_of(&written), vec![Row::from([(name, text)])]);
            }
        }
    }

    fn rows_of(text: &str) -> Vec<Row> {
        rows(text).unwrap()
    }

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
    fn a_quote_within_a_cell_opens_nothing() {
        for last in ["5\" disk", "a\"\"b\"", "\"x \"\"y\"\"\""] {
            assert_eq!(rows(&format!("a,b\n1,{last}")).unwrap().len(), 1, "{last}");
        }
        assert!(rows("a,b\n5\" disk,\"x,\"\"").unwrap_err().contains("does not end"));
    }

    #[test]
    fn a_row_of_another_width_is_refused() {
        assert_eq!(rows("a,b\n1,2\n3").unwrap_err(), "row 2 has 1 cells below 2 columns");
        assert_eq!(rows("a,b\n1,\"2").unwrap_err(), "row 1: a text in quotes does not end");
    }
}
