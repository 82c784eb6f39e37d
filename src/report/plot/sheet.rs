//! The data of a plot as a table.

use serde::{Deserialize, Serialize};

/// A table: headings and rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sheet {
    /// Its title; empty if the plot beside it has one.
    #[serde(default)]
    pub title: String,
    /// The headings, with units.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Entry>>,
}

impl Sheet {
    /// Swaps rows and columns. The new headings are the first entries if these are unique, otherwise row numbers.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let mut heads: Vec<String> = self
            .rows
            .iter()
            .filter_map(|row| Some(row.first()?.as_text()))
            .collect();
        let mut unique = heads.clone();
        unique.sort_unstable();
        unique.dedup();
        let unique_heads = unique.len() == self.rows.len();
        if !unique_heads {
            heads = (1..=self.rows.len()).map(|number| format!("row {number}")).collect();
        }
        let (corner, first) = match self.columns.first() {
            Some(name) if unique_heads => (name.clone(), 1),
            _ => (String::new(), 0),
        };
        let row = |(at, name): (usize, &String)| {
            let entries = self
                .rows
                .iter()
                .map(move |row| row.get(at).cloned().unwrap_or(Entry::None));
            std::iter::once(Entry::from(name.as_str())).chain(entries).collect()
        };
        Self {
            title: self.title.clone(),
            columns: std::iter::once(corner).chain(heads).collect(),
            rows: self.columns.iter().enumerate().skip(first).map(row).collect(),
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

impl Entry {
    fn as_text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
            Self::None => String::new(),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transposed_table_has_a_row_for_each_column() {
        let sheet = |levels: [f64; 2]| Sheet {
            title: "x".to_owned(),
            columns: vec!["level".to_owned(), "speed".to_owned()],
            rows: vec![vec![levels[0].into(), 5.5.into()], vec![levels[1].into(), Entry::None]],
        };
        let transposed = sheet([1.0, 8.0]).transposed();
        assert_eq!(transposed.columns, ["level", "1", "8"]);
        assert_eq!(transposed.rows, [["speed".into(), 5.5.into(), Entry::None]]);
        let transposed = sheet([1.0, 1.0]).transposed();
        assert_eq!(transposed.columns, ["", "row 1", "row 2"]);
        assert_eq!(transposed.rows[0], ["level".into(), 1.0.into(), 1.0.into()]);
    }
}
