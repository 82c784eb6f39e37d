//! Forest plot of an experiment: a row for each metric with its difference from the baseline setting, its 95 % interval
//! and the noise band.

use super::{metric_label, with_unit};
use crate::experiment::{Comparison, Contrast, Experiment};
use crate::report::experiment::findings;
use crate::report::plot::{Axis, Colour, Entry, Layer, Note, Panel, Plot, Shape, TooltipPoint, Tooltips};
use crate::unit::Unit;

/// Differences up to this many per cent are never clipped.
const MIN_CAP: f64 = 100.0;

/// A difference as drawn, in per cent of the baseline setting's mean.
struct Row<'a> {
    comparison: &'a Comparison,
    contrast: &'a Contrast,
    percent: f64,
    interval: Option<(f64, f64)>,
    /// Half the width of the noise band.
    noise: Option<f64>,
    y: f64,
}

/// Marker shapes and what they add to the legend.
const SHAPES: [(Shape, &str); 4] = [
    (Shape::Circle, ""),
    (Shape::Ring, ", not significant or negligible"),
    (Shape::Before, ", beyond the edge"),
    (Shape::Beyond, ", beyond the edge"),
];

impl Row<'_> {
    fn shape(&self, limits: (f64, f64)) -> Shape {
        let is = if self.contrast.verdict.is_difference() {
            Shape::Circle
        } else {
            Shape::Ring
        };
        overflow_shape(self.percent, limits).unwrap_or(is)
    }
}

/// The shape of a value beyond the x range, drawn at its edge.
pub(super) fn overflow_shape(percent: f64, (low, high): (f64, f64)) -> Option<Shape> {
    match percent {
        below if below < low => Some(Shape::Before),
        above if above > high => Some(Shape::Beyond),
        _ => None,
    }
}

/// The plot; none if no metric has a relative difference.
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
    let limits = data_range(&rows);
    let mut layers = vec![Layer::area(
        "run-to-run",
        rows.iter().filter_map(|row| Some(band(row, row.noise?, limits))),
        Colour::Quiet,
    )];
    layers.push(Layer::vertical_rule("", 0.0, Colour::Quiet));
    for (index, setting) in settings.iter().enumerate().skip(1) {
        let colour = Colour::series(index - 1);
        let own: Vec<&Row> = rows.iter().filter(|row| row.contrast.setting == index).collect();
        layers.push(Layer::area(
            if others == 1 {
                "95 % interval".to_owned()
            } else {
                String::new()
            },
            own.iter().filter_map(|row| whisker(row, limits)),
            colour,
        ));
        for (shape, words) in SHAPES {
            let points: Vec<(f64, f64)> = own
                .iter()
                .filter(|row| row.shape(limits) == shape)
                .map(|row| (clamped(row.percent, limits), row.y))
                .collect();
            if !points.is_empty() {
                layers.push(Layer::dots(format!("{}{words}", setting.name), points, colour, shape));
            }
        }
    }
    let notes: Vec<Note> = rows
        .iter()
        .filter(|row| overflow_shape(row.percent, limits).is_some())
        .map(|row| Note {
            at: (clamped(row.percent, limits), row.y),
            label: super::percent(row.percent),
        })
        .collect();
    let any = !notes.is_empty();
    let mut caption = format!(
        "Each row is a metric: the dot is its difference from {}, the bar the 95 % interval, the band the variation between starts with equal settings. \
         Rings are differences that are not significant or too small to matter.",
        settings[0].name
    );
    if any {
        caption += " Triangles at the edge mark larger differences, labelled with their size.";
    }
    let names: Vec<String> = drawn.iter().rev().map(|one| metric_label(&one.name)).collect();
    Some(Plot {
        name: plot,
        title: format!("Differences from {}", settings[0].name),
        words: format!("{}. The table below has the figures.", findings(found).join(". ")),
        caption,
        panels: vec![Panel {
            x: Axis::new(format!("difference from {}", settings[0].name), Unit::Percent)
                .with_range(padded_range(limits)),
            y: Axis::categories(names),
            layers,
            spots: spots(found, &rows, limits),
            notes,
            ..Panel::default()
        }],
        ..Plot::default()
    })
}

fn row<'a>(one: &'a Comparison, contrast: &'a Contrast, place: f64, others: usize) -> Option<Row<'a>> {
    let percent = contrast.percent?;
    let first = one.means[0].map(f64::abs).filter(|mean| *mean > 0.0)?;
    let part = |value: f64| 100.0 * value / first;
    // Settings of one metric are spread within its row.
    let offset = (contrast.setting as f64 - 0.5 - others as f64 / 2.0) * 0.6 / others as f64;
    Some(Row {
        comparison: one,
        contrast,
        percent,
        interval: contrast.interval.map(|[low, high]| (part(low), part(high))),
        noise: one.noise.map(|noise| part(noise.largest)),
        y: place - offset,
    })
}

/// The x range of all that is drawn.
fn data_range(rows: &[Row]) -> (f64, f64) {
    let intervals = rows
        .iter()
        .filter_map(|row| row.interval)
        .flat_map(|(low, high)| [low, high]);
    let noise = rows.iter().filter_map(|row| row.noise).flat_map(|half| [-half, half]);
    let values = || rows.iter().map(|row| row.percent);
    clip_range(intervals.chain(noise).chain(values()), values())
}

/// The x range in per cent. Covers all `ends`, but is capped at 3 x the 75th percentile of `values`, so that outliers
/// do not squash the rest.
pub(super) fn clip_range(data_range: impl Iterator<Item = f64>, values: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut sizes: Vec<f64> = values.map(f64::abs).collect();
    sizes.sort_by(f64::total_cmp);
    let upper_quartile = sizes.get(sizes.len().saturating_sub(1) * 3 / 4).copied().unwrap_or(0.0);
    let limits = MIN_CAP.max(3.0 * upper_quartile);
    let (low, high) = data_range.fold((-1.0_f64, 1.0_f64), |(low, high), end| (low.min(end), high.max(end)));
    (low.max(-limits), high.min(limits))
}

pub(super) fn clamped(percent: f64, (low, high): (f64, f64)) -> f64 {
    percent.clamp(low, high)
}

/// The range of the axis, with a margin for marks at its edges.
pub(super) fn padded_range((low, high): (f64, f64)) -> (f64, f64) {
    let margin = 0.04 * (high - low);
    (low - margin, high + margin)
}

fn band(row: &Row, half: f64, limits: (f64, f64)) -> Vec<(f64, f64)> {
    let place = row.y.round();
    rectangle(
        (clamped(-half, limits), clamped(half, limits)),
        (place - 0.4, place + 0.4),
    )
}

fn whisker(row: &Row, limits: (f64, f64)) -> Option<Vec<(f64, f64)>> {
    let (low, high) = row.interval?;
    let (low, high) = (clamped(low, limits), clamped(high, limits));
    (low < high).then(|| rectangle((low, high), (row.y - 0.06, row.y + 0.06)))
}

fn rectangle(x: (f64, f64), y: (f64, f64)) -> Vec<(f64, f64)> {
    vec![(x.0, y.0), (x.1, y.0), (x.1, y.1), (x.0, y.1)]
}

fn spots(found: &Experiment, rows: &[Row], limits: (f64, f64)) -> Tooltips {
    let all = rows.iter().map(|row| {
        let unit = row.comparison.unit;
        let mean = |index: usize| Entry::from(row.comparison.means[index].map(|mean| with_unit(mean, unit)));
        let interval = row
            .contrast
            .interval
            .map(|[low, high]| format!("{} to {}", with_unit(low, unit), with_unit(high, unit)));
        let entries = vec![
            metric_label(&row.comparison.name).into(),
            found.measured.settings[row.contrast.setting].name.as_str().into(),
            mean(0),
            mean(row.contrast.setting),
            row.contrast
                .difference
                .map(|difference| with_unit(difference, unit))
                .into(),
            interval.into(),
            row.comparison.noise.map(|noise| with_unit(noise.largest, unit)).into(),
            row.contrast.verdict.words().into(),
        ];
        TooltipPoint {
            at: (clamped(row.percent, limits), row.y),
            entries,
        }
    });
    let columns = [
        "metric",
        "setting",
        &found.measured.settings[0].name,
        "its mean",
        "difference",
        "95 % interval",
        "run-to-run",
        "verdict",
    ];
    Tooltips::new(columns, all)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;
    use crate::experiment::Measurements;
    use crate::report::sections::format::GIB;

    pub(in crate::report::sections::experiments) fn found() -> Experiment {
        let trial = |setting: usize, memory: f64, start: f64| json!({ "setting": setting, "figures": { "memory": memory * GIB, "start_time": start, "failed": 0.0 } });
        let measured: Measurements = serde_json::from_value(json!({
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
        Experiment::new(measured, crate::compare::higher_is_better).unwrap()
    }

    #[test]
    fn difference_beyond_the_range_has_its_own_shape() {
        let limits = (-20.0, 100.0);
        assert_eq!(overflow_shape(100.0, limits), None);
        assert_eq!(overflow_shape(1567.2, limits), Some(Shape::Beyond));
        assert_eq!(overflow_shape(-21.0, limits), Some(Shape::Before));
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
    fn each_metric_is_a_row_with_interval_and_noise_band() {
        let plot = plot(&found(), "x".into()).unwrap();
        let panel = &plot.panels[0];
        assert_eq!(
            panel.y.names,
            ["start time", "memory"],
            "a metric that is zero everywhere has no relative difference"
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
        assert_eq!(dots[1].0, "off, not significant or negligible");
        assert_eq!(panel.spots.spots.len(), 2);
        assert!(plot.words.starts_with("off: 0.95 GiB less memory"), "{}", plot.words);
    }
}
