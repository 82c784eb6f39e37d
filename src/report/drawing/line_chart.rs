//! `plot::line` and `plot::scatter`: series of points.

use serde::Deserialize;
use serde_json::Value;

use super::spec::{
    AxisName, AxisSpec, FromShorthand, Mark, Named, ScriptPlot, colour, description, format_number, keep_by_default,
    limited_table, or, plot_name, sentence,
};
use super::text_charts::{BarColumn, TextBars, TextCurve, draw_scatter};
use crate::fault::{Fault, Result};
use crate::report::Page;
use crate::report::plot::{Colour, Entry, Layer, Moment, Panel, Plot, Scale, Shape, TooltipPoint, Tooltips};

/// Maximum number of x values that a text shows as a row each.
const ROWS: usize = 24;
/// Maximum number of points with a tooltip, to keep the page small.
const PLACES: usize = 5000;
/// Marker shapes of the series of a scatter chart.
const SHAPES: [Shape; 4] = [Shape::Circle, Shape::Cross, Shape::Diamond, Shape::Ring];

/// Arguments of `plot::line` and `plot::scatter`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineChart {
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
    #[serde(default)]
    log: Vec<AxisName>,
    series: Named<Series>,
    #[serde(default)]
    marks: Vec<Mark>,
    #[serde(default)]
    steps: bool,
    #[serde(default = "keep_by_default")]
    keep: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Series {
    name: String,
    points: Vec<(f64, Option<f64>)>,
    /// An interval around the line: `(x, low, high)`.
    #[serde(default)]
    band: Vec<(f64, f64, f64)>,
    #[serde(default)]
    dashed: bool,
}

impl FromShorthand for Series {
    type Short = Vec<(f64, Option<f64>)>;

    fn from_shorthand(name: String, points: Self::Short) -> Self {
        Self {
            name,
            points,
            band: Vec::new(),
            dashed: false,
        }
    }
}

impl LineChart {
    /// A line through the points of each series, sorted by x.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid name, or a mark whose position is not a number.
    pub fn lines(mut self, page: Page) -> Result<ScriptPlot> {
        for series in &mut self.series.0 {
            series.points.sort_by(|one, other| one.0.total_cmp(&other.0));
            series.band.sort_by(|one, other| one.0.total_cmp(&other.0));
        }
        let few = self
            .series
            .0
            .iter()
            .map(|series| series.points.len())
            .max()
            .unwrap_or(0)
            <= ROWS;
        let mut layers = Vec::new();
        for (index, series) in self.series.0.iter().enumerate() {
            let colour = colour(index);
            if !series.band.is_empty() {
                layers.push(Layer::Ribbon {
                    name: String::new(),
                    points: series.band.clone(),
                    colour,
                    solid: false,
                    steps: self.steps,
                    right: false,
                });
            }
            layers.push(Layer::Line {
                name: series.name.clone(),
                points: series.points.clone(),
                colour,
                dashed: series.dashed,
                steps: self.steps,
                dots: few,
                right: false,
            });
        }
        let text = self.text(page);
        self.into_plot(layers, text)
    }

    /// The points of each series.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid name, or a mark whose position is not a number.
    pub fn scatter(self, page: Page) -> Result<ScriptPlot> {
        let layer = |(index, series): (usize, &Series)| Layer::Dots {
            name: series.name.clone(),
            points: present_points(series).collect(),
            colour: colour(index),
            shape: SHAPES[index % SHAPES.len()],
        };
        let layers = self.series.0.iter().enumerate().map(layer).collect();
        let series: Vec<(&str, Vec<(f64, f64)>)> = self
            .series
            .0
            .iter()
            .map(|series| (series.name.as_str(), present_points(series).collect()))
            .collect();
        let text = draw_scatter((&self.x.text, &self.y.text), &series, self.logarithmic(), page);
        self.into_plot(layers, text)
    }

    fn into_plot(self, mut layers: Vec<Layer>, text: String) -> Result<ScriptPlot> {
        let moments: Result<Vec<Moment>> = self.marks.iter().map(moment).collect();
        let moments = moments?;
        if !moments.is_empty() {
            layers.push(Layer::Moments {
                moments,
                colour: Colour::Quiet,
            });
        }
        let describe = |series: &Series| {
            let points: Vec<(String, f64)> = present_points(series).map(|(x, y)| (format_number(x), y)).collect();
            sentence(&series.name, &points)
        };
        let sentences: Vec<String> = self.series.0.iter().map(describe).collect();
        let plot = Plot {
            name: plot_name(self.name, &self.title)?,
            words: description(self.words, &self.title, &sentences),
            title: self.title,
            caption: self.caption,
            panels: vec![Panel {
                title: String::new(),
                spots: tooltips(&self.x, &self.y, &self.series.0),
                x: self.x.clone().log(self.log.contains(&AxisName::X)),
                y: self.y.clone().log(self.log.contains(&AxisName::Y)),
                layers,
                ..Panel::default()
            }],
            sheet: {
                let (columns, rows) = table(&self.x.text, &self.y.text, &self.series.0);
                limited_table(columns, rows)
            },
            slider: None,
        };
        Ok(ScriptPlot {
            plot,
            text,
            keep: self.keep,
        })
    }

    /// Whether the x and the y axis are logarithmic.
    fn logarithmic(&self) -> (bool, bool) {
        let is_log = |side: &AxisSpec, way| side.axis.scale == Scale::Log || self.log.contains(&way);
        (is_log(&self.x, AxisName::X), is_log(&self.y, AxisName::Y))
    }

    /// Bars with a row for each x if there are few, otherwise a curve for each series.
    fn text(&self, page: Page) -> String {
        let levels = levels(&self.series.0);
        let single = self.series.0.len() == 1;
        let named = |series: &Series| match single {
            true if !self.y.text.is_empty() => self.y.text.clone(),
            _ if self.y.text.is_empty() => series.name.clone(),
            _ => format!("{}: {}", series.name, self.y.text),
        };
        if levels.len() <= ROWS && !self.x.is_time() && !levels.is_empty() {
            let panel = |series: &Series| BarColumn {
                name: if single { named(series) } else { series.name.clone() },
                values: levels.iter().map(|level| value(series, *level)).collect(),
            };
            let bars = TextBars {
                x_label: self.x.text.clone(),
                levels: levels.iter().map(|level| number(*level)).collect(),
                panels: self.series.0.iter().map(panel).collect(),
                marks: self.marks.clone(),
            };
            let head = if single || self.y.text.is_empty() {
                String::new()
            } else {
                format!("  {}\n", self.y.text)
            };
            return format!("{head}{}", bars.draw(page));
        }
        if self.series.0.iter().flat_map(present_points).any(|point| point.1 < 0.0) {
            let all: Vec<(&str, Vec<(f64, f64)>)> = (self.series.0.iter())
                .map(|series| (series.name.as_str(), present_points(series).collect()))
                .collect();
            return draw_scatter((&self.x.text, &self.y.text), &all, self.logarithmic(), page);
        }
        let curve = |series: &Series| TextCurve {
            x_label: self.x.text.clone(),
            name: named(series),
            points: series.points.clone(),
            top: self.y.axis.range.map(|range| range.1),
            marks: self.marks.clone(),
        };
        let curves: Vec<String> = self.series.0.iter().map(|series| curve(series).draw(page)).collect();
        curves.join("\n\n")
    }
}

fn moment(mark: &Mark) -> Result<Moment> {
    let at = mark.at.as_f64().ok_or_else(|| {
        Fault::usage(format!("the position of the mark `{}` is not a number", mark.text))
            .hint("`at` is a place of the x axis")
    })?;
    Ok(Moment {
        at,
        label: mark.text.clone(),
    })
}

fn present_points(series: &Series) -> impl Iterator<Item = (f64, f64)> {
    series.points.iter().filter_map(|(x, y)| Some((*x, (*y)?)))
}

/// The x values of all series, sorted and without duplicates.
fn levels(series: &[Series]) -> Vec<f64> {
    let mut levels: Vec<f64> = series
        .iter()
        .flat_map(|series| series.points.iter().map(|point| point.0))
        .collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    levels
}

fn value(series: &Series, level: f64) -> Option<f64> {
    series
        .points
        .iter()
        .find(|point| point.0 == level)
        .and_then(|point| point.1)
}

/// An integer if the value is whole.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        Value::from(value as i64)
    } else {
        Value::from(value)
    }
}

fn tooltips(x: &AxisSpec, y: &AxisSpec, all: &[Series]) -> Tooltips {
    let tooltip = |series: &Series, (across, up): (f64, f64)| TooltipPoint {
        at: (across, up),
        entries: vec![Entry::from(series.name.as_str()), across.into(), up.into()],
    };
    let places = all
        .iter()
        .flat_map(|series| present_points(series).map(move |at| tooltip(series, at)));
    Tooltips {
        columns: vec!["series".to_owned(), or(&x.text, "x"), or(&y.text, "y")],
        spots: places.take(PLACES).collect(),
    }
}

/// A row for each x and a column for each series, or a row for each point if x values repeat.
fn table(x: &str, y: &str, all: &[Series]) -> (Vec<String>, Vec<Vec<Entry>>) {
    let levels = levels(all);
    let once = all.iter().all(|series| series.points.len() <= levels.len());
    let repeats = all.iter().any(|series| {
        let mut places: Vec<f64> = series.points.iter().map(|point| point.0).collect();
        places.sort_by(f64::total_cmp);
        places.windows(2).any(|pair| pair[0] == pair[1])
    });
    if !once || repeats {
        let rows = all.iter().flat_map(|series| {
            series
                .points
                .iter()
                .map(|(across, up)| vec![series.name.as_str().into(), (*across).into(), (*up).into()])
        });
        return (vec!["series".to_owned(), or(x, "x"), or(y, "y")], rows.collect());
    }
    let columns = [or(x, "x")].into_iter().chain(all.iter().map(|series| match all.len() {
        1 if !y.is_empty() => y.to_owned(),
        _ => series.name.clone(),
    }));
    let row = |level: &f64| {
        [Entry::from(*level)]
            .into_iter()
            .chain(all.iter().map(|series| value(series, *level).into()))
            .collect()
    };
    (columns.collect(), levels.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn given(value: Value) -> LineChart {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_sweep_is_a_picture_and_a_text_of_rows() {
        let drawn = given(json!({
            "title": "Throughput",
            "x": "concurrency",
            "y": "tokens/s",
            "series": { "vllm": [[64, 1833.0], [1, 60.0]], "tgi": [[1, 50.5], [64, null]] },
            "log": ["x"],
            "marks": [{ "at": 64, "text": "knee" }],
        }))
        .lines(Page::default())
        .unwrap();
        assert_eq!((drawn.plot.name.as_str(), drawn.keep), ("throughput", true));
        assert!(
            drawn.text.contains("knee") && drawn.text.contains("1833.0"),
            "{}",
            drawn.text
        );
        let panel = &drawn.plot.panels[0];
        assert!(matches!(&panel.layers[1], Layer::Line { points, .. } if points[0].0 == 1.0));
        assert_eq!(panel.spots.spots.len(), 3);
        assert_eq!(drawn.plot.sheet.columns, ["concurrency", "tgi", "vllm"]);
        assert!(drawn.plot.words.contains("vllm is 60 at 1"), "{}", drawn.plot.words);
    }

    #[test]
    fn what_a_logarithmic_axis_cannot_show_is_counted() {
        let json = json!({ "title": "t", "log": ["y"], "series": { "a": [[0, 0.0], [1, 5.0], [2, 50.0]] } });
        let note = "1 value cannot be shown on these axes";
        // The text of a line has a row for each x, 0 too; the plot itself says what it leaves out.
        let line = given(json.clone()).lines(Page::default()).unwrap();
        assert!(!line.text.contains(note), "{}", line.text);
        let scatter = given(json).scatter(Page::default()).unwrap();
        assert!(scatter.text.ends_with(note), "{}", scatter.text);
    }

    #[test]
    fn a_mark_at_another_level_is_listed_below() {
        let json = json!({ "title": "t", "x": "n", "series": { "a": [[1, 2], [2, 4]] }, "marks": [{ "at": 3, "text": "limit" }] });
        let drawn = given(json).lines(Page::default()).unwrap();
        assert!(drawn.text.ends_with("  at 3: limit"), "{}", drawn.text);
        let json = json!({ "title": "t", "x": "s", "series": { "a": [[0, 2], [9, 4]] }, "marks": [{ "at": 30, "text": "limit" }] });
        let drawn = given(json).lines(Page::default()).unwrap();
        assert!(drawn.text.contains("limit (at 30) ^"), "{}", drawn.text);
    }

    #[test]
    fn a_time_line_is_a_curve() {
        let points: Vec<_> = (0..5).map(|second| json!([second, 20 * second])).collect();
        let drawn = given(json!({
            "title": "KV cache", "x": "seconds", "y": { "label": "KV cache in use", "unit": "%", "range": [0, 100] },
            "series": { "in use": points }, "keep": false,
        }))
        .lines(Page::default())
        .unwrap();
        assert!(drawn.text.starts_with("  KV cache in use, %\n"), "{}", drawn.text);
        assert!(drawn.text.contains("100") && drawn.text.contains("4.00 seconds") && !drawn.keep);
    }

    #[test]
    fn scatter_series_have_different_markers() {
        let drawn = given(json!({
            "title": "Latency by input", "x": "input, tokens", "y": "latency, ms",
            "series": [{ "name": "first", "points": [[1, 10], [2, 20]] }, { "name": "again", "points": [[1, 40]] }],
        }))
        .scatter(Page::default())
        .unwrap();
        assert_eq!(drawn.plot.panels[0].layers.len(), 2);
        assert!(
            drawn.text.contains("first") && drawn.text.contains("again"),
            "{}",
            drawn.text
        );
    }
}
