//! Experiments that several runs made: the differences of each setting by metric and run.

use super::super::experiments::{experiments, metric_name, with_unit};
use super::super::{Section, Source};
use crate::experiment::{Contrast, Experiment};
use crate::report::plot::{Axis, Bar, Colour, Entry, Layer, Panel, Plot, Sheet};
use crate::unit::Unit;

/// Names of settings, and the runs with an experiment of these settings.
type Group<'a> = (Vec<String>, Vec<(&'a str, Experiment)>);

/// One section for each experiment that several runs made with the same settings.
pub(super) fn sections(named: &[(&str, &Source)]) -> Vec<Section> {
    let mut groups: Vec<Group> = Vec::new();
    for (run, source) in named {
        // The run's own section reports unreadable experiments.
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
            Section {
                name: format!("together-experiment-{}", index + 1),
                title: format!("Experiment: {}", settings.join(" against ")),
                plots: plots.collect(),
                ..Section::default()
            }
        })
        .collect()
}

/// One setting against the baseline setting, by metric and run.
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
                let sections = |value: f64| 100.0 * value / first;
                Some(Bar {
                    at,
                    value: contrast.percent?,
                    base: 0.0,
                    interval: contrast.interval.map(|[low, high]| (sections(low), sections(high))),
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
                with_unit(contrast.difference?, *unit),
                contrast.verdict.words()
            ))
        });
        format!("{}: {}.", metric_name(figure), each.collect::<Vec<_>>().join(", "))
    });
    let columns = [
        "metric",
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
            let mean = |index: usize| Entry::from(comparison.means[index].map(|mean| with_unit(mean, *unit)));
            let interval = contrast
                .interval
                .map(|[low, high]| format!("{} to {}", with_unit(low, *unit), with_unit(high, *unit)));
            Some(vec![
                metric_name(figure).into(),
                (*run).into(),
                mean(0),
                mean(setting),
                contrast
                    .difference
                    .map(|difference| with_unit(difference, *unit))
                    .into(),
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
                names: figures.iter().map(|(figure, _)| metric_name(figure)).collect(),
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

/// The contrast of a setting for a metric, and the absolute mean of the baseline setting.
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
