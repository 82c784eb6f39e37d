//! Tables as data.

use serde::{Deserialize, Serialize};

/// A table: headings and rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sheet {
    /// Its title; empty if the plot next to it has one.
    pub title: String,
    /// The headings, with units.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Entry>>,
    /// What the first entry of each row links to on a page, relative to the page; empty without links.
    #[serde(skip)]
    pub links: Vec<Option<String>>,
}

impl Sheet {
    /// A table without a title.
    pub fn new(
        columns: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = Vec<Entry>>,
    ) -> Self {
        Self {
            title: String::new(),
            columns: columns.into_iter().map(Into::into).collect(),
            rows: rows.into_iter().collect(),
            links: Vec::new(),
        }
    }

    /// A table without a title, from rows that all name the same columns.
    pub fn from_rows<'a, const N: usize>(rows: impl IntoIterator<Item = [(&'a str, Entry); N]>) -> Self {
        let (mut columns, mut all) = (Vec::new(), Vec::new());
        for row in rows {
            let (names, entries): (_, Vec<Entry>) = row.into_iter().unzip();
            columns = names;
            all.push(entries);
        }
        Self::new(columns, all)
    }

    /// The table without the column of that name.
    pub fn without(mut self, column: &str) -> Self {
        if let Some(at) = self.columns.iter().position(|name| name == column) {
            self.columns.remove(at);
            self.rows.iter_mut().for_each(|row| drop(row.remove(at)));
        }
        self
    }

    /// The table without its empty columns.
    pub fn filled(self) -> Self {
        let columns = 0..self.columns.len();
        let filled: Vec<usize> = columns
            .filter(|&at| self.rows.iter().any(|row| row[at] != Entry::None))
            .collect();
        let row = |row: &Vec<Entry>| filled.iter().map(|&at| row[at].clone()).collect();
        Self {
            columns: filled.iter().map(|&at| self.columns[at].clone()).collect(),
            rows: self.rows.iter().map(row).collect(),
            ..self
        }
    }

    /// Sets its title.
    pub fn titled(self, title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ..self
        }
    }

    /// Swaps rows and columns. The new headings are the first entries.
    pub fn transposed(&self) -> Self {
        let mut columns = self.columns.iter().enumerate().map(|(at, name)| {
            let entries = self.rows.iter().map(move |row| row.get(at).unwrap_or(&Entry::None));
            std::iter::once(Entry::from(name.as_str()))
                .chain(entries.cloned())
                .collect()
        });
        let heads: Vec<Entry> = columns.next().unwrap_or_default();
        Self {
            title: self.title.clone(),
            columns: heads.iter().map(entry_text).collect(),
            rows: columns.collect(),
            links: Vec::new(),
        }
    }
}

/// One entry of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Entry {
    /// A number, right-aligned.
    Number(f64),
    /// A text.
    Text(String),
    /// Unknown or not measured: shown as a dash.
    None,
}

impl From<&str> for Entry {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Entry {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Entry {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl<T: Into<Entry>> From<Option<T>> for Entry {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

/// An entry of a table as text. Unknown values are empty here and a dash where they are shown.
pub(in crate::report) fn entry_text(entry: &Entry) -> String {
    match entry {
        Entry::Number(number) => digits(*number).to_string(),
        Entry::Text(text) => text.clone(),
        Entry::None => String::new(),
    }
}

/// Rounds to six significant digits; integers stay.
pub(in crate::report) fn digits(number: f64) -> f64 {
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
    fn numbers_are_rounded_to_six_digits() {
        for (number, text) in [
            (63_265.0, "63265"),
            (2.345_678_91, "2.34568"),
            (0.000_123_456_78, "0.000123457"),
            (1_234.567_89, "1234.57"),
            (-0.5, "-0.5"),
        ] {
            assert_eq!(entry_text(&Entry::Number(number)), text);
        }
        assert_eq!(entry_text(&Entry::None), "");
    }
}
