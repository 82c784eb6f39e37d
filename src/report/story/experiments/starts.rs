//! Every start of an experiment as a ring: a figure a row, relative to the mean of the first setting, so that all stand on one scale.

use super::forest::{beyond, clamped, range, reach};
use super::words::{name, scaled, value};
use crate::experiment::{Comparison, Experiment};
use crate::report::plot::{Axis, Colour, Entry, Layer, Panel, Plot, Shape, Sheet, Spot, Spots};
use crate::unit::Unit;

/// The picture; nothing where no figure has a mean to be held against.
pub(super) fn plot(found: &Experiment, plot: String) -> Option<Plot> {
    let settings = &found.measured.settings;
    let drawn: Vec<(&Comparison, f64)> = found
        .comparisons
        .iter()
        .rev()
        .filter_map(|one| Some((one, first(one)?)))
        .collect();
    if drawn.is_empty() {
        return None;
    }
    let places: Vec<Place> = drawn
        .iter()
        .zip((0_u32..).map(f64::from))
        .flat_map(|((one, first), row)| places(one, *first, row))
        .collect();
    let edge = reach(
        places.iter().map(|place| place.percent),
        places.iter().map(|place| place.percent),
    );
    let mut layers = vec![Layer::Rule {
        name: String::new(),
        at: 0.0,
        upright: true,
        colour: Colour::Quiet,
        dashed: false,
        right: false,
    }];
    for (index, setting) in settings.iter().enumerate() {
        for shape in [Shape::Ring, Shape::Before, Shape::Beyond] {
            let own = places
                .iter()
                .filter(|place| place.setting == index && beyond(place.percent, edge).unwrap_or(Shape::Ring) == shape);
            let points: Vec<(f64, f64)> = own.map(|place| (clamped(place.percent, edge), place.y)).collect();
            if points.is_empty() {
                continue;
            }
            layers.push(Layer::Dots {
                name: match shape {
                    Shape::Ring => setting.name.clone(),
                    _ => format!("{}, beyond the edge", setting.name),
                },
                points,
                // As in the picture of differences.
                colour: if index == 0 {
                    Colour::Quiet
                } else {
                    Colour::Series(u8::try_from(index - 1).unwrap_or(u8::MAX))
                },
                shape,
            });
        }
    }
    let spots = places.iter().map(|place| Spot {
        at: (clamped(place.percent, edge), place.y),
        entries: vec![
            name(&place.comparison.name).into(),
            settings[place.setting].name.as_str().into(),
            value(place.value, place.comparison.unit).into(),
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
        words: format!(
            "What each of {starts} starts gave, by {} figures; the table has the values.",
            drawn.len()
        ),
        caption: format!(
            "Each ring is a start. Where rings of one setting lie close, and those of another apart from them, the setting matters. Zero is the mean of {}.",
            settings[0].name
        ),
        panels: vec![Panel {
            x: Axis {
                label: format!("difference from the mean of {}", settings[0].name),
                unit: Unit::Percent,
                range: Some(range(edge)),
                ..Axis::default()
            },
            y: Axis {
                names: drawn.iter().map(|(one, _)| name(&one.name)).collect(),
                ..Axis::default()
            },
            layers,
            spots: Spots {
                columns: ["figure", "setting", "value"].map(str::to_owned).to_vec(),
                spots: spots.collect(),
            },
            ..Panel::default()
        }],
        sheet: sheet(found),
        ..Plot::default()
    })
}

/// A start by one figure.
struct Place<'a> {
    comparison: &'a Comparison,
    setting: usize,
    value: f64,
    percent: f64,
    y: f64,
}

/// The mean of the first setting, which all are held against.
fn first(one: &Comparison) -> Option<f64> {
    one.means.first().copied().flatten().filter(|mean| *mean != 0.0)
}

fn places(one: &Comparison, first: f64, row: f64) -> Vec<Place<'_>> {
    let settings = u32::try_from(one.values.len()).map_or(1.0, f64::from);
    let of = |(setting, values): (usize, &Vec<f64>)| {
        let aside = u32::try_from(setting).map_or(0.0, f64::from) + 0.5 - settings / 2.0;
        let place = |value: &f64| Place {
            comparison: one,
            setting,
            value: *value,
            percent: 100.0 * (value - first) / first.abs(),
            y: row - aside * 0.6 / settings,
        };
        values.iter().map(place).collect::<Vec<_>>()
    };
    one.values.iter().enumerate().flat_map(of).collect()
}

fn sheet(found: &Experiment) -> Sheet {
    let measured = &found.measured;
    let columns = found.comparisons.iter().map(|one| {
        let (_, unit) = scaled(one.unit);
        if unit.is_empty() {
            name(&one.name)
        } else {
            format!("{}, {unit}", name(&one.name))
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
    Sheet {
        title: String::new(),
        columns: ["start".to_owned(), "setting".to_owned()]
            .into_iter()
            .chain(columns)
            .collect(),
        rows: rows.collect(),
    }
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
