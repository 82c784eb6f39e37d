//! Bar charts of several runs: memory by component, and differences by metric of experiments that several runs made.

use crate::experiment::{Contrast, Experiment};
use crate::fmt::metric_label;
use crate::memory::{Breakdown, Component, Footprint};
use crate::report::experiment::findings;
use crate::report::plot::{Axis, Bar, Colour, Layer, Panel, Plot};
use crate::report::sections::experiments::experiments;
use crate::report::sections::format::{GIB, tenths};
use crate::report::sections::{Section, Source};
use crate::unit::Unit;

/// The section; none for fewer than two breakdowns.
pub(super) fn memory_section(named: &[(&str, &Source)]) -> Option<Section> {
    let mut all: Vec<(String, Breakdown)> = Vec::new();
    for (name, source) in named {
        let breakdowns = &source.found.breakdowns;
        for (what, value) in breakdowns {
            let Ok(footprint) = serde_json::from_value::<Footprint>(value.clone()) else {
                continue;
            };
            let label = if breakdowns.len() > 1 {
                format!("{name}, {what}")
            } else {
                (*name).to_owned()
            };
            all.push((label, footprint.all));
        }
    }
    if all.len() < 2 {
        return None;
    }
    let plot = memory_plot(&all);
    Some(Section {
        name: "together-memory".to_owned(),
        title: "Where memory goes".to_owned(),
        paragraphs: vec![plot.words.clone()],
        plots: vec![plot],
        ..Section::default()
    })
}

fn bytes(of: &Breakdown, component: Component) -> Option<f64> {
    let section = of.parts.iter().find(|section| section.component == component)?;
    Some(section.bytes as f64)
}

fn memory_plot(all: &[(String, Breakdown)]) -> Plot {
    let components: Vec<Component> = Component::ALL
        .into_iter()
        .filter(|component| {
            all.iter()
                .any(|(_, one)| bytes(one, *component).is_some_and(|bytes| bytes != 0.0))
        })
        .collect();
    let names: Vec<String> = components
        .iter()
        .map(|component| component.title().to_owned())
        .collect();
    let layers = all.iter().enumerate().map(|(index, (name, one))| {
        Layer::bars(
            name.clone(),
            (0_u32..).map(f64::from).zip(&components).filter_map(|(at, component)| {
                Some(Bar {
                    at,
                    value: bytes(one, *component)?,
                    ..Bar::default()
                })
            }),
            Colour::series(index),
        )
    });
    let sentences = all
        .iter()
        .map(|(name, one)| format!("{name}: {} GiB in all.", tenths(one.total as f64 / GIB)));
    Plot {
        name: "together-memory-parts".to_owned(),
        title: "Memory by component".to_owned(),
        words: sentences.collect::<Vec<_>>().join(" "),
        caption: "KV cache in use lies within the KV cache where that is reserved. All devices of an engine together."
            .to_owned(),
        panels: vec![Panel {
            x: Axis::categories(names),
            y: Axis::new("memory", Unit::Bytes),
            layers: layers.collect(),
            ..Panel::default()
        }],
        ..Plot::default()
    }
}

/// Names of settings, and the runs with an experiment of these settings.
type Group<'a> = (Vec<String>, Vec<(&'a str, Experiment)>);

/// One section for each experiment that several runs made with the same settings.
pub(super) fn experiment_sections(named: &[(&str, &Source)]) -> Vec<Section> {
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
            let plots = (1..settings.len()).map(|setting| experiment_plot(&settings, setting, &runs, index + 1));
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
fn experiment_plot(settings: &[String], setting: usize, runs: &[(&str, Experiment)], number: usize) -> Plot {
    let mut figures: Vec<&str> = Vec::new();
    for one in runs.iter().flat_map(|(_, found)| &found.comparisons) {
        let relative = one
            .contrasts
            .iter()
            .any(|contrast| contrast.setting == setting && contrast.percent.is_some());
        if relative && !figures.contains(&one.name.as_str()) {
            figures.push(&one.name);
        }
    }
    let layers = runs.iter().enumerate().map(|(index, (run, found))| {
        Layer::bars(
            *run,
            (0_u32..).map(f64::from).zip(&figures).filter_map(|(at, figure)| {
                let (contrast, first) = contrast(found, figure, setting)?;
                let sections = |value: f64| 100.0 * value / first;
                Some(Bar {
                    at,
                    value: contrast.percent?,
                    base: 0.0,
                    interval: contrast.interval.map(|[low, high]| (sections(low), sections(high))),
                })
            }),
            Colour::series(index),
        )
    });
    let words = runs
        .iter()
        .flat_map(|(run, found)| findings(found).into_iter().map(move |text| format!("{run}: {text}.")));
    Plot {
        name: format!("together-experiment-{number}-{setting}"),
        title: format!("{} against {}", settings[setting], settings[0]),
        words: words.collect::<Vec<_>>().join(" "),
        caption: "Bars are differences of means, whiskers their 95 % intervals. The tables of each run are below."
            .to_owned(),
        panels: vec![Panel {
            x: Axis::categories(figures.iter().map(|figure| metric_label(figure))),
            y: Axis::new(format!("difference from {}", settings[0]), Unit::Percent),
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
