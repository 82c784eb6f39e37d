//! Plots as data: panels with axes and layers, a text alternative, and tooltips. Reports build a [`Plot`]; it is drawn
//! as SVG for the page and as SVG or PNG file (`layout`), or as text (`text`).
//!
//! Pure: reads and writes no files. Colours are roles ([`Colour`]), so that one plot works on light, dark and paper.

mod layer;
mod layout;
mod marks;
mod panel;
mod scale;
mod style;
mod svg;
mod text;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use crate::report::spark::reduced;
pub use layer::{Bar, Cell, Layer, Marks, Shape, Span};
pub use layout::{Drawing, Frame, Width, file, panel, png, svg};
pub use scale::AxisScale;
pub(in crate::report) use scale::unit_name;
pub use style::css;
pub(in crate::report) use text::{Canvas, text};

use crate::unit::Unit;

/// A plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plot {
    /// File name and anchor: `a-z`, `0-9` and `-`; unique within a report.
    pub name: String,
    /// What it shows, without a full stop: `Largest input and output that fit`.
    pub title: String,
    /// Text alternative: sentences with the figures that matter, read aloud instead of the plot.
    pub words: String,
    /// What a reader must know to read it; may be empty.
    pub caption: String,
    /// One below the other, or, with `slider`, one at a time.
    pub panels: Vec<Panel>,
    /// The quantity by which the panels differ (`concurrency`), if they are slices of one space: on the page a slider
    /// selects one; on paper and in files all are drawn, one below the other.
    pub slider: Option<String>,
    /// The same data as a table.
    pub sheet: Sheet,
}

/// A pair of axes and what is drawn between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Panel {
    /// What distinguishes it from other panels: `GPU 0`, or the slider's value; may be empty.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, the lowest layer first.
    pub layers: Vec<Layer>,
    /// Tooltips of single points.
    pub spots: Tooltips,
    /// Labels of single points; those without room are left out.
    pub notes: Vec<Note>,
    /// Whether it only accompanies the others and is not as high.
    pub low: bool,
}

/// A label of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// Position on the panel's axes.
    pub at: (f64, f64),
    /// Its text.
    pub label: String,
}

impl Plot {
    /// A plot of panels, one below the other, without words and table.
    pub(in crate::report) fn new(
        name: impl Into<String>,
        title: impl Into<String>,
        panels: impl IntoIterator<Item = Panel>,
    ) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            panels: panels.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Sets its text alternative and its caption.
    pub(in crate::report) fn with_words(self, words: impl Into<String>, caption: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            caption: caption.into(),
            ..self
        }
    }
}

impl Panel {
    /// A panel without tooltips and labels of points.
    pub(in crate::report) fn new(
        title: impl Into<String>,
        x: Axis,
        y: Axis,
        layers: impl IntoIterator<Item = Layer>,
    ) -> Self {
        Self {
            title: title.into(),
            x,
            y,
            layers: layers.into_iter().collect(),
            ..Self::default()
        }
    }

    pub(in crate::report) fn with_tooltips(self, spots: Tooltips) -> Self {
        Self { spots, ..self }
    }

    pub(in crate::report) fn with_notes(self, notes: Vec<Note>) -> Self {
        Self { notes, ..self }
    }
}

impl Note {
    pub(in crate::report) fn new(at: (f64, f64), label: impl Into<String>) -> Self {
        Self {
            at,
            label: label.into(),
        }
    }
}

/// An axis. Values are in `unit`; ticks are shown in a readable multiple (bytes as GiB).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Axis {
    /// The quantity: `output length`. The unit is added from `unit`.
    pub label: String,
    /// The unit of the values.
    pub unit: Unit,
    /// Linear or logarithmic.
    pub scale: Scale,
    /// First and last value; by default what the layers need.
    pub range: Option<(f64, f64)>,
    /// Names of the positions 0, 1, 2, … of an axis of categories; empty for a numeric axis.
    pub names: Vec<String>,
}

impl Axis {
    /// A linear axis over what the layers need.
    pub(in crate::report) fn new(label: impl Into<String>, unit: Unit) -> Self {
        Self {
            label: label.into(),
            unit,
            ..Self::default()
        }
    }

    /// An axis of categories.
    pub(in crate::report) fn categories(names: impl IntoIterator<Item = String>) -> Self {
        Self {
            names: names.into_iter().collect(),
            ..Self::default()
        }
    }

    pub(in crate::report) fn with_range(self, range: impl Into<Option<(f64, f64)>>) -> Self {
        Self {
            range: range.into(),
            ..self
        }
    }

    pub(in crate::report) fn with_scale(self, scale: Scale) -> Self {
        Self { scale, ..self }
    }

    /// Its label with its unit: `latency, ms`.
    pub(in crate::report) fn heading(&self) -> String {
        scale::heading(self, scale::TickUnit::new(self.unit, 1.0))
    }
}

/// How values are mapped to positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Linearly.
    #[default]
    Linear,
    /// By their logarithm: all values must be above 0.
    Log,
}

/// The role of a colour. Roles also differ by shape, dash, pattern or label, never by hue alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Colour {
    /// Proven to fit.
    Fits,
    /// Proven to fail.
    Fails,
    /// Unknown.
    Open,
    /// Predicted to fit, not proven.
    Predicted,
    /// Results contradict each other.
    Band,
    /// The recommended point.
    Recommended,
    /// A limit that must not be exceeded; deaths.
    Limit,
    /// Background information: phases, grids, estimates.
    #[default]
    Quiet,
    /// One of several series, from 0. Eight have a colour of their own, then colours repeat with another dash.
    Series(u8),
}

impl Colour {
    /// The colour of the series with this index.
    pub(in crate::report) fn series(index: usize) -> Self {
        Self::Series(u8::try_from(index).unwrap_or(u8::MAX))
    }
}

/// Points with a tooltip. There may be 10,000 of them; repeated texts are stored once on the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tooltips {
    /// Heading of each entry, with its unit: `input`, `verdict`, `evidence`, `peak, GiB`.
    pub columns: Vec<String>,
    /// The points, in the order in which keys walk through them.
    pub spots: Vec<TooltipPoint>,
}

impl Tooltips {
    pub(in crate::report) fn new(
        columns: impl IntoIterator<Item = impl Into<String>>,
        points: impl IntoIterator<Item = TooltipPoint>,
    ) -> Self {
        Self {
            columns: columns.into_iter().map(Into::into).collect(),
            spots: points.into_iter().collect(),
        }
    }
}

/// A point and the values shown in its tooltip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TooltipPoint {
    /// Position on the panel's axes.
    pub at: (f64, f64),
    /// One value for each of `columns`; [`Entry::None`] is not shown.
    pub entries: Vec<Entry>,
}

impl TooltipPoint {
    pub(in crate::report) fn new(at: (f64, f64), entries: impl Into<Vec<Entry>>) -> Self {
        Self {
            at,
            entries: entries.into(),
        }
    }
}

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
}

impl Sheet {
    /// A table without a title.
    pub(in crate::report) fn new(
        columns: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = Vec<Entry>>,
    ) -> Self {
        Self {
            title: String::new(),
            columns: columns.into_iter().map(Into::into).collect(),
            rows: rows.into_iter().collect(),
        }
    }

    /// The same of rows that name their columns, all alike.
    pub(in crate::report) fn of<'a, const N: usize>(rows: impl IntoIterator<Item = [(&'a str, Entry); N]>) -> Self {
        let (mut columns, mut all) = (Vec::new(), Vec::new());
        for row in rows {
            let (names, entries): (_, Vec<Entry>) = row.into_iter().unzip();
            columns = names;
            all.push(entries);
        }
        Self::new(columns, all)
    }

    /// The table without its empty columns.
    pub(in crate::report) fn filled(self) -> Self {
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

    pub(in crate::report) fn titled(self, title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ..self
        }
    }

    /// Swaps rows and columns. The new headings are the first entries if these are unique, otherwise row numbers.
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
mod sheet_tests {
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
