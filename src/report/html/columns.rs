//! What the script needs of a figure: columns of numbers and words, each kept once however many uses it, words as numbers of a list.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::table::digits;
use crate::report::plot::{Entry, Panel, Sheet};

/// Columns by their number.
#[derive(Default)]
pub(super) struct Columns {
    kept: Vec<Value>,
    known: HashMap<String, usize>,
}

/// What is told of the places of a panel: `count` places from row `from` of the columns.
#[derive(Serialize)]
pub(super) struct Places {
    from: usize,
    count: usize,
    /// The columns of their x and y.
    at: [usize; 2],
    /// Names and columns of what is told.
    names: Vec<String>,
    told: Vec<usize>,
}

impl Columns {
    /// Every column, in the order of their numbers.
    pub(super) fn into_values(self) -> Vec<Value> {
        self.kept
    }

    /// The rows of a table.
    pub(super) fn sheet(&mut self, sheet: &Sheet) -> Vec<usize> {
        let column = |at: usize| sheet.rows.iter().map(move |row| row.get(at).unwrap_or(&Entry::None));
        (0..sheet.columns.len()).map(|at| self.entries(column(at))).collect()
    }

    /// The places of every panel. Panels that tell the same of theirs share columns, as their table does.
    pub(super) fn places(&mut self, panels: &[Panel]) -> Vec<Places> {
        let same = panels
            .windows(2)
            .all(|pair| pair[0].spots.columns == pair[1].spots.columns);
        let groups: Vec<&[Panel]> = if same { vec![panels] } else { panels.chunks(1).collect() };
        groups.into_iter().flat_map(|group| self.group(group)).collect()
    }

    fn group(&mut self, panels: &[Panel]) -> Vec<Places> {
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
            places.push(Places {
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

    /// Numbers as they are; where any is a text, `{ w: words, i: numbers of words }`, -1 for none.
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
        if let Some(known) = self.known.get(&text) {
            return *known;
        }
        self.known.insert(text, self.kept.len());
        self.kept.push(column);
        self.kept.len() - 1
    }
}

/// A number as JSON has it, whole ones without a point; none for what JSON cannot say.
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
    use crate::report::plot::{Spot, Spots};

    #[test]
    fn a_column_is_kept_once_and_words_are_numbers() {
        let spot = |x: f64, word: &str| Spot {
            at: (x, 1.5),
            entries: vec![x.into(), word.into(), Entry::None],
        };
        let panel = |spots: Vec<Spot>| Panel {
            spots: Spots {
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
