//! The data of a figure for the page's script: columns of numbers and strings, each stored once and referred to
//! by index. String columns hold indices into a list of distinct strings.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::table::digits;
use crate::report::plot::{Entry, Panel, Sheet};

/// Distinct columns.
#[derive(Default)]
pub(super) struct Columns {
    columns: Vec<Value>,
    index: HashMap<String, usize>,
}

/// The tooltip points of a panel: `count` rows of the columns, starting at row `from`.
#[derive(Serialize)]
pub(super) struct PanelPoints {
    from: usize,
    count: usize,
    /// Columns of the x and y values.
    at: [usize; 2],
    /// Names and columns of the tooltip entries.
    names: Vec<String>,
    told: Vec<usize>,
}

impl Columns {
    /// All columns in index order.
    pub(super) fn into_values(self) -> Vec<Value> {
        self.columns
    }

    /// Column indices of a table.
    pub(super) fn sheet(&mut self, sheet: &Sheet) -> Vec<usize> {
        let column = |at: usize| sheet.rows.iter().map(move |row| row.get(at).unwrap_or(&Entry::None));
        (0..sheet.columns.len()).map(|at| self.entries(column(at))).collect()
    }

    /// The points of every panel. Panels with equal tooltip entries share columns, as their table does.
    pub(super) fn places(&mut self, panels: &[Panel]) -> Vec<PanelPoints> {
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
        let told: Vec<usize> = (0..names.len())
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
                told: told.clone(),
            });
            from += count;
        }
        places
    }

    fn numbers(&mut self, values: impl Iterator<Item = f64>) -> usize {
        self.keep(Value::Array(values.map(number).collect()))
    }

    /// Numbers as they are. If any entry is text: `{ w: strings, i: indices }`, with -1 for none.
    fn entries<'a>(&mut self, entries: impl Iterator<Item = &'a Entry> + Clone) -> usize {
        if !entries.clone().any(|entry| matches!(entry, Entry::Text(_))) {
            let values = entries.map(|entry| match entry {
                Entry::Number(value) => number(*value),
                Entry::Text(_) | Entry::None => Value::Null,
            });
            return self.keep(Value::Array(values.collect()));
        }
        let mut words: Vec<String> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        let indices: Vec<i64> = entries
            .map(|entry| {
                let word = match entry {
                    Entry::None => return -1,
                    entry => super::table::text(entry),
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

    fn keep(&mut self, column: Value) -> usize {
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
pub(super) fn number(value: f64) -> Value {
    let value = digits(value);
    match value {
        whole if whole.fract() == 0.0 && whole.abs() < 9e15 => json!(whole as i64),
        other => json!(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::plot::{TooltipPoint, Tooltips};

    #[test]
    fn a_column_is_kept_once_and_words_are_numbers() {
        let spot = |x: f64, word: &str| TooltipPoint {
            at: (x, 1.5),
            entries: vec![x.into(), word.into(), Entry::None],
        };
        let panel = |spots: Vec<TooltipPoint>| Panel {
            spots: Tooltips {
                columns: ["input", "verdict", "peak"].map(str::to_owned).to_vec(),
                spots,
            },
            ..Panel::default()
        };
        let panels = [
            panel(vec![spot(1.0, "ok"), spot(2.0, "oom")]),
            panel(vec![spot(3.0, "ok")]),
        ];
        let sheet = Sheet {
            title: String::new(),
            columns: vec!["input".to_owned()],
            rows: vec![vec![1.0.into()], vec![2.0.into()], vec![3.0.into()]],
        };
        let mut columns = Columns::default();
        let places = columns.places(&panels);
        assert_eq!(columns.sheet(&sheet), [0], "the same as that of the places");
        assert_eq!((places[1].from, places[1].count, places[1].at), (2, 1, [0, 3]));
        assert_eq!(
            columns.into_values(),
            [
                json!([1, 2, 3]),
                json!({ "w": ["ok", "oom"], "i": [0, 1, 0] }),
                json!([null, null, null]),
                json!([1.5, 1.5, 1.5])
            ]
        );
    }
}
