//! Tables as Python's and pandas' writers make them: commas, quotes around what has commas or lines in it, a heading.

use std::collections::BTreeMap;

/// Rows at most.
const MOST_ROWS: usize = 100_000;

/// The cells of a row by the name of their column.
pub(super) type Row = BTreeMap<String, String>;

/// The heading; none where there is not even a line.
pub(super) fn columns(text: &str) -> Option<Vec<String>> {
    let mut records = Records { rest: text };
    records.next()?.ok()
}

/// The rows below the heading. Empty lines are left out.
///
/// # Errors
///
/// The row, in words, that has another number of cells than the heading, or that does not end.
pub(super) fn rows(text: &str) -> Result<Vec<Row>, String> {
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
        if rows.len() == MOST_ROWS {
            return Err(format!("it has more than {MOST_ROWS} rows"));
        }
        rows.push(columns.iter().cloned().zip(cells).collect());
    }
    Ok(rows)
}

/// The records of a text, one after the other.
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
    /// The next cell, and whether its record ends with it.
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

#[cfg(test)]
mod tests {
    use super::*;

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
