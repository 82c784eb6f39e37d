//! Forest plot of an experiment: a row for each metric with its difference from the baseline setting, its 95 % interval
//! and the noise band.

use super::findings;
use crate::experiment::{Comparison, Contrast, Experiment};
use crate::fmt::{metric_label, with_unit};
use crate::report::plot::{Axis, Colour, Layer, Note, Panel, Plot, Shape, TooltipPoint, Tooltips};
use crate::unit::Unit;

/// Differences up to this many per cent are never clipped.
const MIN_CAP: f64 = 100.0;

/// The x range in per cent. Values beyond it are drawn at its edge, with a shape of their own.
#[derive(Clone, Copy)]
pub(super) struct Clip {
    low: f64,
    high: f64,
}

impl Clip {
    /// Covers all `ends`, but is capped at 3 x the 75th percentile of `values`, so that outliers do not squash the
    /// rest.
    pub(super) fn new(ends: impl Iterator<Item = f64>, values: impl Iterator<Item = f64>) -> Self {
        let mut sizes: Vec<f64> = values.map(f64::abs).collect();
        sizes.sort_by(f64::total_cmp);
        let upper_quartile = sizes.get(sizes.len().saturating_sub(1) * 3 / 4).copied().unwrap_or(0.0);
        let limit = MIN_CAP.max(3.0 * upper_quartile);
        let (low, high) = ends.fold((-1.0_f64, 1.0_f64), |(low, high), end| (low.min(end), high.max(end)));
        Self {
            low: low.max(-limit),
            high: high.min(limit),
        }
    }

    pub(super) fn clamp(self, percent: f64) -> f64 {
        percent.clamp(self.low, self.high)
    }

    /// The shape of a value beyond the range.
    pub(super) fn overflow(self, percent: f64) -> Option<Shape> {
        match percent {
            below if below < self.low => Some(Shape::Before),
            above if above > self.high => Some(Shape::Beyond),
            _ => None,
        }
    }

    /// The axis, with a margin for marks at its edges.
    pub(super) fn axis(self, label: String) -> Axis {
        let margin = 0.04 * (self.high - self.low);
        Axis::new(label, Unit::Percent).with_range((self.low - margin, self.high + margin))
    }
}

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

impl<'a> Row<'a> {
    /// None without a relative difference. `others` is the number of settings besides the baseline.
    fn new(comparison: &'a Comparison, contrast: &'a Contrast, place: usize, others: usize) -> Option<Self> {
        let baseline = comparison.means[0].map(f64::abs).filter(|mean| *mean > 0.0)?;
        let percent = |value: f64| 100.0 * value / baseline;
        // Settings of one metric are spread within its row.
        let offset = (contrast.setting as f64 - 0.5 - others as f64 / 2.0) * 0.6 / others as f64;
        Some(Self {
            comparison,
            contrast,
            percent: contrast.percent?,
            interval: contrast.interval.map(|[low, high]| (percent(low), percent(high))),
            noise: comparison.noise.map(|noise| percent(noise.largest)),
            y: place as f64 - offset,
        })
    }

    fn shape(&self, clip: Clip) -> Shape {
        clip.overflow(self.percent)
            .unwrap_or(match self.contrast.verdict.is_difference() {
                true => Shape::Circle,
                false => Shape::Ring,
            })
    }

    /// Where its marker is drawn.
    fn marker(&self, clip: Clip) -> (f64, f64) {
        (clip.clamp(self.percent), self.y)
    }

    /// A rectangle between two values, around a height.
    fn rectangle(clip: Clip, (low, high): (f64, f64), y: f64, half: f64) -> Vec<(f64, f64)> {
        let (low, high) = (clip.clamp(low), clip.clamp(high));
        vec![(low, y - half), (high, y - half), (high, y + half), (low, y + half)]
    }

    fn noise_band(&self, clip: Clip) -> Option<Vec<(f64, f64)>> {
        let half = self.noise?;
        Some(Self::rectangle(clip, (-half, half), self.y.round(), 0.4))
    }

    fn whisker(&self, clip: Clip) -> Option<Vec<(f64, f64)>> {
        let interval = self
            .interval
            .filter(|(low, high)| clip.clamp(*low) < clip.clamp(*high))?;
        Some(Self::rectangle(clip, interval, self.y, 0.06))
    }

    fn tooltip(&self, found: &Experiment, clip: Clip) -> TooltipPoint {
        let unit = self.comparison.unit;
        let in_unit = |value: Option<f64>| value.map(|value| with_unit(value, unit)).into();
        let interval = self.contrast.interval;
        let interval = interval.map(|[low, high]| format!("{} to {}", with_unit(low, unit), with_unit(high, unit)));
        let entries = [
            metric_label(&self.comparison.name).into(),
            found.measured.settings[self.contrast.setting].name.as_str().into(),
            in_unit(self.comparison.means[0]),
            in_unit(self.comparison.means[self.contrast.setting]),
            in_unit(self.contrast.difference),
            interval.into(),
            in_unit(self.comparison.noise.map(|noise| noise.largest)),
            self.contrast.verdict.words().into(),
        ];
        TooltipPoint::new(self.marker(clip), entries)
    }
}

/// The plot; none if no metric has a relative difference.
pub(super) fn plot(found: &Experiment, name: String) -> Option<Plot> {
    let settings = &found.measured.settings;
    let (baseline, others) = (&settings[0].name, settings.len() - 1);
    let mut drawn: Vec<&Comparison> = found.comparisons.iter().rev().collect();
    drawn.retain(|one| one.contrasts.iter().any(|contrast| contrast.percent.is_some()));
    let rows = drawn.iter().enumerate().flat_map(|(place, one)| {
        let contrasts = one.contrasts.iter();
        contrasts.filter_map(move |contrast| Row::new(one, contrast, place, others))
    });
    let rows: Vec<Row> = rows.collect();
    let values = || rows.iter().map(|row| row.percent);
    let intervals = rows.iter().filter_map(|row| row.interval).flat_map(<[f64; 2]>::from);
    let noise = rows.iter().filter_map(|row| row.noise).flat_map(|half| [-half, half]);
    let clip = Clip::new(intervals.chain(noise).chain(values()), values());
    let bands = rows.iter().filter_map(|row| row.noise_band(clip));
    let mut layers = vec![
        Layer::area("run-to-run", bands, Colour::Quiet),
        Layer::vertical_rule("", 0.0, Colour::Quiet),
    ];
    for (index, setting) in settings.iter().enumerate().skip(1) {
        let colour = Colour::series(index - 1);
        let own: Vec<&Row> = rows.iter().filter(|row| row.contrast.setting == index).collect();
        let label = if others == 1 { "95 % interval" } else { "" };
        layers.push(Layer::area(
            label,
            own.iter().filter_map(|row| row.whisker(clip)),
            colour,
        ));
        for (shape, words) in SHAPES {
            let points = own.iter().filter(|row| row.shape(clip) == shape);
            let points: Vec<(f64, f64)> = points.map(|row| row.marker(clip)).collect();
            if !points.is_empty() {
                layers.push(Layer::dots(format!("{}{words}", setting.name), points, colour, shape));
            }
        }
    }
    let beyond = rows.iter().filter(|row| clip.overflow(row.percent).is_some());
    let notes: Vec<Note> = beyond
        .map(|row| Note::new(row.marker(clip), super::percent(row.percent)))
        .collect();
    let mut caption = format!(
        "Each row is a metric: the dot is its difference from {baseline}, the bar the 95 % interval, the band the variation between starts with equal settings. \
         Rings are differences that are not significant or too small to matter.",
    );
    if !notes.is_empty() {
        caption += " Triangles at the edge mark larger differences, labelled with their size.";
    }
    let columns = [
        "metric",
        "setting",
        baseline,
        "its mean",
        "difference",
        "95 % interval",
        "run-to-run",
        "verdict",
    ];
    let tooltips = Tooltips::new(columns, rows.iter().map(|row| row.tooltip(found, clip)));
    let x = clip.axis(format!("difference from {baseline}"));
    let y = Axis::categories(drawn.iter().map(|one| metric_label(&one.name)));
    let panel = Panel::new("", x, y, layers).with_tooltips(tooltips).with_notes(notes);
    let words = format!("{}. The table below has the figures.", findings(found).join(". "));
    let plot = Plot::new(name, format!("Differences from {baseline}"), [panel]).with_words(words, caption);
    (!drawn.is_empty()).then_some(plot)
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
        let clip = Clip {
            low: -20.0,
            high: 100.0,
        };
        assert_eq!(clip.overflow(100.0), None);
        assert_eq!(clip.overflow(1567.2), Some(Shape::Beyond));
        assert_eq!(clip.overflow(-21.0), Some(Shape::Before));
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
