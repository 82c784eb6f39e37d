//! `plot::bars` and `plot::heat_map`: charts whose positions are categories.

use serde::Deserialize;
use serde_json::Value;

use super::spec::{
    AxisSpec, FromShorthand, Mark, Named, ScriptPlot, colour, description, keep_by_default, limited_table, or,
    plot_name, sentence,
};
use super::text_charts::{BarColumn, TextBars, same_level};
use super::text_table::{ColumnFormat, text_table};
use crate::fault::{Fault, Result};
use crate::report::Page;
use crate::report::plot::{Axis, Bar, Cell, Colour, Entry, Layer, Moment, Panel, Plot, Sheet, TooltipPoint, Tooltips};

/// Arguments of `plot::bars`: `values` or `series` for one panel, or `panels`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BarChart {
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
    at: Vec<Value>,
    #[serde(default)]
    values: Vec<Option<f64>>,
    #[serde(default)]
    series: Named<Series>,
    #[serde(default)]
    panels: Vec<PanelSpec>,
    #[serde(default)]
    marks: Vec<Mark>,
    #[serde(default = "keep_by_default")]
    keep: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PanelSpec {
    #[serde(default)]
    y: AxisSpec,
    #[serde(default)]
    values: Vec<Option<f64>>,
    #[serde(default)]
    series: Named<Series>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Series {
    name: String,
    values: Vec<Option<f64>>,
    #[serde(default)]
    intervals: Vec<Option<(f64, f64)>>,
    #[serde(default)]
    hatched: bool,
}

impl FromShorthand for Series {
    type Short = Vec<Option<f64>>;

    fn from_shorthand(name: String, values: Self::Short) -> Self {
        Self {
            name,
            values,
            intervals: Vec::new(),
            hatched: false,
        }
    }
}

impl BarChart {
    /// Builds the plot and its text.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid name, a number of values that differs from that of positions, or a mark at no position.
    pub fn draw(self, page: Page) -> Result<ScriptPlot> {
        let format = ColumnFormat::new(self.at.iter());
        let names: Vec<String> = self.at.iter().map(|at| format.apply(at)).collect();
        let mut panels = self.panels.clone();
        if !self.values.is_empty() || !self.series.0.is_empty() || panels.is_empty() {
            panels.insert(
                0,
                PanelSpec {
                    y: self.y.clone(),
                    values: self.values.clone(),
                    series: self.series.clone(),
                },
            );
        }
        let panels: Vec<(AxisSpec, Vec<Series>)> = panels.into_iter().map(PanelSpec::all).collect();
        for series in panels.iter().flat_map(|(_, all)| all) {
            if series.values.len() != names.len() {
                let (values, places) = (series.values.len(), names.len());
                let fault = Fault::usage(format!(
                    "bars need one value for each entry of `at` (entries: {places}, values: {values})"
                ));
                return Err(fault.hint("give a value, or `()`, for each of `at`"));
            }
        }
        let text = self.text(&panels, page);
        let mut moments = Vec::new();
        for mark in &self.marks {
            let index = self.at.iter().position(|at| same_level(at, &mark.at));
            let index = index.ok_or_else(|| {
                Fault::usage(format!("the mark `{}` is at a position that is not in `at`", mark.text))
            })?;
            let at = index as f64;
            moments.push(Moment {
                at,
                label: mark.text.clone(),
            });
        }
        let axis = Axis {
            names: names.clone(),
            ..self.x.axis.clone()
        };
        let drawn = panels
            .iter()
            .map(|(y, all)| panel(&axis, y, all, &names, &moments))
            .collect();
        let describe = |(y, series): (&AxisSpec, &Series)| {
            let name = if series.name.is_empty() { &y.text } else { &series.name };
            let points = names.iter().cloned().zip(&series.values);
            let points: Vec<(String, f64)> = points.filter_map(|(name, value)| Some((name, (*value)?))).collect();
            sentence(name, &points)
        };
        let each = || {
            panels
                .iter()
                .flat_map(|(y, all)| all.iter().map(move |series| (y, series)))
        };
        let sentences: Vec<String> = each().map(describe).collect();
        let heading = |(y, series): (&AxisSpec, &Series)| match (y.text.as_str(), series.name.as_str()) {
            (text, "") => text.to_owned(),
            ("", name) => name.to_owned(),
            (text, name) => format!("{name}: {text}"),
        };
        let columns = [self.x.text.clone()].into_iter().chain(each().map(heading)).collect();
        let row = |(index, name): (usize, &String)| {
            let values = each().map(|(_, series)| Entry::from(series.values[index]));
            [Entry::from(name.as_str())].into_iter().chain(values).collect()
        };
        let rows = names.iter().enumerate().map(row).collect();
        let plot = Plot {
            name: plot_name(self.name, &self.title)?,
            words: description(self.words, &self.title, &sentences),
            title: self.title,
            caption: self.caption,
            panels: drawn,
            slider: None,
            sheet: limited_table(columns, rows),
        };
        Ok(ScriptPlot {
            plot,
            text,
            keep: self.keep,
        })
    }

    fn text(&self, panels: &[(AxisSpec, Vec<Series>)], page: Page) -> String {
        let column = |y: &AxisSpec, series: &Series, alone: bool| BarColumn {
            name: match (alone, series.name.as_str()) {
                (true, _) | (_, "") if !y.text.is_empty() => y.text.clone(),
                (_, name) => name.to_owned(),
            },
            values: series.values.clone(),
        };
        let columns = panels
            .iter()
            .flat_map(|(y, all)| all.iter().map(move |series| column(y, series, all.len() == 1)));
        let bars = TextBars {
            x_label: self.x.text.clone(),
            levels: self.at.clone(),
            panels: columns.collect(),
            marks: self.marks.clone(),
        };
        bars.draw(page)
    }
}

impl PanelSpec {
    /// Its series; plain `values` are a series without a name.
    fn all(self) -> (AxisSpec, Vec<Series>) {
        let mut all = self.series.0;
        if !self.values.is_empty() || all.is_empty() {
            all.insert(0, Series::from_shorthand(String::new(), self.values));
        }
        (self.y, all)
    }
}

fn panel(x: &Axis, y: &AxisSpec, all: &[Series], names: &[String], moments: &[Moment]) -> Panel {
    let place = |index: usize| index as f64;
    let layer = |(number, series): (usize, &Series)| {
        let bars = series.values.iter().enumerate().filter_map(|(index, value)| {
            Some(Bar {
                at: place(index),
                value: (*value)?,
                base: 0.0,
                interval: series.intervals.get(index).copied().flatten(),
            })
        });
        Layer::Bars {
            name: series.name.clone(),
            bars: bars.collect(),
            colour: colour(number),
            hatched: series.hatched,
        }
    };
    let mut layers: Vec<Layer> = all.iter().enumerate().map(layer).collect();
    if !moments.is_empty() {
        layers.insert(
            0,
            Layer::Moments {
                moments: moments.to_vec(),
                colour: Colour::Quiet,
            },
        );
    }
    let spots = all.iter().flat_map(|series| {
        let values = series.values.iter().enumerate();
        values.filter_map(|(index, value)| {
            let value = (*value)?;
            let entries = vec![names[index].as_str().into(), series.name.as_str().into(), value.into()];
            Some(TooltipPoint {
                at: (place(index), value),
                entries,
            })
        })
    });
    Panel {
        x: x.clone(),
        y: y.axis.clone(),
        layers,
        spots: Tooltips {
            columns: vec![or(&x.label, "at"), "series".to_owned(), or(&y.text, "value")],
            spots: spots.collect(),
        },
        ..Panel::default()
    }
}

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

    fn drawn(value: Value) -> Result<ScriptPlot> {
        serde_json::from_value::<BarChart>(value).unwrap().draw(Page::default())
    }

    #[test]
    fn panels_of_bars_share_their_places() {
        let drawn = drawn(json!({
            "title": "Load", "x": "concurrency", "at": [1, 64],
            "panels": [
                { "y": "output tokens/s", "values": [60.0, 1200.0] },
                { "y": "p95 TTFT, ms", "series": { "vllm": [50.5, null], "tgi": [60.5, 70.5] } },
            ],
            "marks": [{ "at": 64.0, "text": "knee" }],
        }))
        .unwrap();
        assert_eq!(drawn.plot.panels.len(), 2);
        assert_eq!(drawn.plot.panels[1].layers.len(), 3);
        assert!(
            drawn.text.contains("output tokens/s") && drawn.text.contains("knee"),
            "{}",
            drawn.text
        );
        assert_eq!(drawn.plot.sheet.rows.len(), 2);
        assert_eq!(drawn.plot.panels[0].x.names, ["1", "64"]);
    }

    #[test]
    fn mismatched_arguments_are_errors() {
        let fault = |value: Value| drawn(value).unwrap_err().message;
        assert!(fault(json!({ "title": "t", "at": [1, 2], "values": [1] })).contains("(entries: 2, values: 1)"));
        let mark = json!({ "title": "t", "at": [1], "values": [1], "marks": [{ "at": 7, "text": "knee" }] });
        assert!(fault(mark).contains("`knee` is at a position that is not in `at`"));
    }

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
