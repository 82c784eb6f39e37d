//! Experiments that several runs made: the difference of each setting by each figure, run beside run.

use super::super::experiments::{experiments, name, value};
use super::super::{Part, Source};
use crate::experiment::{Contrast, Experiment};
use crate::report::plot::{Axis, Bar, Colour, Entry, Layer, Panel, Plot, Sheet};
use crate::unit::Unit;

/// The settings of an experiment by name, and the runs that made it.
type Group<'a> = (Vec<String>, Vec<(&'a str, Experiment)>);

/// The parts: one for each experiment that more than one run made with the same settings.
pub(super) fn part(named: &[(&str, &Source)]) -> Vec<Part> {
    let mut groups: Vec<Group> = Vec::new();
    for (run, source) in named {
        // What cannot be read is told by the run itself.
        for (_, found) in experiments(source, &mut Vec::new()) {
            let settings: Vec<String> = found
                .measured
                .settings
                .iter()
                .map(|setting| setting.name.clone())
                .collect();
            match groups.iter_mut().find(|group| group.0 == settings) {
                Some(group) => group.1.push((run, found)),
                None => groups.push((settings, vec![(run, found)])),
            }
        }
    }
    let groups = groups.into_iter().filter(|group| group.1.len() > 1).enumerate();
    groups
        .map(|(index, (settings, runs))| {
            let plots = (1..settings.len()).map(|setting| plot(&settings, setting, &runs, index + 1));
            Part {
                name: format!("together-experiment-{}", index + 1),
                title: format!("Experiment: {}", settings.join(" against ")),
                plots: plots.collect(),
                ..Part::default()
            }
        })
        .collect()
}

/// One setting against the first, by figure and run.
fn plot(settings: &[String], setting: usize, runs: &[(&str, Experiment)], number: usize) -> Plot {
    let mut figures: Vec<(&str, Unit)> = Vec::new();
    for one in runs.iter().flat_map(|(_, found)| &found.comparisons) {
        let relative = one
            .contrasts
            .iter()
            .any(|contrast| contrast.setting == setting && contrast.percent.is_some());
        if relative && figures.iter().all(|known| known.0 != one.name) {
            figures.push((&one.name, one.unit));
        }
    }
    let layers = runs.iter().enumerate().map(|(index, (run, found))| Layer::Bars {
        name: (*run).to_owned(),
        bars: (0_u32..)
            .map(f64::from)
            .zip(&figures)
            .filter_map(|(at, (figure, _))| {
                let (contrast, first) = contrast(found, figure, setting)?;
                let part = |value: f64| 100.0 * value / first;
                Some(Bar {
                    at,
                    value: contrast.percent?,
                    base: 0.0,
                    interval: contrast.interval.map(|[low, high]| (part(low), part(high))),
                })
            })
            .collect(),
        colour: Colour::Series(u8::try_from(index).unwrap_or(u8::MAX)),
        hatched: false,
    });
    let words = figures.iter().map(|(figure, unit)| {
        let each = runs.iter().filter_map(|(run, found)| {
            let (contrast, _) = contrast(found, figure, setting)?;
            Some(format!(
                "{run} {} ({})",
                value(contrast.difference?, *unit),
                contrast.verdict.words()
            ))
        });
        format!("{}: {}.", name(figure), each.collect::<Vec<_>>().join(", "))
    });
    let columns = [
        "figure",
        "run",
        &settings[0],
        &settings[setting],
        "difference",
        "95 % interval",
        "%",
        "verdict",
    ];
    let rows = figures.iter().flat_map(|(figure, unit)| {
        runs.iter().filter_map(move |(run, found)| {
            let comparison = found.comparisons.iter().find(|one| one.name == *figure)?;
            let (contrast, _) = contrast(found, figure, setting)?;
            let mean = |index: usize| Entry::from(comparison.means[index].map(|mean| value(mean, *unit)));
            let interval = contrast
                .interval
                .map(|[low, high]| format!("{} to {}", value(low, *unit), value(high, *unit)));
            Some(vec![
                name(figure).into(),
                (*run).into(),
                mean(0),
                mean(setting),
                contrast.difference.map(|difference| value(difference, *unit)).into(),
                interval.into(),
                contrast.percent.into(),
                contrast.verdict.words().into(),
            ])
        })
    });
    Plot {
        name: format!("together-experiment-{number}-{setting}"),
        title: format!("{} against {}", settings[setting], settings[0]),
        words: words.collect::<Vec<_>>().join(" "),
        caption: "Bars are differences of means, whiskers their 95 % intervals.".to_owned(),
        sheet: Sheet {
            title: String::new(),
            columns: columns.map(str::to_owned).to_vec(),
            rows: rows.collect(),
        },
        panels: vec![Panel {
            x: Axis {
                names: figures.iter().map(|(figure, _)| name(figure)).collect(),
                ..Axis::default()
            },
            y: Axis {
                label: format!("difference from {}", settings[0]),
                unit: Unit::Percent,
                ..Axis::default()
            },
            layers: layers.collect(),
            ..Panel::default()
        }],
        ..Plot::default()
    }
}

/// The contrast of a setting by a figure, and the size of the first setting's mean.
fn contrast<'a>(found: &'a Experiment, figure: &str, setting: usize) -> Option<(&'a Contrast, f64)> {
    let comparison = found.comparisons.iter().find(|one| one.name == figure)?;
    let contrast = comparison
        .contrasts
        .iter()
        .find(|contrast| contrast.setting == setting)?;
    let first = comparison
        .means
        .first()
        .copied()
        .flatten()
        .map(f64::abs)
        .filter(|mean| *mean > 0.0)?;
    Some((contrast, first))
}
