//! `plot::line` and `plot::scatter`: series of points.

use serde::Deserialize;
use serde_json::Value;

use super::bars::{Bars, Panel as Column};
use super::curve::Curve;
use super::dots;
use super::given::{Behind, Mark, Named, Side, Way, kept};
use super::kept::{Drawn, figure, name, sentence, sheet, words};
use crate::fault::{Fault, Result};
use crate::report::Page;
use crate::report::plot::{Colour, Entry, Layer, Moment, Panel, Plot, Scale, Shape, Spot, Spots};

/// Levels at most that a text shows as a row each.
const ROWS: usize = 24;
/// Places at most of which something is told: a page stays small.
const PLACES: usize = 5000;
/// What the points of the n-th series of a scatter are drawn as.
const SHAPES: [Shape; 4] = [Shape::Circle, Shape::Cross, Shape::Diamond, Shape::Ring];

/// What `plot::line` and `plot::scatter` are given.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lines {
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
    #[serde(default)]
    log: Vec<Way>,
    series: Named<Series>,
    #[serde(default)]
    marks: Vec<Mark>,
    #[serde(default)]
    steps: bool,
    #[serde(default = "kept")]
    keep: bool,
}

/// One series.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Series {
    name: String,
    points: Vec<(f64, Option<f64>)>,
    /// An interval around it: `(x, low, high)`.
    #[serde(default)]
    band: Vec<(f64, f64, f64)>,
    #[serde(default)]
    dashed: bool,
}

impl Behind for Series {
    type Short = Vec<(f64, Option<f64>)>;

    fn of(name: String, points: Self::Short) -> Self {
        Self {
            name,
            points,
            band: Vec::new(),
            dashed: false,
        }
    }
}

impl Lines {
    /// Lines through the points of each series, x rising.
    ///
    /// # Errors
    ///
    /// `usage` for a wrong name, or a mark that is at no number.
    pub fn lines(mut self, page: Page) -> Result<Drawn> {
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
        self.drawn(layers, text)
    }

    /// The points of each series.
    ///
    /// # Errors
    ///
    /// `usage` for a wrong name, or a mark that is at no number.
    pub fn scatter(self, page: Page) -> Result<Drawn> {
        let layer = |(index, series): (usize, &Series)| Layer::Dots {
            name: series.name.clone(),
            points: seen(series).collect(),
            colour: colour(index),
            shape: SHAPES[index % SHAPES.len()],
        };
        let layers = self.series.0.iter().enumerate().map(layer).collect();
        let series: Vec<(&str, Vec<(f64, f64)>)> = self
            .series
            .0
            .iter()
            .map(|series| (series.name.as_str(), seen(series).collect()))
            .collect();
        let text = dots::draw((&self.x.text, &self.y.text), &series, self.logarithmic(), page);
        self.drawn(layers, text)
    }

    fn drawn(self, mut layers: Vec<Layer>, text: String) -> Result<Drawn> {
        let moments: Result<Vec<Moment>> = self.marks.iter().map(moment).collect();
        let moments = moments?;
        if !moments.is_empty() {
            layers.push(Layer::Moments {
                moments,
                colour: Colour::Quiet,
            });
        }
        let told = |series: &Series| {
            let points: Vec<(String, f64)> = seen(series).map(|(x, y)| (figure(x), y)).collect();
            sentence(&series.name, &points)
        };
        let sentences: Vec<String> = self.series.0.iter().map(told).collect();
        let plot = Plot {
            name: name(self.name, &self.title)?,
            words: words(self.words, &self.title, &sentences),
            title: self.title,
            caption: self.caption,
            panels: vec![Panel {
                title: String::new(),
                spots: spots(&self.x, &self.y, &self.series.0),
                x: self.x.clone().log(self.log.contains(&Way::X)),
                y: self.y.clone().log(self.log.contains(&Way::Y)),
                layers,
                ..Panel::default()
            }],
            sheet: {
                let (columns, rows) = table(&self.x.text, &self.y.text, &self.series.0);
                sheet(columns, rows)
            },
            slider: None,
        };
        Ok(Drawn {
            plot,
            text,
            keep: self.keep,
        })
    }

    /// Which of its axes are logarithmic.
    fn logarithmic(&self) -> (bool, bool) {
        let of = |side: &Side, way| side.axis.scale == Scale::Log || self.log.contains(&way);
        (of(&self.x, Way::X), of(&self.y, Way::Y))
    }

    /// A row for each of a few levels, a curve for each series otherwise.
    fn text(&self, page: Page) -> String {
        let levels = levels(&self.series.0);
        let single = self.series.0.len() == 1;
        let named = |series: &Series| match single {
            true if !self.y.text.is_empty() => self.y.text.clone(),
            _ if self.y.text.is_empty() => series.name.clone(),
            _ => format!("{}: {}", series.name, self.y.text),
        };
        if levels.len() <= ROWS && !self.x.is_time() && !levels.is_empty() {
            let panel = |series: &Series| Column {
                name: if single { named(series) } else { series.name.clone() },
                values: levels.iter().map(|level| value(series, *level)).collect(),
            };
            let bars = Bars {
                along: self.x.text.clone(),
                at: levels.iter().map(|level| number(*level)).collect(),
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
        if self.series.0.iter().flat_map(seen).any(|point| point.1 < 0.0) {
            let all: Vec<(&str, Vec<(f64, f64)>)> = (self.series.0.iter())
                .map(|series| (series.name.as_str(), seen(series).collect()))
                .collect();
            return dots::draw((&self.x.text, &self.y.text), &all, self.logarithmic(), page);
        }
        let curve = |series: &Series| Curve {
            along: self.x.text.clone(),
            name: named(series),
            points: series.points.clone(),
            top: self.y.axis.range.map(|range| range.1),
            marks: self.marks.clone(),
        };
        let curves: Vec<String> = self.series.0.iter().map(|series| curve(series).draw(page)).collect();
        curves.join("\n\n")
    }
}

/// The colour of the n-th series.
pub(super) fn colour(index: usize) -> Colour {
    Colour::Series(u8::try_from(index).unwrap_or(u8::MAX))
}

fn moment(mark: &Mark) -> Result<Moment> {
    let at = mark.at.as_f64().ok_or_else(|| {
        Fault::usage(format!("the mark `{}` is at no number", mark.text)).hint("`at` is a place of the x axis")
    })?;
    Ok(Moment {
        at,
        label: mark.text.clone(),
    })
}

fn seen(series: &Series) -> impl Iterator<Item = (f64, f64)> {
    series.points.iter().filter_map(|(x, y)| Some((*x, (*y)?)))
}

/// All x of some series, each once, rising.
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

/// A number without the point of a whole one.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        Value::from(value as i64)
    } else {
        Value::from(value)
    }
}

fn spots(x: &Side, y: &Side, all: &[Series]) -> Spots {
    let spot = |series: &Series, (across, up): (f64, f64)| Spot {
        at: (across, up),
        entries: vec![Entry::from(series.name.as_str()), across.into(), up.into()],
    };
    let places = all
        .iter()
        .flat_map(|series| seen(series).map(move |at| spot(series, at)));
    Spots {
        columns: vec!["series".to_owned(), or(&x.text, "x"), or(&y.text, "y")],
        spots: places.take(PLACES).collect(),
    }
}

/// A text, or another where it is empty.
fn or(text: &str, other: &str) -> String {
    if text.is_empty() { other } else { text }.to_owned()
}

/// A row for each level, a column for each series; a row for each point, where levels repeat.
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

    fn given(value: Value) -> Lines {
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
        let said = "1 value cannot be shown on these axes";
        // A line is a row for each level as text, 0 too; the picture says for itself what it leaves out.
        let line = given(json.clone()).lines(Page::default()).unwrap();
        assert!(!line.text.contains(said), "{}", line.text);
        let scatter = given(json).scatter(Page::default()).unwrap();
        assert!(scatter.text.ends_with(said), "{}", scatter.text);
    }

    #[test]
    fn a_mark_beside_the_levels_is_told_below_them() {
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
    fn a_scatter_tells_its_series_apart() {
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
