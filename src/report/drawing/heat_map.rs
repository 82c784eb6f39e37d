//! `plot::heat_map`: a value for each pair of positions, as colours and as a table.

use serde::Deserialize;
use serde_json::Value;

use super::format::ColumnFormat;
use super::output::{ScriptPlot, description, plot_name, sentence};
use super::spec::{AxisSpec, keep_by_default};
use super::text_table::text_table;
use crate::fault::{Fault, Result};
use crate::report::Page;
use crate::report::plot::{Axis, Cell, Entry, Layer, Panel, Plot, Sheet, TooltipPoint, Tooltips};

/// Arguments of `plot::heat_map`: `values` has a row for each of `rows`, with a value for each of `columns`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeatMap {
    title: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    words: String,
    #[serde(default)]
    caption: String,
    #[serde(default)]
    x: AxisSpec,
    #[serde(default)]
    y: AxisSpec,
    /// Label of the values.
    #[serde(default)]
    value: String,
    columns: Vec<Value>,
    rows: Vec<Value>,
    values: Vec<Vec<Option<f64>>>,
    #[serde(default = "keep_by_default")]
    keep: bool,
}

impl HeatMap {
    /// Builds the plot and its text.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid name, or `values` that do not match `rows` and `columns`.
    pub fn draw(self, page: Page) -> Result<ScriptPlot> {
        let (wide, high) = (self.columns.len(), self.rows.len());
        if self.values.len() != high || self.values.iter().any(|row| row.len() != wide) {
            let fault = Fault::usage(format!(
                "`values` does not match the {high} rows and {wide} columns of the heat map"
            ));
            return Err(fault.hint("`values` has a row for each of `rows`, with a value or `()` for each of `columns`"));
        }
        let names = |places: &[Value]| {
            let format = ColumnFormat::new(places.iter());
            places.iter().map(|place| format.apply(place)).collect::<Vec<String>>()
        };
        let (columns, rows) = (names(&self.columns), names(&self.rows));
        // An axis of categories is drawn without its unit.
        let axis = |side: &AxisSpec, names: &[String]| Axis {
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
                spots.push(TooltipPoint { at: (x, y), entries });
                points.push((format!("{} and {}", columns[column], rows[row]), value));
            }
        }
        let or = |text: &str, other: &str| if text.is_empty() { other } else { text }.to_owned();
        let value = or(&self.value, "value");
        let headings = vec![or(&self.x.text, "x"), or(&self.y.text, "y"), value.clone()];
        let panel = Panel {
            x: axis(&self.x, &columns),
            y: axis(&self.y, &rows),
            layers: vec![Layer::Cells {
                name: value.clone(),
                cells,
            }],
            spots: Tooltips {
                columns: headings,
                spots,
            },
            ..Panel::default()
        };
        let corner = format!("{} \\ {}", self.y.text, self.x.text);
        let headings: Vec<String> = [corner.trim_matches([' ', '\\']).to_owned()]
            .into_iter()
            .chain(columns)
            .collect();
        // As in the plot, the first row is the lowest.
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
        let text = format!("  {value}\n{}", text_table(&headings, &texts, page));
        let plot = Plot {
            name: plot_name(self.name, &self.title)?,
            words: description(self.words, &self.title, &[sentence(&value, &points)]),
            title: self.title,
            caption: self.caption,
            panels: vec![panel],
            slider: None,
            sheet,
        };
        Ok(ScriptPlot {
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
        let drawn = serde_json::from_value::<HeatMap>(given)
            .unwrap()
            .draw(Page::default())
            .unwrap();
        assert!(matches!(&drawn.plot.panels[0].layers[0], Layer::Cells { cells, .. } if cells.len() == 3));
        let lines: Vec<&str> = drawn.text.lines().collect();
        assert!(lines[lines.len() - 1].trim_start().starts_with("64"), "{}", drawn.text);
        let uneven = json!({ "title": "t", "columns": [1, 2], "rows": [1], "values": [[1]] });
        assert!(
            serde_json::from_value::<HeatMap>(uneven)
                .unwrap()
                .draw(Page::default())
                .is_err()
        );
    }
}
