//! A figure on the page: drawn wide and narrow, described in words, as a table, and as data for the script; and tables
//! of their own.
//!
//! The data are columns of numbers and strings, each stored once and referred to by index. String columns hold indices
//! into a list of distinct strings. The first rows of a long table are in the HTML; the script adds the rest from these
//! data.

use std::collections::HashMap;

use minijinja::{Value, context};
use serde_json::{Value as Json, json};

use crate::fmt::json_number;
use crate::report::document::{digits, entry_text, is_text, readable};
use crate::report::plot::{Axis, Drawing, Entry, Panel, Plot, Sheet, Width, panel, svg};
use crate::report::terminal::shown;
use crate::run::hide_json;

/// What the template shows of a chart in a section with this heading.
pub(super) fn figure(plot: &Plot, id: &str, heading: &str) -> Value {
    let slider = plot.slider.as_deref().filter(|_| plot.panels.len() > 1);
    let named = Plot {
        name: id.to_owned(),
        ..plot.clone()
    };
    let (views, frames) = views(&named, slider.is_some());
    context! {
        id,
        title => plot.title.as_str(),
        // Then the title is only for screen readers.
        titled_above => plot.title == heading,
        words => plot.words.as_str(),
        caption => plot.caption.as_str(),
        slider,
        panels => plot.panels.iter().map(|panel| Value::from(panel.title.as_str())).collect::<Vec<_>>(),
        views,
        table => (!plot.sheet.columns.is_empty()).then(|| table(&plot.sheet, false)),
        data => Value::from_safe_string(data(plot, &frames)),
    }
}

/// The whole figure, and with a slider also each of its panels; and the positions of their panels, for the script.
fn views(plot: &Plot, each: bool) -> (Vec<Value>, Vec<Json>) {
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
        let frames = json!({ "panels": panels, "wide": place(&wide), "narrow": place(&narrow) });
        (
            context! { panel => at, wide => safe_svg(&wide.svg), narrow => safe_svg(&narrow.svg) },
            frames,
        )
    };
    whole.chain(panels).map(view).unzip()
}

/// The drawing is escaped already; secrets are hidden here.
fn safe_svg(svg: &str) -> Value {
    Value::from_safe_string(shown(svg, false).into_owned())
}

/// Data for the script: `columns` of everything, `panels` with their points, the `table` and
/// its rows, and the panel positions of each of the views, `frames`.
fn data(plot: &Plot, frames: &[Json]) -> String {
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
    let long = readable(&plot.sheet).rows.len() > MAX_COMPLETE;
    let table = if long { columns.sheet(&plot.sheet) } else { Vec::new() };
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
    fn places(&mut self, panels: &[Panel]) -> Vec<Json> {
        let same = panels
            .windows(2)
            .all(|pair| pair[0].spots.columns == pair[1].spots.columns);
        let groups: Vec<&[Panel]> = if same { vec![panels] } else { panels.chunks(1).collect() };
        groups.into_iter().flat_map(|group| self.group(group)).collect()
    }

    /// The tooltip points of each panel: `count` rows of the columns, starting at row `from`; the columns of their x and
    /// y values, and the names and columns of their entries.
    fn group(&mut self, panels: &[Panel]) -> Vec<Json> {
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
            places.push(json!({ "from": from, "count": count, "at": at, "names": names, "values": values }));
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
const MAX_COMPLETE: usize = 200;

/// Rows of a longer table in the HTML.
const FIRST_ROWS: usize = 50;

/// What the template shows of a table: all of it, or, of a long one, what the script adds the rest to.
pub(super) fn table(sheet: &Sheet, complete: bool) -> Value {
    let sheet = readable(sheet);
    let rest = !complete && sheet.rows.len() > MAX_COMPLETE;
    let most = if rest { FIRST_ROWS } else { sheet.rows.len() };
    let column = |(at, name): (usize, &String)| {
        let entries = sheet.rows.iter().take(MAX_COMPLETE).filter_map(|row| row.get(at));
        let entries: Vec<String> = entries.map(entry_text).collect();
        // Numbers are aligned right.
        context! { name => name.as_str(), numbers => !is_text(entries.iter().map(String::as_str)) }
    };
    let rows = sheet.rows.iter().take(most);
    context! {
        title => sheet.title.as_str(),
        columns => sheet.columns.iter().enumerate().map(column).collect::<Vec<_>>(),
        rows => rows.map(|row| row.iter().map(cell).collect::<Vec<_>>()).collect::<Vec<_>>(),
        all => sheet.rows.len(),
        rest,
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
        let size = |table: &Json| ["columns", "rows"].map(|part| table[part].as_array().unwrap().len());
        let turned = json!(table(&sheet(20, 3), false));
        assert_eq!(size(&turned), [4, 19]);
        assert_eq!(turned["columns"][0]["numbers"], false);
        assert_eq!(turned["columns"][3]["numbers"], true);
        assert_eq!(turned["rows"][0], json!(["figure 1", "1", "11", "21"]));
        for (columns, rows) in [(20, 20), (8, 2), (20, 0)] {
            assert_eq!(size(&json!(table(&sheet(columns, rows), true))), [columns, rows]);
        }
    }
}
