//! Tables. The first rows of a long table are in the HTML; the script adds the rest from the figure's data.

use serde::Serialize;

use crate::report::document::{entry_text, is_text, readable};
use crate::report::plot::{Entry, Sheet};

/// Tables up to this length are complete without the script.
pub(super) const MAX_COMPLETE: usize = 200;

/// Rows of a longer table in the HTML.
pub(super) const FIRST_ROWS: usize = 50;

#[derive(Serialize)]
pub(super) struct Table {
    title: String,
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// Total number of rows.
    all: usize,
    /// Whether the script adds rows.
    rest: bool,
}

#[derive(Serialize)]
struct Column {
    name: String,
    /// Numeric columns are aligned right.
    numbers: bool,
}

impl Table {
    /// A complete table that belongs to no figure.
    pub(super) fn complete(sheet: &Sheet) -> Self {
        let sheet = readable(sheet);
        Self::with_rows(&sheet, sheet.rows.len())
    }

    /// The table of a figure; the script adds rows beyond the limit.
    pub(super) fn of_figure(sheet: &Sheet) -> Self {
        let sheet = readable(sheet);
        let most = if sheet.rows.len() > MAX_COMPLETE {
            FIRST_ROWS
        } else {
            MAX_COMPLETE
        };
        Self::with_rows(&sheet, most)
    }

    pub(super) fn is_long(&self) -> bool {
        self.rest
    }

    fn with_rows(sheet: &Sheet, most: usize) -> Self {
        let numbers = |at: usize| {
            let entries = sheet.rows.iter().take(MAX_COMPLETE).filter_map(|row| row.get(at));
            let entries: Vec<String> = entries.map(entry_text).collect();
            !is_text(entries.iter().map(String::as_str))
        };
        let columns = sheet.columns.iter().enumerate().map(|(at, name)| Column {
            name: name.clone(),
            numbers: numbers(at),
        });
        Self {
            title: sheet.title.clone(),
            columns: columns.collect(),
            rows: sheet
                .rows
                .iter()
                .take(most)
                .map(|row| row.iter().map(cell).collect())
                .collect(),
            all: sheet.rows.len(),
            rest: sheet.rows.len() > most,
        }
    }
}

/// The text of a cell. A part of a part is indented, and HTML drops leading blanks.
fn cell(entry: &Entry) -> String {
    let text = entry_text(entry);
    let words = text.trim_start_matches(' ');
    format!("{}{words}", "\u{a0}".repeat(text.len() - words.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_table_with_few_rows_is_transposed() {
        let sheet = |columns: usize, rows: usize| Sheet {
            title: String::new(),
            columns: (0..columns).map(|at| format!("figure {at}")).collect(),
            rows: (0..rows)
                .map(|row| (0..columns).map(|at| Entry::from((10 * row + at) as f64)).collect())
                .collect(),
        };
        let turned = Table::of_figure(&sheet(20, 3));
        assert_eq!((turned.columns.len(), turned.rows.len()), (4, 19));
        assert!(!turned.columns[0].numbers && turned.columns[3].numbers);
        assert_eq!(turned.rows[0], ["figure 1", "1", "11", "21"]);
        for (columns, rows) in [(20, 20), (8, 2), (20, 0)] {
            let kept = Table::complete(&sheet(columns, rows));
            assert_eq!((kept.columns.len(), kept.rows.len()), (columns, rows));
        }
    }
}
