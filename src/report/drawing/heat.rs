//! `plot::heat_map`: a value for each pair of places, as colours and as a table.

use serde::Deserialize;
use serde_json::Value;

use super::cells::Style;
use super::given::{Side, kept};
use super::kept::{Drawn, name, sentence, words};
use super::sheet::sheet as table;
use crate::fault::{Fault, Result};
use crate::report::Page;
use crate::report::plot::{Axis, Cell, Entry, Layer, Panel, Plot, Sheet, Spot, Spots};

/// What `plot::heat_map` is given: `values` has a row for each of `rows`, with a value for each of `columns`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heat {
    title: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    words: String,
    #[serde(default)]
    caption: String,
    #[serde(default)]
    x: Side,
    #[serde(default)]
    y: Side,
    /// What the values are.
    #[serde(default)]
    value: String,
    columns: Vec<Value>,
    rows: Vec<Value>,
    values: Vec<Vec<Option<f64>>>,
    #[serde(default = "kept")]
    keep: bool,
}

impl Heat {
    /// The picture and its text.
    ///
    /// # Errors
    ///
    /// `usage` for a wrong name, or values that are not as many as places.
    pub fn draw(self, page: Page) -> Result<Drawn> {
        let (wide, high) = (self.columns.len(), self.rows.len());
        if self.values.len() != high || self.values.iter().any(|row| row.len() != wide) {
            let fault = Fault::usage(format!("a heat map of {wide} columns and {high} rows has other values"));
            return Err(fault.hint("`values` has a row for each of `rows`, with a value or `()` for each of `columns`"));
        }
        let names = |places: &[Value]| {
            let style = Style::of(places.iter());
            places.iter().map(|place| style.text(place)).collect::<Vec<String>>()
        };
        let (columns, rows) = (names(&self.columns), names(&self.rows));
        // An axis of names is drawn without its unit.
        let axis = |side: &Side, names: &[String]| Axis {
            label: side.text.clone(),
            names: names.to_vec(),
            ..side.axis.clone()
        };
        let mut cells = Vec::new();
        let mut spots = Vec::new();
        let mut points = Vec::new();
        for (row, values) in self.values.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                let Some(value) = *value else { continue };
                let (x, y) = (column as f64, row as f64);
                cells.push(Cell {
                    x: (x - 0.5, x + 0.5),
                    y: (y - 0.5, y + 0.5),
                    value,
                });
                let entries = vec![columns[column].as_str().into(), rows[row].as_str().into(), value.into()];
                spots.push(Spot { at: (x, y), entries });
                points.push((format!("{} and {}", columns[column], rows[row]), value));
            }
        }
        let known = |text: &str, other: &str| if text.is_empty() { other } else { text }.to_owned();
        let value = known(&self.value, "value");
        let told = vec![known(&self.x.text, "x"), known(&self.y.text, "y"), value.clone()];
        let panel = Panel {
            x: axis(&self.x, &columns),
            y: axis(&self.y, &rows),
            layers: vec![Layer::Cells {
                name: value.clone(),
                cells,
            }],
            spots: Spots { columns: told, spots },
            ..Panel::default()
        };
        let corner = format!("{} \\ {}", self.y.text, self.x.text);
        let headings: Vec<String> = [corner.trim_matches([' ', '\\']).to_owned()]
            .into_iter()
            .chain(columns)
            .collect();
        // As on the picture, the first row is the lowest.
        let lines = rows.iter().zip(&self.values).rev();
        let texts: Vec<Vec<Value>> = lines
            .clone()
            .map(|(name, values)| {
                [Value::from(name.as_str())]
                    .into_iter()
                    .chain(values.iter().map(|value| Value::from(*value)))
                    .collect()
            })
            .collect();
        let entries = lines.map(|(name, values)| {
            let values = values.iter().map(|value| Entry::from(*value));
            [Entry::from(name.as_str())].into_iter().chain(values).collect()
        });
        let sheet = Sheet {
            title: String::new(),
            columns: headings.clone(),
            rows: entries.collect(),
        };
        let text = format!("  {value}\n{}", table(&headings, &texts, page));
        let plot = Plot {
            name: name(self.name, &self.title)?,
            words: words(self.words, &self.title, &[sentence(&value, &points)]),
            title: self.title,
            caption: self.caption,
            panels: vec![panel],
            slider: None,
            sheet,
        };
        Ok(Drawn {
            plot,
            text,
            keep: self.keep,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_heat_map_is_cells_and_a_table_with_its_lowest_row_below() {
        let given = json!({
            "title": "Throughput by lengths", "x": "input, tokens", "y": "output, tokens", "value": "tokens/s",
            "columns": [128, 512], "rows": [64, 256], "values": [[900.5, 700.0], [800.0, null]],
        });
        let drawn = serde_json::from_value::<Heat>(given)
            .unwrap()
            .draw(Page::default())
            .unwrap();
        assert!(matches!(&drawn.plot.panels[0].layers[0], Layer::Cells { cells, .. } if cells.len() == 3));
        let lines: Vec<&str> = drawn.text.lines().collect();
        assert!(lines[lines.len() - 1].trim_start().starts_with("64"), "{}", drawn.text);
        let uneven = json!({ "title": "t", "columns": [1, 2], "rows": [1], "values": [[1]] });
        assert!(
            serde_json::from_value::<Heat>(uneven)
                .unwrap()
                .draw(Page::default())
                .is_err()
        );
    }
}
