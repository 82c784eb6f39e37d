//! Tables. The first rows of a long table are in the HTML; the script adds the rest from the figure's data.

use serde::Serialize;

use crate::report::plot::{Entry, Sheet};

/// Tables up to this length are complete without the script.
pub(super) const MAX_COMPLETE: usize = 200;

/// Rows of a longer table in the HTML.
pub(super) const FIRST_ROWS: usize = 50;

/// Wider tables may be transposed.
const MAX_COLUMNS: usize = 12;

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
        Self::with_rows(sheet, sheet.rows.len())
    }

    /// The table of a figure; the script adds rows beyond the limit.
    pub(super) fn of_figure(sheet: &Sheet) -> Self {
        Self::with_rows(
            sheet,
            if sheet.rows.len() > MAX_COMPLETE {
                FIRST_ROWS
            } else {
                MAX_COMPLETE
            },
        )
    }

    pub(super) fn is_long(&self) -> bool {
        self.rest
    }

    fn with_rows(sheet: &Sheet, most: usize) -> Self {
        // A wide table with few rows is easier to read transposed.
        if sheet.columns.len() > MAX_COLUMNS.max(sheet.rows.len()) && !sheet.rows.is_empty() {
            return Self::as_given(&sheet.transposed(), usize::MAX);
        }
        Self::as_given(sheet, most)
    }

    fn as_given(sheet: &Sheet, most: usize) -> Self {
        // A transposed column mixes numbers with a few texts.
        let numbers = |at: usize| {
            let count = |is: fn(&Entry) -> bool| {
                sheet
                    .rows
                    .iter()
                    .filter_map(|row| row.get(at))
                    .filter(|entry| is(entry))
                    .count()
            };
            // `~410` is a number with a mark.
            let texts = count(|entry| matches!(entry, Entry::Text(text) if !text.starts_with('~') && !is_number(text)));
            texts == 0 || count(|entry| matches!(entry, Entry::Number(_))) > 2 * texts
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
                .map(|row| row.iter().map(text).collect())
                .collect(),
            all: sheet.rows.len(),
            rest: sheet.rows.len() > most,
        }
    }
}

/// Whether a text is a number, perhaps with a sign: `-5.60`, `± 0.87`.
fn is_number(text: &str) -> bool {
    text.chars()
        .all(|letter| letter.is_ascii_digit() || "+-−±., ".contains(letter))
}

/// An entry as text. Unknown values are empty here and a dash on the page.
pub(super) fn text(entry: &Entry) -> String {
    match entry {
        Entry::Number(number) => digits(*number).to_string(),
        Entry::Text(text) => text.clone(),
        Entry::None => String::new(),
    }
}

/// Rounds to six significant digits; integers stay.
pub(super) fn digits(number: f64) -> f64 {
    if number.fract() == 0.0 || !number.is_finite() {
        return number;
    }
    // More digits are noise and would enlarge the page.
    format!("{number:.5e}").parse().unwrap_or(number)
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

    #[test]
    fn numbers_are_rounded_to_six_digits() {
        for (number, text_of_number) in [
            (63_265.0, "63265"),
            (2.345_678_91, "2.34568"),
            (0.000_123_456_78, "0.000123457"),
            (1_234.567_89, "1234.57"),
            (-0.5, "-0.5"),
        ] {
            assert_eq!(text(&Entry::Number(number)), text_of_number);
        }
        assert_eq!(text(&Entry::None), "");
    }
}
