//! Tables: as many rows as can be read without the script; of longer ones, the script makes the rest from the figure's data.

use serde::Serialize;

use crate::report::plot::{Entry, Sheet};

/// Rows up to which a table is whole without the script.
pub(super) const WHOLE: usize = 200;

/// Rows of a longer one that are.
pub(super) const FIRST: usize = 50;

/// Columns that stand beside each other without being too many.
const BESIDE: usize = 12;

/// A table.
#[derive(Serialize)]
pub(super) struct Table {
    title: String,
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// Rows in all.
    all: usize,
    /// Whether rows are left to the script.
    rest: bool,
}

#[derive(Serialize)]
struct Column {
    name: String,
    /// Whether it holds numbers: they stand to the right.
    numbers: bool,
}

impl Table {
    /// A table of its own, whole.
    pub(super) fn of(sheet: &Sheet) -> Self {
        Self::with(sheet, sheet.rows.len())
    }

    /// The table of a figure, of which the script has the rest.
    pub(super) fn of_figure(sheet: &Sheet) -> Self {
        Self::with(sheet, if sheet.rows.len() > WHOLE { FIRST } else { WHOLE })
    }

    /// Whether rows are left to the script.
    pub(super) fn is_long(&self) -> bool {
        self.rest
    }

    fn with(sheet: &Sheet, most: usize) -> Self {
        // Many columns and few rows are read better the other way round.
        if sheet.columns.len() > BESIDE.max(sheet.rows.len()) && !sheet.rows.is_empty() {
            return Self::upright(&sheet.turned(), usize::MAX);
        }
        Self::upright(sheet, most)
    }

    fn upright(sheet: &Sheet, most: usize) -> Self {
        // Of a turned table, most rows are numbers and a few are texts.
        let numbers = |at: usize| {
            let count = |is: fn(&Entry) -> bool| {
                sheet
                    .rows
                    .iter()
                    .filter_map(|row| row.get(at))
                    .filter(|entry| is(entry))
                    .count()
            };
            let texts = count(|entry| matches!(entry, Entry::Text(_)));
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

/// An entry as people read it; what is not known is empty here and a dash on the page.
pub(super) fn text(entry: &Entry) -> String {
    match entry {
        Entry::Number(number) => digits(*number).to_string(),
        Entry::Text(text) => text.clone(),
        Entry::None => String::new(),
    }
}

/// A number with as many digits as say something: whole ones as they are, others six.
pub(super) fn digits(number: f64) -> f64 {
    if number.fract() == 0.0 || !number.is_finite() {
        return number;
    }
    // More digits than these are noise, and the page carries each of them.
    format!("{number:.5e}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_many_columns_and_few_rows_is_turned() {
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
            let kept = Table::of(&sheet(columns, rows));
            assert_eq!((kept.columns.len(), kept.rows.len()), (columns, rows));
        }
    }

    #[test]
    fn numbers_have_as_many_digits_as_say_something() {
        for (number, told) in [
            (63_265.0, "63265"),
            (2.345_678_91, "2.34568"),
            (0.000_123_456_78, "0.000123457"),
            (1_234.567_89, "1234.57"),
            (-0.5, "-0.5"),
        ] {
            assert_eq!(text(&Entry::Number(number)), told);
        }
        assert_eq!(text(&Entry::None), "");
    }
}
