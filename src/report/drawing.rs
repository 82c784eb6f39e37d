//! Charts that scripts draw: turns the arguments of `plot::line`, `plot::scatter`, `plot::bars` and `plot::heat_map`
//! into a [`Plot`] for the report and a text for the terminal.
//!
//! Pure. The text has no colours, because the run's journal stores it as printed.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, from_value, json};

use crate::fault::{Fault, Kind, Result};
use crate::fmt::{Unit, number, slug, thousands};
use crate::report::Page;
use crate::report::document::ColumnFormat;
use crate::report::plot::{
    Axis, Bar, Colour, Entry, HeatCell, Layer, MarkerShape, Marks, Panel, Plot, Scale, Sheet, TooltipPoint, Tooltips,
    reduced, text,
};

/// Maximum number of points of a line that are marked.
const MARKED: usize = 24;
/// Maximum number of cells of a heat map, and of points of a scatter plot or bars. Drawing a cell takes about 7 KB.
const DRAWN: usize = 40_000;
/// Columns to which a long line is reduced. Each keeps its first, lowest, highest and last point.
const COLUMNS: usize = 2_000;
/// Maximum number of points with a tooltip, and of rows of the table next to a plot, to keep the page small.
const TOOLTIPS: usize = 5000;
const ROWS: usize = 500;

/// A plot of a script: data for the report, and text for the terminal.
#[derive(Clone, Debug)]
pub struct ScriptPlot {
    /// The data.
    pub plot: Plot,
    /// The text.
    pub text: String,
    /// Whether the run keeps the plot.
    pub keep: bool,
}

/// Declares the arguments of a chart: the common ones of all charts, then its own.
macro_rules! chart {
    ($(#[$about:meta])* $name:ident { $($(#[$attribute:meta])* $own:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            title: String,
            name: Option<String>,
            #[serde(default)]
            alt: String,
            #[serde(default)]
            caption: String,
            #[serde(default = "keep_by_default")]
            keep: bool,
            #[serde(default, deserialize_with = "axis")]
            x: Axis,
            #[serde(default, deserialize_with = "axis")]
            y: Axis,
            $($(#[$attribute])* $own: $type,)*
        }

        impl $name {
            /// The plot with these panels. `sentences` are its text alternative if the script gave none.
            fn plot(self, panels: Vec<Panel>, sheet: Sheet, sentences: &[String], page: Page) -> Result<ScriptPlot> {
                let name = self.name.unwrap_or_else(|| slug(&self.title).replace('_', "-"));
                let allowed = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '-');
                if name.is_empty() || !name.chars().all(allowed) {
                    let fault = Fault::usage(format!("a chart cannot be named `{name}`"));
                    return Err(fault.hint("use only a-z, 0-9 and -"));
                }
                let sentences = format!("{}. {}", self.title, sentences.join(" "));
                let alt = or(self.alt, sentences.trim_end());
                let mut plot = Plot::new(name, self.title, panels).with_alt(alt, self.caption);
                plot.sheet = sheet;
                let text = text(&plot, page);
                if plot.sheet.rows.len() > ROWS {
                    plot.sheet = Sheet::default();
                }
                Ok(ScriptPlot {
                    plot,
                    text,
                    keep: self.keep,
                })
            }
        }
    };
}

/// Fails if drawing would take too much memory.
fn check_size(what: &str, count: usize) -> Result<()> {
    if count <= DRAWN {
        return Ok(());
    }
    let (count, most) = (thousands(count as u64), thousands(DRAWN as u64));
    let what = format!("the chart has {count} {what}; at most {most} are drawn");
    Err(Fault::new(Kind::Limit, what).hint("draw fewer, such as averages; `keep_table` keeps all of them"))
}

/// Describes a series by its lowest and highest value.
fn sentence(name: &str, points: impl IntoIterator<Item = (String, f64)>) -> String {
    let name = if name.is_empty() { "It" } else { name };
    let mut points: Vec<(String, f64)> = points.into_iter().collect();
    points.sort_by(|one, other| one.1.total_cmp(&other.1));
    let at = |(place, value): &(String, f64)| format!("{} at {place}", number(*value));
    match points.as_slice() {
        [] => format!("{name} has no values."),
        [only] => format!("{name} is {}.", at(only)),
        [low, .., high] => format!("{name} is {} (minimum) and {} (maximum).", at(low), at(high)),
    }
}

/// `text`, or `other` if it is empty.
fn or(text: String, other: &str) -> String {
    if text.is_empty() { other.to_owned() } else { text }
}

/// Categories as text.
fn names(places: &[Value]) -> Vec<String> {
    let format = ColumnFormat::new(places.iter());
    places.iter().map(|place| format.apply(place)).collect()
}

/// Vertical rules for the marks.
fn rules(marks: &[Mark], at: impl Fn(&Mark) -> Result<f64>) -> Result<Vec<Layer>> {
    check_size("marks", marks.len())?;
    let rule = |mark: &Mark| Ok(Layer::vertical_rule(mark.text.as_str(), at(mark)?, Colour::Quiet));
    marks.iter().map(rule).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AxisName {
    X,
    Y,
}

chart! {
    /// Arguments of `plot::line` and `plot::scatter`.
    LineChart {
        #[serde(default)]
        log: Vec<AxisName>,
        #[serde(deserialize_with = "line_series")]
        series: Vec<LineSeries>,
        #[serde(default)]
        marks: Vec<Mark>,
        #[serde(default)]
        steps: bool,
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LineSeries {
    name: String,
    points: Vec<(f64, Option<f64>)>,
    /// An interval around the line: `(x, low, high)`.
    #[serde(default)]
    band: Vec<(f64, f64, f64)>,
    #[serde(default)]
    dashed: bool,
}

impl LineSeries {
    fn present(&self) -> impl Iterator<Item = (f64, f64)> {
        self.points.iter().filter_map(|(x, y)| Some((*x, (*y)?)))
    }
}

impl LineChart {
    /// A line through the points of each series, sorted by x.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid name, or a mark whose position is not a number.
    pub fn lines(mut self, page: Page) -> Result<ScriptPlot> {
        let mut layers = Vec::new();
        let few = self.series.iter().all(|series| series.points.len() <= MARKED);
        for (index, series) in self.series.iter_mut().enumerate() {
            series.points.sort_by(|one, other| one.0.total_cmp(&other.0));
            series.points = reduced(&series.points, COLUMNS);
            series.band.sort_by(|one, other| one.0.total_cmp(&other.0));
            let colour = Colour::Series(index);
            if !series.band.is_empty() {
                let points = series.band.clone();
                layers.push(Layer::new("", colour, Marks::Ribbon { points }).stepped(self.steps));
            }
            let line = Layer::line(&series.name, series.points.clone(), colour)
                .dashed(series.dashed)
                .stepped(self.steps);
            layers.push(if few {
                line.with_markers(MarkerShape::series(index))
            } else {
                line
            });
        }
        self.draw(layers, page)
    }

    /// The points of each series.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid name, or a mark whose position is not a number.
    pub fn scatter(self, page: Page) -> Result<ScriptPlot> {
        check_size("points", self.series.iter().map(|series| series.points.len()).sum())?;
        let layer = |(index, series): (usize, &LineSeries)| {
            let shape = MarkerShape::series(index);
            Layer::dots(&series.name, series.present(), Colour::Series(index), shape)
        };
        let layers = self.series.iter().enumerate().map(layer).collect();
        self.draw(layers, page)
    }

    fn draw(mut self, mut layers: Vec<Layer>, page: Page) -> Result<ScriptPlot> {
        layers.extend(rules(&self.marks, |mark| {
            let what = format!("the position of the mark `{}` is not a number", mark.text);
            let fault = || Fault::usage(what).hint("`at` is a place of the x axis");
            mark.at.as_f64().ok_or_else(fault)
        })?);
        for name in &self.log {
            match name {
                AxisName::X => self.x.scale = Scale::Log,
                AxisName::Y => self.y.scale = Scale::Log,
            }
        }
        let (x, y) = (or(self.x.heading(), "x"), self.y.heading());
        let (mut sentences, mut spots) = (Vec::new(), Vec::new());
        for series in &self.series {
            sentences.push(sentence(&series.name, series.present().map(|(x, y)| (number(x), y))));
            let entries = |(x, y): (f64, f64)| [series.name.as_str().into(), x.into(), y.into()];
            spots.extend(series.present().map(|at| TooltipPoint::new(at, entries(at))));
        }
        let headings = ["series".to_owned(), x.clone(), or(y.clone(), "y")];
        let repeats = |series: &LineSeries| levels([series]).len() < series.points.len();
        let sheet = if self.series.iter().any(repeats) {
            Sheet::new(headings.clone(), spots.iter().map(|spot| spot.entries.clone()))
        } else {
            self.table(&x, &y)
        };
        spots.truncate(TOOLTIPS);
        let panel =
            Panel::new("", self.x.clone(), self.y.clone(), layers).with_tooltips(Tooltips::new(headings, spots));
        self.plot(vec![panel], sheet, &sentences, page)
    }

    /// A row for each x and a column for each series.
    fn table(&self, x: &str, y: &str) -> Sheet {
        let levels = levels(&self.series);
        if levels.len() > ROWS {
            return Sheet::default();
        }
        let value = |series: &LineSeries, level: f64| series.points.iter().find(|point| point.0 == level)?.1;
        let row = |level: f64| -> Vec<Entry> {
            let values = self.series.iter().map(|series| value(series, level).into());
            std::iter::once(level.into()).chain(values).collect()
        };
        let alone = self.series.len() == 1 && !y.is_empty();
        let names = self.series.iter().map(|series| if alone { y } else { &series.name });
        Sheet::new(std::iter::once(x).chain(names), levels.into_iter().map(row))
    }
}

/// The x values of some series, rising, each once.
fn levels<'a>(series: impl IntoIterator<Item = &'a LineSeries>) -> Vec<f64> {
    let points = series.into_iter().flat_map(|series| &series.points);
    let mut levels: Vec<f64> = points.map(|point| point.0).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    levels
}

chart! {
    /// Arguments of `plot::bars`: `values` or `series` for one panel, or `panels`.
    BarChart {
        at: Vec<Value>,
        #[serde(default)]
        values: Vec<Option<f64>>,
        #[serde(default, deserialize_with = "bar_series")]
        series: Vec<BarSeries>,
        #[serde(default)]
        panels: Vec<BarPanel>,
        #[serde(default)]
        marks: Vec<Mark>,
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BarPanel {
    #[serde(deserialize_with = "axis")]
    y: Axis,
    values: Vec<Option<f64>>,
    #[serde(deserialize_with = "bar_series")]
    series: Vec<BarSeries>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BarSeries {
    name: String,
    values: Vec<Option<f64>>,
    #[serde(default)]
    intervals: Vec<Option<(f64, f64)>>,
    #[serde(default)]
    hatched: bool,
}

impl BarSeries {
    fn bars(&self) -> impl Iterator<Item = Bar> {
        self.values.iter().enumerate().filter_map(|(index, value)| {
            let interval = self.intervals.get(index).copied().flatten();
            let bar = Bar::new(index, (*value)?);
            Some(Bar { interval, ..bar })
        })
    }
}

impl BarChart {
    /// Builds the plot and its text.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid name, different numbers of values and positions, or a mark at no position.
    pub fn draw(mut self, page: Page) -> Result<ScriptPlot> {
        let names = names(&self.at);
        let mut given = std::mem::take(&mut self.panels);
        if !self.values.is_empty() || !self.series.is_empty() || given.is_empty() {
            let (y, values, series) = (self.y.clone(), self.values.clone(), self.series.clone());
            given.insert(0, BarPanel { y, values, series });
        }
        let series: usize = given.iter().map(|panel| panel.series.len().max(1)).sum();
        check_size("bars", names.len().saturating_mul(series))?;
        let rules = rules(&self.marks, |mark| {
            let here = |at: &Value| *at == mark.at || at.as_f64().is_some_and(|at| mark.at.as_f64() == Some(at));
            let index = self.at.iter().position(here);
            let fault = || Fault::usage(format!("the mark `{}` is at a position that is not in `at`", mark.text));
            index.map(|index| index as f64).ok_or_else(fault)
        })?;
        let x = Axis {
            names: names.clone(),
            ..self.x.clone()
        };
        let (mut panels, mut sentences, mut columns) = (Vec::new(), Vec::new(), vec![self.x.heading()]);
        let mut rows: Vec<Vec<Entry>> = names.iter().map(|name| vec![name.as_str().into()]).collect();
        for BarPanel { y, values, mut series } in given {
            // Plain `values` are a series without a name.
            if !values.is_empty() || series.is_empty() {
                let plain = BarSeries {
                    values,
                    ..BarSeries::default()
                };
                series.insert(0, plain);
            }
            let about = y.heading();
            let (mut spots, mut layers) = (Vec::new(), rules.clone());
            for (index, series) in series.iter().enumerate() {
                let (values, places) = (series.values.len(), names.len());
                if values != places {
                    let what = "bars need one value for each entry of `at`";
                    let fault = Fault::usage(format!("{what} (entries: {places}, values: {values})"));
                    return Err(fault.hint("give a value, or `()`, for each of `at`"));
                }
                let name = or(series.name.clone(), &about);
                let place = |bar: &Bar| names[bar.at as usize].clone();
                sentences.push(sentence(&name, series.bars().map(|bar| (place(&bar), bar.value))));
                columns.push(match (about.as_str(), series.name.as_str()) {
                    ("", _) | (_, "") => name,
                    (about, name) => format!("{name}: {about}"),
                });
                for (row, value) in rows.iter_mut().zip(&series.values) {
                    row.push((*value).into());
                }
                spots.extend(series.bars().map(|bar| {
                    let entries = [place(&bar).into(), series.name.as_str().into(), bar.value.into()];
                    TooltipPoint::new((bar.at, bar.value), entries)
                }));
                let layer = Layer::bars(&series.name, series.bars(), Colour::Series(index));
                layers.push(layer.dashed(series.hatched));
            }
            let headings = [or(x.label.clone(), "at"), "series".to_owned(), or(about, "value")];
            panels.push(Panel::new("", x.clone(), y, layers).with_tooltips(Tooltips::new(headings, spots)));
        }
        self.plot(panels, Sheet::new(columns, rows), &sentences, page)
    }
}

chart! {
    /// Arguments of `plot::heat_map`: `values` has a row for each of `rows`, with a value for each of `columns`, and
    /// `value` is their label.
    HeatMap {
        #[serde(default)]
        value: String,
        columns: Vec<Value>,
        rows: Vec<Value>,
        values: Vec<Vec<Option<f64>>>,
    }
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
        check_size("cells", wide.saturating_mul(high))?;
        let (columns, rows) = (names(&self.columns), names(&self.rows));
        let (mut cells, mut spots, mut points) = (Vec::new(), Vec::new(), Vec::new());
        for ((row, across), values) in rows.iter().enumerate().zip(&self.values) {
            for ((column, up), value) in columns.iter().enumerate().zip(values) {
                let Some(value) = *value else { continue };
                let at = (column as f64, row as f64);
                let [x, y] = [at.0, at.1].map(|at| (at - 0.5, at + 0.5));
                cells.push(HeatCell { x, y, value });
                let entries = [up.as_str().into(), across.as_str().into(), value.into()];
                spots.push(TooltipPoint::new(at, entries));
                points.push((format!("{up} and {across}"), value));
            }
        }
        let name = or(self.value.clone(), "value");
        let (x, y) = (self.x.heading(), self.y.heading());
        let corner = format!("{y} \\ {x}").trim_matches([' ', '\\']).to_owned();
        // As in the plot, the first row is the lowest.
        let lines = rows.iter().zip(&self.values).rev().map(|(name, values)| {
            let values = values.iter().map(|value| Entry::from(*value));
            std::iter::once(Entry::from(name.as_str())).chain(values).collect()
        });
        let sheet = Sheet::new(std::iter::once(corner).chain(columns.clone()), lines);
        // An axis of categories is drawn without its unit.
        let axis = |label: &str, names: Vec<String>| Axis {
            label: label.to_owned(),
            ..Axis::categories(names)
        };
        let sentences = [sentence(&name, points)];
        let layers = [Layer::new(&name, Colour::Quiet, Marks::Cells { cells })];
        let panel = Panel::new("", axis(&x, columns), axis(&y, rows), layers)
            .with_tooltips(Tooltips::new([or(x, "x"), or(y, "y"), name], spots));
        self.plot(vec![panel], sheet, &sentences, page)
    }
}

/// The unit that a label may end with, after a comma, or consist of.
fn unit(name: &str) -> Option<Unit> {
    let name = match name {
        "seconds" => "s",
        "°C" => "C",
        "B" => "bytes",
        name => name,
    };
    from_value(json!(name)).ok()
}

/// An axis as a script gives it: `"latency, ms"`, or a map of an [`Axis`].
fn axis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Axis, D::Error> {
    let text = match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        map @ Value::Object(_) => return from_value(map).map_err(D::Error::custom),
        other => {
            return Err(D::Error::custom(format!(
                "expected a label such as \"latency, ms\" or a map with `label`, got {other}"
            )));
        }
    };
    let (label, unit) = match text.rsplit_once(", ") {
        Some((label, name)) if unit(name).is_some() => (label, unit(name)),
        _ if matches!(text.as_str(), "s" | "seconds" | "ms") => ("time", unit(&text)),
        _ => (text.as_str(), unit(&text)),
    };
    Ok(Axis::new(label, unit.unwrap_or_default()))
}

fn line_series<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<LineSeries>, D::Error> {
    named(deserializer, "points")
}

fn bar_series<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<BarSeries>, D::Error> {
    named(deserializer, "values")
}

/// A list of named items: a map from names to the value of `key`, or a list of maps with `name`.
fn named<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D, key: &str) -> Result<Vec<T>, D::Error> {
    // Errors begin with their subject.
    let items: Vec<(String, Value)> = match Value::deserialize(deserializer)? {
        Value::Object(map) => {
            let item = |(name, short): (String, Value)| (format!("`{name}`"), json!({ "name": name, key: short }));
            map.into_iter().map(item).collect()
        }
        Value::Array(list) => {
            let about = |(place, item): (usize, &Value)| match &item["name"] {
                Value::String(name) => format!("`{name}`"),
                _ => format!("number {place} of the list"),
            };
            (1..)
                .zip(list)
                .map(|(place, item)| (about((place, &item)), item))
                .collect()
        }
        other => {
            return Err(D::Error::custom(format!(
                "expected a map of names or a list of maps with `name`, got {other}"
            )));
        }
    };
    let read = |(about, item)| from_value(item).map_err(|error| D::Error::custom(format!("{about}: {error}")));
    items.into_iter().map(read).collect()
}

/// A text at a position of the x axis.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    /// A number, or a category.
    at: Value,
    text: String,
}

/// The default of `keep`.
fn keep_by_default() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(value: Value) -> ScriptPlot {
        serde_json::from_value::<LineChart>(value)
            .unwrap()
            .lines(Page::default())
            .unwrap()
    }

    #[test]
    fn a_sweep_is_a_picture_and_a_text_of_rows() {
        let drawn = line(json!({
            "title": "Throughput & latency, p95",
            "x": "concurrency",
            "y": "tokens/s",
            "series": { "vllm": [[64, 1833.0], [1, 60.0]], "tgi": [[1, 50.5], [64, null]] },
            "log": ["x"],
            "marks": [{ "at": 64, "text": "knee" }],
        }));
        assert_eq!((drawn.plot.name.as_str(), drawn.keep), ("throughput-latency-p95", true));
        assert!(
            drawn.text.contains("knee") && drawn.text.contains("1833.0"),
            "{}",
            drawn.text
        );
        let panel = &drawn.plot.panels[0];
        assert!(matches!(&panel.layers[1].marks, Marks::Line { points, .. } if points[0].0 == 1.0));
        assert_eq!(panel.spots.spots.len(), 3);
        assert_eq!(drawn.plot.sheet.columns, ["concurrency", "tgi", "vllm"]);
        let alt = &drawn.plot.alt;
        assert!(
            alt.ends_with("vllm is 60 at 1 (minimum) and 1,833 at 64 (maximum)."),
            "{alt}"
        );
    }

    #[test]
    fn what_a_logarithmic_axis_cannot_show_is_counted() {
        let json = json!({ "title": "t", "log": ["y"], "series": { "a": [[0, 0.0], [1, 5.0], [2, 50.0]] } });
        let note = "1 value cannot be shown on these axes";
        // The text of a line has a row for each x, even if a logarithmic axis cannot show its value.
        assert!(!line(json.clone()).text.contains(note));
        let scatter: LineChart = serde_json::from_value(json).unwrap();
        let scatter = scatter.scatter(Page::default()).unwrap();
        assert!(scatter.text.ends_with(note), "{}", scatter.text);
    }

    #[test]
    fn a_mark_at_another_level_is_listed_below() {
        let drawn = line(json!({
            "title": "t", "x": "n", "series": { "a": [[1, 2], [2, 4]] }, "marks": [{ "at": 3, "text": "limit" }],
        }));
        assert!(drawn.text.ends_with("  at 3: limit"), "{}", drawn.text);
    }

    #[test]
    fn a_time_line_is_a_curve() {
        let points: Vec<_> = (0..5).map(|second| json!([second, 20 * second])).collect();
        let drawn = line(json!({
            "title": "KV cache", "x": "seconds", "y": { "label": "KV cache in use", "unit": "%", "range": [0, 100] },
            "series": { "in use": points }, "keep": false,
        }));
        assert!(
            drawn.text.contains("KV cache in use, %\n") && drawn.text.ends_with("time, s"),
            "{}",
            drawn.text
        );
        assert!(!drawn.keep);
    }

    fn bars(value: Value) -> Result<ScriptPlot> {
        serde_json::from_value::<BarChart>(value).unwrap().draw(Page::default())
    }

    #[test]
    fn panels_of_bars_share_their_places() {
        let drawn = bars(json!({
            "title": "Load", "x": "concurrency", "at": [1, 64],
            "panels": [
                { "y": "output tokens/s", "values": [60.0, 1200.0] },
                { "y": "p95 TTFT, ms", "series": { "vllm": [50.5, null], "tgi": [60.5, 70.5] } },
            ],
            "marks": [{ "at": 64.0, "text": "knee" }],
        }))
        .unwrap();
        let panels = &drawn.plot.panels;
        assert_eq!((panels.len(), panels[1].layers.len()), (2, 3));
        assert_eq!(panels[0].x.names, ["1", "64"]);
        assert!(
            drawn.text.contains("output tokens/s") && drawn.text.contains("knee"),
            "{}",
            drawn.text
        );
        let sheet = &drawn.plot.sheet;
        assert_eq!(
            sheet.columns,
            [
                "concurrency",
                "output tokens/s",
                "tgi: p95 TTFT, ms",
                "vllm: p95 TTFT, ms"
            ]
        );
        assert_eq!(
            sheet.rows[1],
            vec!["64".into(), 1200.0.into(), 70.5.into(), Entry::None]
        );
    }

    #[test]
    fn mismatched_arguments_are_errors() {
        let fault = |value: Value| bars(value).unwrap_err().message;
        assert!(fault(json!({ "title": "t", "at": [1, 2], "values": [1] })).contains("(entries: 2, values: 1)"));
        let mark = json!({ "title": "t", "at": [1], "values": [1], "marks": [{ "at": 7, "text": "knee" }] });
        assert!(fault(mark).contains("`knee` is at a position that is not in `at`"));
        assert!(fault(json!({ "title": "t", "name": "../x", "at": [1], "values": [1] })).contains("cannot be named"));
        let uneven = json!({ "title": "t", "columns": [1, 2], "rows": [1], "values": [[1]] });
        assert!(
            serde_json::from_value::<HeatMap>(uneven)
                .unwrap()
                .draw(Page::default())
                .is_err()
        );
    }

    #[test]
    fn a_heat_map_is_cells_and_a_table_with_its_lowest_row_below() {
        let given = json!({
            "title": "Throughput by lengths", "x": "input, tokens", "y": "output, tokens", "value": "tokens/s",
            "columns": [128, 512], "rows": [64, 256], "values": [[900.5, 700.0], [800.0, null]],
        });
        let heat: HeatMap = serde_json::from_value(given).unwrap();
        let drawn = heat.draw(Page::default()).unwrap();
        assert!(matches!(&drawn.plot.panels[0].layers[0].marks, Marks::Cells { cells } if cells.len() == 3));
        let lines: Vec<&str> = drawn.text.lines().collect();
        assert_eq!(
            lines[0].trim(),
            "tokens/s; rows: output, tokens; columns: input, tokens"
        );
        assert!(lines[lines.len() - 1].trim_start().starts_with("64"), "{}", drawn.text);
    }
}

#[cfg(test)]
mod argument_tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_label_may_name_its_unit() {
        let read = |value: Value| axis(value).unwrap();
        let part = |text: &str| {
            let axis = read(json!(text));
            (axis.label.clone(), axis.unit, axis.heading())
        };
        let latency = (
            "p95 latency".to_owned(),
            Unit::Milliseconds,
            "p95 latency, ms".to_owned(),
        );
        assert_eq!(part("p95 latency, ms"), latency);
        let rate = ("tokens/s".to_owned(), Unit::TokensPerSecond, "tokens/s".to_owned());
        assert_eq!(part("tokens/s"), rate);
        assert_eq!(
            part("seconds"),
            ("time".to_owned(), Unit::Seconds, "time, s".to_owned())
        );
        assert_eq!(part("first, then second").1, Unit::Count);
        assert_eq!(read(json!({ "label": "used", "unit": "bytes" })).unit, Unit::Bytes);
    }

    #[test]
    fn errors_name_the_item_they_are_about() {
        let error = |series: Value| {
            let given = json!({ "title": "t", "at": [1], "series": series });
            serde_json::from_value::<BarChart>(given).unwrap_err().to_string()
        };
        assert!(error(json!({ "first": [1], "other": "much" })).starts_with("`other`: "));
        assert!(error(json!([{ "name": "first", "length": 2 }])).starts_with("`first`: unknown field `length`"));
        let second = json!([{ "name": "first", "values": [2] }, { "values": [3] }]);
        assert!(error(second).starts_with("number 2 of the list: "));
        let error = |value: Value| axis(value).unwrap_err().to_string();
        assert!(error(json!(3)).contains("a label such as"));
        assert!(error(json!({ "label": "x", "log": true })).contains("unknown field `log`"));
    }
}
