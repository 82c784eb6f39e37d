//! A figure on the page: drawn wide and narrow, described in words, as a table, and as data for the script; and tables
//! of their own.
//!
//! The data are columns of numbers and strings, each stored once and referred to by index. String columns hold indices
//! into a list of distinct strings. The first rows of a long table are in the HTML; the script adds the rest from these
//! data.

use std::collections::HashMap;

use minijinja::Value;
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::fmt::json_number;
use crate::report::document::{digits, entry_text, is_text, readable};
use crate::report::plot::{Axis, Drawing, Entry, Panel, Plot, Sheet, Width, panel, svg};
use crate::report::terminal::shown;
use crate::run::hide_json;

#[derive(Serialize)]
pub(super) struct Figure {
    id: String,
    title: String,
    /// Whether the section's heading equals the title; then the title is only for screen readers.
    pub(super) titled_above: bool,
    words: String,
    caption: String,
    slider: Option<String>,
    panels: Vec<String>,
    views: Vec<View>,
    table: Option<Table>,
    /// JSON for a script element.
    data: Value,
}

/// The whole figure, or one of its panels.
#[derive(Serialize)]
struct View {
    /// The slider position that shows this panel; `None` for the whole figure.
    panel: Option<usize>,
    wide: Value,
    narrow: Value,
    /// Positions of the panels, for the script.
    #[serde(skip)]
    frames: Json,
}

impl Figure {
    /// `heading` is the heading of the figure's section.
    pub(super) fn new(plot: &Plot, id: &str, heading: &str) -> Self {
        let slider = plot.slider.clone().filter(|_| plot.panels.len() > 1);
        let named = Plot {
            name: id.to_owned(),
            ..plot.clone()
        };
        let views = views(&named, slider.is_some());
        let table = (!plot.sheet.columns.is_empty()).then(|| Table::of_figure(&plot.sheet));
        Self {
            id: id.to_owned(),
            title: plot.title.clone(),
            titled_above: plot.title == heading,
            words: plot.words.clone(),
            caption: plot.caption.clone(),
            slider,
            panels: plot.panels.iter().map(|panel| panel.title.clone()).collect(),
            table,
            data: Value::from_safe_string(data(plot, &views)),
            views,
        }
    }
}

/// The whole figure, and with a slider also each of its panels.
fn views(plot: &Plot, each: bool) -> Vec<View> {
    let all = if plot.panels.is_empty() { 0 } else { 1 };
    let whole = std::iter::repeat_n(None, all);
    let panels = (0..if each { plot.panels.len() } else { 0 }).map(Some);
    let view = |at: Option<usize>| {
        let drawn = |width: Width| match at {
            Some(index) => panel(plot, index, width),
            None => svg(plot, width),
        };
        let (wide, narrow) = (drawn(Width::Wide), drawn(Width::Narrow));
        let place = |drawing: &Drawing| json!({ "size": drawing.size, "frames": drawing.frames });
        let panels: Vec<usize> = at.map_or_else(|| (0..plot.panels.len()).collect(), |index| vec![index]);
        View {
            panel: at,
            frames: json!({ "panels": panels, "wide": place(&wide), "narrow": place(&narrow) }),
            wide: safe_svg(&wide.svg),
            narrow: safe_svg(&narrow.svg),
        }
    };
    whole.chain(panels).map(view).collect()
}

/// The drawing is escaped already; secrets are hidden here.
fn safe_svg(svg: &str) -> Value {
    Value::from_safe_string(shown(svg, false).into_owned())
}

/// Data for the script: `columns` of everything, `panels` with their points, the `table` and
/// its rows, and the panel positions of each of the `views`.
fn data(plot: &Plot, views: &[View]) -> String {
    let mut columns = Columns::default();
    let places = columns.places(&plot.panels);
    let panels = plot.panels.iter().zip(places).map(|(panel, places)| {
        let axis = |axis: &Axis| json!([axis.label, axis.unit, axis.names]);
        json!({
            "title": panel.title,
            "x": axis(&panel.x),
            "y": axis(&panel.y),
            "places": places,
        })
    });
    let panels: Vec<_> = panels.collect();
    let long = Table::of_figure(&plot.sheet).is_long();
    let table = if long { columns.sheet(&plot.sheet) } else { Vec::new() };
    let frames: Vec<_> = views.iter().map(|view| &view.frames).collect();
    let data = json!({ "panels": panels, "views": frames, "table": table, "rows": plot.sheet.rows.len(), "columns": columns.into_values() });
    // `<` is the only character that could end the script element.
    shown(&hide_json(data.to_string()), false).replace('<', "\\u003c")
}

/// Distinct columns.
#[derive(Default)]
struct Columns {
    columns: Vec<Json>,
    index: HashMap<String, usize>,
}

/// The tooltip points of a panel: `count` rows of the columns, starting at row `from`.
#[derive(Serialize)]
struct PanelPoints {
    from: usize,
    count: usize,
    /// Columns of the x and y values.
    at: [usize; 2],
    /// Names and columns of the tooltip entries.
    names: Vec<String>,
    values: Vec<usize>,
}

impl Columns {
    /// All columns in index order.
    fn into_values(self) -> Vec<Json> {
        self.columns
    }

    /// Column indices of a table.
    fn sheet(&mut self, sheet: &Sheet) -> Vec<usize> {
        let column = |at: usize| sheet.rows.iter().map(move |row| row.get(at).unwrap_or(&Entry::None));
        (0..sheet.columns.len()).map(|at| self.entries(column(at))).collect()
    }

    /// The points of every panel. Panels with equal tooltip entries share columns, as their table does.
    fn places(&mut self, panels: &[Panel]) -> Vec<PanelPoints> {
        let same = panels
            .windows(2)
            .all(|pair| pair[0].spots.columns == pair[1].spots.columns);
        let groups: Vec<&[Panel]> = if same { vec![panels] } else { panels.chunks(1).collect() };
        groups.into_iter().flat_map(|group| self.group(group)).collect()
    }

    fn group(&mut self, panels: &[Panel]) -> Vec<PanelPoints> {
        let Some(first) = panels.first() else { return Vec::new() };
        let spots = || panels.iter().flat_map(|panel| &panel.spots.spots);
        let names = &first.spots.columns;
        let values: Vec<usize> = (0..names.len())
            .map(|at| self.entries(spots().map(|spot| spot.entries.get(at).unwrap_or(&Entry::None))))
            .collect();
        let at = [
            self.numbers(spots().map(|spot| spot.at.0)),
            self.numbers(spots().map(|spot| spot.at.1)),
        ];
        let mut from = 0;
        let mut places = Vec::new();
        for panel in panels {
            let count = panel.spots.spots.len();
            places.push(PanelPoints {
                from,
                count,
                at,
                names: names.clone(),
                values: values.clone(),
            });
            from += count;
        }
        places
    }

    fn numbers(&mut self, values: impl Iterator<Item = f64>) -> usize {
        self.keep(Json::Array(values.map(number).collect()))
    }

    /// Numbers as they are. If any entry is text: `{ w: strings, i: indices }`, with -1 for none.
    fn entries<'a>(&mut self, entries: impl Iterator<Item = &'a Entry> + Clone) -> usize {
        if !entries.clone().any(|entry| matches!(entry, Entry::Text(_))) {
            let values = entries.map(|entry| match entry {
                Entry::Number(value) => number(*value),
                Entry::Text(_) | Entry::None => Json::Null,
            });
            return self.keep(Json::Array(values.collect()));
        }
        let mut words: Vec<String> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        let indices: Vec<i64> = entries
            .map(|entry| {
                let word = match entry {
                    Entry::None => return -1,
                    entry => entry_text(entry),
                };
                let index = *known.entry(word.clone()).or_insert_with(|| {
                    words.push(word);
                    words.len() - 1
                });
                i64::try_from(index).unwrap_or(-1)
            })
            .collect();
        self.keep(json!({ "w": words, "i": indices }))
    }

    fn keep(&mut self, column: Json) -> usize {
        let text = column.to_string();
        if let Some(index) = self.index.get(&text) {
            return *index;
        }
        self.index.insert(text, self.columns.len());
        self.columns.push(column);
        self.columns.len() - 1
    }
}

/// A JSON number, integers without a decimal point; null for NaN and infinities.
fn number(value: f64) -> Json {
    json_number(digits(value))
}

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
