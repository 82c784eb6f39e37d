//! Every start of an experiment as a ring: a row for each metric, relative to the baseline setting's mean.

use super::forest::Clip;
use super::label;
use crate::experiment::{Comparison, Experiment};
use crate::fmt::{GIB, metric_label, with_unit};
use crate::report::plot::{Axis, Colour, Entry, Layer, Panel, Plot, Shape, Sheet, TooltipPoint, Tooltips};
use crate::unit::Unit;

/// The value of a metric in one start.
struct StartPoint<'a> {
    comparison: &'a Comparison,
    setting: usize,
    value: f64,
    percent: f64,
    y: f64,
}

impl StartPoint<'_> {
    fn at(&self, clip: Clip) -> (f64, f64) {
        (clip.clamp(self.percent), self.y)
    }
}

/// The plot; none if no metric has a baseline mean.
pub(super) fn plot(found: &Experiment, name: String) -> Option<Plot> {
    let settings = &found.measured.settings;
    let mean = |one: &Comparison| one.means.first().copied().flatten().filter(|mean| *mean != 0.0);
    let drawn = found.comparisons.iter().rev();
    let drawn: Vec<(&Comparison, f64)> = drawn.filter_map(|one| Some((one, mean(one)?))).collect();
    let mut points = Vec::new();
    for (row, (comparison, mean)) in drawn.iter().enumerate() {
        for (setting, values) in comparison.values.iter().enumerate() {
            let all = comparison.values.len() as f64;
            let offset = setting as f64 + 0.5 - all / 2.0;
            points.extend(values.iter().map(|value| StartPoint {
                comparison,
                setting,
                value: *value,
                percent: 100.0 * (value - mean) / mean.abs(),
                y: row as f64 - offset * 0.6 / all,
            }));
        }
    }
    let percents = || points.iter().map(|point| point.percent);
    let clip = Clip::new(percents(), percents());
    let mut layers = vec![Layer::vertical_rule("", 0.0, Colour::Quiet)];
    for (index, setting) in settings.iter().enumerate() {
        // The same colours as in the forest plot.
        let colour = index.checked_sub(1).map_or(Colour::Quiet, Colour::series);
        for (shape, words) in [
            (Shape::Ring, ""),
            (Shape::Before, ", beyond the edge"),
            (Shape::Beyond, ", beyond the edge"),
        ] {
            let own = points
                .iter()
                .filter(|point| point.setting == index && clip.overflow(point.percent).unwrap_or(Shape::Ring) == shape);
            let own: Vec<(f64, f64)> = own.map(|point| point.at(clip)).collect();
            if !own.is_empty() {
                layers.push(Layer::dots(format!("{}{words}", setting.name), own, colour, shape));
            }
        }
    }
    let tooltips = points.iter().map(|point| {
        let entries = [
            metric_label(&point.comparison.name).into(),
            settings[point.setting].name.as_str().into(),
            with_unit(point.value, point.comparison.unit).into(),
        ];
        TooltipPoint::new(point.at(clip), entries)
    });
    let tooltips = Tooltips::new(["metric", "setting", "value"], tooltips);
    let baseline = &settings[0].name;
    let x = clip.axis(format!("difference from the mean of {baseline}"));
    let y = Axis::categories(drawn.iter().map(|(one, _)| metric_label(&one.name)));
    let starts = found
        .measured
        .trials
        .iter()
        .filter(|trial| trial.failed.is_none())
        .count();
    let words = format!("{starts} starts by {} metrics; the table has the values.", drawn.len());
    let caption = format!(
        "Each ring is a start. A setting matters where its rings lie close together and away from those of another. Zero is the mean of {baseline}."
    );
    let panel = Panel::new("", x, y, layers).with_tooltips(tooltips);
    let plot = Plot::new(name, "Every start", [panel])
        .with_words(words, caption)
        .with_sheet(sheet(found));
    (!drawn.is_empty()).then_some(plot)
}

fn sheet(found: &Experiment) -> Sheet {
    let measured = &found.measured;
    let metrics = found.comparisons.iter().map(label);
    let columns = ["start", "setting"].map(str::to_owned).into_iter().chain(metrics);
    let rows = measured.trials.iter().enumerate().map(|(index, trial)| {
        let setting = measured.settings[trial.setting].name.as_str();
        let head: [Entry; 2] = [((index + 1) as f64).into(), setting.into()];
        let figures = found.comparisons.iter().map(|one| {
            let scale = if one.unit == Unit::Bytes { GIB } else { 1.0 };
            let value = trial.figures.get(&one.name).copied().flatten();
            value.map(|value| value / scale).into()
        });
        head.into_iter().chain(figures).collect()
    });
    Sheet::new(columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_is_a_ring_and_a_row() {
        let plot = plot(&super::super::forest::tests::found(), "x".into()).unwrap();
        let panel = &plot.panels[0];
        assert_eq!(panel.y.names, ["start time", "memory"]);
        let rings: Vec<usize> = panel
            .layers
            .iter()
            .filter_map(|layer| match layer {
                Layer::Dots { points, .. } => Some(points.len()),
                _ => None,
            })
            .collect();
        assert_eq!(rings, [6, 4], "the start that failed has none");
        assert_eq!(plot.sheet.rows.len(), 6);
        assert!(panel.spots.spots.iter().all(|spot| spot.entries.len() == 3));
    }
}
