//! Every start of an experiment as a ring: a row for each metric, relative to the baseline setting's mean.

use super::forest::{clamped, clip_range, overflow_shape, padded_range};
use super::{metric_label, scaled, with_unit};
use crate::experiment::{Comparison, Experiment};
use crate::report::plot::{Axis, Colour, Entry, Layer, Panel, Plot, Shape, Sheet, TooltipPoint, Tooltips};
use crate::unit::Unit;

/// The plot; none if no metric has a baseline mean.
pub(super) fn plot(found: &Experiment, plot: String) -> Option<Plot> {
    let settings = &found.measured.settings;
    let drawn: Vec<(&Comparison, f64)> = found
        .comparisons
        .iter()
        .rev()
        .filter_map(|one| Some((one, baseline_mean(one)?)))
        .collect();
    if drawn.is_empty() {
        return None;
    }
    let points_of: Vec<StartPoint> = drawn
        .iter()
        .zip((0_u32..).map(f64::from))
        .flat_map(|((one, baseline_mean), row)| points_of(one, *baseline_mean, row))
        .collect();
    let limits = clip_range(
        points_of.iter().map(|point| point.percent),
        points_of.iter().map(|point| point.percent),
    );
    let mut layers = vec![Layer::vertical_rule("", 0.0, Colour::Quiet)];
    for (index, setting) in settings.iter().enumerate() {
        for shape in [Shape::Ring, Shape::Before, Shape::Beyond] {
            let own = points_of.iter().filter(|point| {
                point.setting == index && overflow_shape(point.percent, limits).unwrap_or(Shape::Ring) == shape
            });
            let points: Vec<(f64, f64)> = own.map(|point| (clamped(point.percent, limits), point.y)).collect();
            if points.is_empty() {
                continue;
            }
            let name = match shape {
                Shape::Ring => setting.name.clone(),
                _ => format!("{}, beyond the edge", setting.name),
            };
            // The same colours as in the forest plot.
            let colour = index.checked_sub(1).map_or(Colour::Quiet, Colour::series);
            layers.push(Layer::dots(name, points, colour, shape));
        }
    }
    let spots = points_of.iter().map(|point| TooltipPoint {
        at: (clamped(point.percent, limits), point.y),
        entries: vec![
            metric_label(&point.comparison.name).into(),
            settings[point.setting].name.as_str().into(),
            with_unit(point.value, point.comparison.unit).into(),
        ],
    });
    let starts = found
        .measured
        .trials
        .iter()
        .filter(|trial| trial.failed.is_none())
        .count();
    Some(Plot {
        name: plot,
        title: "Every start".to_owned(),
        words: format!("{starts} starts by {} metrics; the table has the values.", drawn.len()),
        caption: format!(
            "Each ring is a start. A setting matters where its rings lie close together and away from those of another. Zero is the mean of {}.",
            settings[0].name
        ),
        panels: vec![Panel {
            x: Axis::new(
                format!("difference from the mean of {}", settings[0].name),
                Unit::Percent,
            )
            .with_range(padded_range(limits)),
            y: Axis::categories(drawn.iter().map(|(one, _)| metric_label(&one.name))),
            layers,
            spots: Tooltips::new(["metric", "setting", "value"], spots),
            ..Panel::default()
        }],
        sheet: sheet(found),
        ..Plot::default()
    })
}

/// The value of a metric in one start.
struct StartPoint<'a> {
    comparison: &'a Comparison,
    setting: usize,
    value: f64,
    percent: f64,
    y: f64,
}

/// The mean of the baseline setting.
fn baseline_mean(one: &Comparison) -> Option<f64> {
    one.means.first().copied().flatten().filter(|mean| *mean != 0.0)
}

fn points_of(one: &Comparison, baseline_mean: f64, row: f64) -> Vec<StartPoint<'_>> {
    let settings = u32::try_from(one.values.len()).map_or(1.0, f64::from);
    let of = |(setting, values): (usize, &Vec<f64>)| {
        let offset = u32::try_from(setting).map_or(0.0, f64::from) + 0.5 - settings / 2.0;
        let point = |value: &f64| StartPoint {
            comparison: one,
            setting,
            value: *value,
            percent: 100.0 * (value - baseline_mean) / baseline_mean.abs(),
            y: row - offset * 0.6 / settings,
        };
        values.iter().map(point).collect::<Vec<_>>()
    };
    one.values.iter().enumerate().flat_map(of).collect()
}

fn sheet(found: &Experiment) -> Sheet {
    let measured = &found.measured;
    let columns = found.comparisons.iter().map(|one| {
        let (_, unit) = scaled(one.unit);
        if unit.is_empty() {
            metric_label(&one.name)
        } else {
            format!("{}, {unit}", metric_label(&one.name))
        }
    });
    let rows = measured
        .trials
        .iter()
        .zip((1_u32..).map(f64::from))
        .map(|(trial, number)| {
            let head: [Entry; 2] = [number.into(), measured.settings[trial.setting].name.as_str().into()];
            let figures = found.comparisons.iter().map(|one| {
                let (factor, _) = scaled(one.unit);
                trial
                    .figures
                    .get(&one.name)
                    .copied()
                    .flatten()
                    .map(|value| value * factor)
                    .into()
            });
            head.into_iter().chain(figures).collect()
        });
    Sheet::new(
        ["start".to_owned(), "setting".to_owned()].into_iter().chain(columns),
        rows,
    )
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
