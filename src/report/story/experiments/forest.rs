//! The differences of an experiment below each other: each figure a row, with its interval, the band of what equal settings differ by, and zero.

use super::words::{name, scaled, value};
use crate::experiment::{Comparison, Contrast, Experiment, Verdict};
use crate::report::plot::{Axis, Colour, Entry, Layer, Note, Panel, Plot, Shape, Sheet, Spot, Spots};
use crate::unit::Unit;

/// Differences up to so many hundredths are always drawn where they are.
const EDGE: f64 = 100.0;

/// A difference as it is drawn, in hundredths of the first setting's mean.
struct Row<'a> {
    comparison: &'a Comparison,
    contrast: &'a Contrast,
    percent: f64,
    interval: Option<(f64, f64)>,
    /// Half the band of equal settings.
    noise: Option<f64>,
    /// Its place upwards.
    y: f64,
}

/// What a difference is drawn as, and how that is said.
const SHAPES: [(Shape, &str); 4] = [
    (Shape::Circle, ""),
    (Shape::Ring, ", no difference shown"),
    (Shape::Before, ", beyond the edge"),
    (Shape::Beyond, ", beyond the edge"),
];

impl Row<'_> {
    fn shape(&self, edge: (f64, f64)) -> Shape {
        let is = match self.contrast.verdict {
            Verdict::More | Verdict::Less => Shape::Circle,
            _ => Shape::Ring,
        };
        beyond(self.percent, edge).unwrap_or(is)
    }
}

/// What a value beyond the edge is drawn as, at the edge.
pub(super) fn beyond(percent: f64, (low, high): (f64, f64)) -> Option<Shape> {
    match percent {
        below if below < low => Some(Shape::Before),
        above if above > high => Some(Shape::Beyond),
        _ => None,
    }
}

/// The picture; nothing where no figure has a difference relative to the first setting.
pub(super) fn plot(found: &Experiment, plot: String) -> Option<Plot> {
    let drawn: Vec<&Comparison> = found
        .comparisons
        .iter()
        .filter(|one| one.contrasts.iter().any(|contrast| contrast.percent.is_some()))
        .collect();
    if drawn.is_empty() {
        return None;
    }
    let settings = &found.measured.settings;
    let others = settings.len() - 1;
    let rows: Vec<Row> = drawn
        .iter()
        .rev()
        .zip((0_u32..).map(f64::from))
        .flat_map(|(one, place)| {
            one.contrasts
                .iter()
                .filter_map(move |contrast| row(one, contrast, place, others))
        })
        .collect();
    let edge = ends(&rows);
    let mut layers = vec![Layer::Area {
        name: "equal settings differ by".to_owned(),
        outlines: rows
            .iter()
            .filter_map(|row| Some(band(row, row.noise?, edge)))
            .collect(),
        colour: Colour::Quiet,
        hatched: false,
    }];
    layers.push(Layer::Rule {
        name: String::new(),
        at: 0.0,
        upright: true,
        colour: Colour::Quiet,
        dashed: false,
        right: false,
    });
    for (index, setting) in settings.iter().enumerate().skip(1) {
        let colour = Colour::Series(u8::try_from(index - 1).unwrap_or(u8::MAX));
        let own: Vec<&Row> = rows.iter().filter(|row| row.contrast.setting == index).collect();
        layers.push(Layer::Area {
            name: if others == 1 {
                "95 % interval".to_owned()
            } else {
                String::new()
            },
            outlines: own.iter().filter_map(|row| whisker(row, edge)).collect(),
            colour,
            hatched: false,
        });
        for (shape, words) in SHAPES {
            let points: Vec<(f64, f64)> = own
                .iter()
                .filter(|row| row.shape(edge) == shape)
                .map(|row| (clamped(row.percent, edge), row.y))
                .collect();
            if !points.is_empty() {
                layers.push(Layer::Dots {
                    name: format!("{}{words}", setting.name),
                    points,
                    colour,
                    shape,
                });
            }
        }
    }
    let notes: Vec<Note> = rows
        .iter()
        .filter(|row| beyond(row.percent, edge).is_some())
        .map(|row| Note {
            at: (clamped(row.percent, edge), row.y),
            label: super::words::percent(row.percent),
        })
        .collect();
    let any = !notes.is_empty();
    let mut caption = format!(
        "Each row is a figure: the dot is how much more or less it is than with {}, the bar its 95 % interval, the band how far starts with equal settings were apart. \
         Rings are differences that the starts do not show.",
        settings[0].name
    );
    if any {
        caption += " Triangles at the edge are differences beyond it, with how large they are.";
    }
    let names: Vec<String> = drawn.iter().rev().map(|one| name(&one.name)).collect();
    Some(Plot {
        name: plot,
        title: format!("Differences from {}", settings[0].name),
        words: super::words::all(found).join(" "),
        caption,
        panels: vec![Panel {
            x: Axis {
                label: format!("difference from {}", settings[0].name),
                unit: Unit::Percent,
                range: Some(range(edge)),
                ..Axis::default()
            },
            y: Axis {
                names,
                ..Axis::default()
            },
            layers,
            spots: spots(found, &rows, edge),
            notes,
            ..Panel::default()
        }],
        sheet: sheet(found),
        ..Plot::default()
    })
}

fn row<'a>(one: &'a Comparison, contrast: &'a Contrast, place: f64, others: usize) -> Option<Row<'a>> {
    let percent = contrast.percent?;
    let first = one.means[0].map(f64::abs).filter(|mean| *mean > 0.0)?;
    let part = |value: f64| 100.0 * value / first;
    // Several settings share a row.
    let aside = (contrast.setting as f64 - 0.5 - others as f64 / 2.0) * 0.6 / others as f64;
    Some(Row {
        comparison: one,
        contrast,
        percent,
        interval: contrast.interval.map(|[low, high]| (part(low), part(high))),
        noise: one.noise.map(|noise| part(noise.largest)),
        y: place - aside,
    })
}

/// How far the picture reaches: to all that is drawn, up to the edge.
fn ends(rows: &[Row]) -> (f64, f64) {
    let intervals = rows
        .iter()
        .filter_map(|row| row.interval)
        .flat_map(|(low, high)| [low, high]);
    let noise = rows.iter().filter_map(|row| row.noise).flat_map(|half| [-half, half]);
    let values = || rows.iter().map(|row| row.percent);
    reach(intervals.chain(noise).chain(values()), values())
}

/// How far a picture of hundredths reaches down and up: to all of `ends`, unless a few large ones of `values` would make the others unreadable.
pub(super) fn reach(ends: impl Iterator<Item = f64>, values: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut sizes: Vec<f64> = values.map(f64::abs).collect();
    sizes.sort_by(f64::total_cmp);
    let most = sizes.get(sizes.len().saturating_sub(1) * 3 / 4).copied().unwrap_or(0.0);
    let edge = EDGE.max(3.0 * most);
    let (low, high) = ends.fold((-1.0_f64, 1.0_f64), |(low, high), end| (low.min(end), high.max(end)));
    (low.max(-edge), high.min(edge))
}

/// A value within the picture: one beyond its edge stands at the edge.
pub(super) fn clamped(percent: f64, (low, high): (f64, f64)) -> f64 {
    percent.clamp(low, high)
}

/// The range of the axis, with room for what stands at an edge.
pub(super) fn range((low, high): (f64, f64)) -> (f64, f64) {
    let room = 0.04 * (high - low);
    (low - room, high + room)
}

fn band(row: &Row, half: f64, edge: (f64, f64)) -> Vec<(f64, f64)> {
    let place = row.y.round();
    rectangle((clamped(-half, edge), clamped(half, edge)), (place - 0.4, place + 0.4))
}

fn whisker(row: &Row, edge: (f64, f64)) -> Option<Vec<(f64, f64)>> {
    let (low, high) = row.interval?;
    let (low, high) = (clamped(low, edge), clamped(high, edge));
    (low < high).then(|| rectangle((low, high), (row.y - 0.06, row.y + 0.06)))
}

fn rectangle(x: (f64, f64), y: (f64, f64)) -> Vec<(f64, f64)> {
    vec![(x.0, y.0), (x.1, y.0), (x.1, y.1), (x.0, y.1)]
}

fn spots(found: &Experiment, rows: &[Row], edge: (f64, f64)) -> Spots {
    let told = rows.iter().map(|row| {
        let unit = row.comparison.unit;
        let mean = |index: usize| Entry::from(row.comparison.means[index].map(|mean| value(mean, unit)));
        let interval = row
            .contrast
            .interval
            .map(|[low, high]| format!("{} to {}", value(low, unit), value(high, unit)));
        let entries = vec![
            name(&row.comparison.name).into(),
            found.measured.settings[row.contrast.setting].name.as_str().into(),
            mean(0),
            mean(row.contrast.setting),
            row.contrast.difference.map(|difference| value(difference, unit)).into(),
            interval.into(),
            row.comparison.noise.map(|noise| value(noise.largest, unit)).into(),
            row.contrast.verdict.words().into(),
        ];
        Spot {
            at: (clamped(row.percent, edge), row.y),
            entries,
        }
    });
    let columns = [
        "figure",
        "setting",
        &found.measured.settings[0].name,
        "its mean",
        "difference",
        "95 % interval",
        "equal settings differ by",
        "verdict",
    ];
    Spots {
        columns: columns.map(str::to_owned).to_vec(),
        spots: told.collect(),
    }
}

/// Every figure of every setting with what the data say.
fn sheet(found: &Experiment) -> Sheet {
    let settings = &found.measured.settings;
    let columns = [
        "figure",
        "unit",
        "setting",
        &settings[0].name,
        "its mean",
        "difference",
        "from",
        "to",
        "%",
        "equal settings differ by",
        "verdict",
    ];
    let rows = found.comparisons.iter().flat_map(|one| {
        let (factor, unit) = scaled(one.unit);
        one.contrasts.iter().map(move |contrast| {
            let number = |value: Option<f64>| Entry::from(value.map(|value| value * factor));
            vec![
                name(&one.name).into(),
                unit.into(),
                settings[contrast.setting].name.as_str().into(),
                number(one.means[0]),
                number(one.means[contrast.setting]),
                number(contrast.difference),
                number(contrast.interval.map(|interval| interval[0])),
                number(contrast.interval.map(|interval| interval[1])),
                contrast.percent.into(),
                number(one.noise.map(|noise| noise.largest)),
                contrast.verdict.words().into(),
            ]
        })
    });
    Sheet {
        title: String::new(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;
    use crate::experiment::Measured;

    pub(in crate::report::story::experiments) fn found() -> Experiment {
        const GIB: f64 = 1_073_741_824.0;
        let trial = |setting: usize, memory: f64, start: f64| json!({ "setting": setting, "figures": { "memory": memory * GIB, "start_time": start, "failed": 0.0 } });
        let measured: Measured = serde_json::from_value(json!({
            "name": "cuda_graphs of vllm", "asked": "8 requests",
            "settings": [{ "name": "on", "options": {} }, { "name": "off", "options": {} }],
            "order": [0, 1, 1, 0, 0, 1],
            "metrics": [{ "name": "memory", "unit": "bytes" }, { "name": "start_time", "unit": "s" }, { "name": "failed", "unit": "count" }],
            "trials": [
                trial(0, 17.0, 50.0), trial(1, 16.0, 30.0), trial(1, 16.1, 51.0), trial(0, 17.1, 52.0), trial(0, 16.9, 51.0),
                { "setting": 1, "figures": {}, "failed": { "message": "CUDA out of memory", "cause": "memory" } },
            ],
        }))
        .unwrap();
        Experiment::of(measured).unwrap()
    }

    #[test]
    fn a_difference_beyond_the_edge_does_not_look_like_one_at_the_edge() {
        let edge = (-20.0, 100.0);
        assert_eq!(beyond(100.0, edge), None);
        assert_eq!(beyond(1567.2, edge), Some(Shape::Beyond));
        assert_eq!(beyond(-21.0, edge), Some(Shape::Before));
        let mut all = found();
        let contrast = &mut all.comparisons[0].contrasts[0];
        contrast.percent = Some(1567.2);
        let plot = plot(&all, "x".into()).unwrap();
        let layers = &plot.panels[0].layers;
        assert!(layers.iter().any(
            |layer| matches!(layer, Layer::Dots { shape: Shape::Beyond, name, .. } if name == "off, beyond the edge")
        ));
        assert_eq!(plot.panels[0].notes[0].label, "+1,567.2 %");
        assert!(plot.caption.contains("Triangles"));
    }

    #[test]
    fn each_figure_is_a_row_with_its_interval_and_the_band_of_equal_settings() {
        let plot = plot(&found(), "x".into()).unwrap();
        let panel = &plot.panels[0];
        assert_eq!(
            panel.y.names,
            ["start time", "memory"],
            "what is nothing everywhere has no hundredths"
        );
        let Layer::Area { outlines, .. } = &panel.layers[0] else {
            panic!()
        };
        assert_eq!(outlines.len(), 2);
        let dots: Vec<(&str, &Vec<(f64, f64)>)> = panel
            .layers
            .iter()
            .filter_map(|layer| match layer {
                Layer::Dots { name, points, .. } => Some((name.as_str(), points)),
                _ => None,
            })
            .collect();
        assert_eq!(dots[0].0, "off");
        assert!(
            (dots[0].1[0].0 + 5.59).abs() < 0.01 && dots[0].1[0].1 == 1.0,
            "{dots:?}"
        );
        assert_eq!(dots[1].0, "off, no difference shown");
        assert_eq!(panel.spots.spots.len(), 2);
        assert!(
            plot.words.contains("memory 0.950 GiB less (5.6 %; 95 % interval"),
            "{}",
            plot.words
        );
        assert!(plot.sheet.rows.iter().all(|row| row.len() == plot.sheet.columns.len()));
    }
}
