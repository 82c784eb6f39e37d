//! Experiments: differences between settings with intervals and noise, and every start.

mod forest;
mod starts;
mod text;

use super::{Section, Source};
use crate::experiment::Experiment;
use crate::report::plot::{Entry, Sheet};

pub(super) use text::{metric_name, with_unit};

/// The sections. Unreadable experiments are reported in `missing`.
pub(super) fn sections(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let several = source.found.experiments.len() > 1;
    let read = experiments(source, missing);
    read.iter()
        .enumerate()
        .map(|(index, (_, found))| {
            let name = if several {
                format!("experiment-{}", index + 1)
            } else {
                "experiment".to_owned()
            };
            section(found, name)
        })
        .collect()
}

/// The consistent experiments with their names; others are reported in `missing`.
pub(super) fn experiments(source: &Source, missing: &mut Vec<String>) -> Vec<(String, Experiment)> {
    let mut read = Vec::new();
    for (name, value) in &source.found.experiments {
        match serde_json::from_value::<Experiment>(value.clone())
            .ok()
            .filter(is_consistent)
        {
            Some(found) => read.push((name.clone(), found)),
            None => missing.push(format!("skipped experiment `{name}`: cannot be read")),
        }
    }
    read
}

/// Whether every metric has a value for each setting, and all indices of settings are valid. Only a damaged experiment
/// fails this.
fn is_consistent(found: &Experiment) -> bool {
    let settings = found.measured.settings.len();
    let known = |setting: usize| setting < settings;
    settings > 1
        && found.measured.trials.iter().all(|trial| known(trial.setting))
        && found.comparisons.iter().all(|one| {
            let contrasts = one
                .contrasts
                .iter()
                .all(|contrast| contrast.setting > 0 && known(contrast.setting));
            contrasts && one.means.len() == settings && one.values.len() == settings
        })
}

fn section(found: &Experiment, name: String) -> Section {
    let mut paragraphs = text::all(found);
    paragraphs.extend(text::failures(found));
    let plots = [
        forest::plot(found, format!("{name}-differences")),
        starts::plot(found, format!("{name}-starts")),
    ];
    Section {
        title: format!("Experiment: {}", found.measured.name),
        paragraphs,
        plots: plots.into_iter().flatten().collect(),
        sheets: derived_figures(found).into_iter().collect(),
        name,
        ..Section::default()
    }
}

/// Metrics that were derived from others.
fn derived_figures(found: &Experiment) -> Option<Sheet> {
    let rows = found.further.iter().map(|one| {
        let (value, unit) = text::scaled(one.unit);
        vec![
            Entry::from(text::metric_name(&one.name)),
            one.value.map(|number| number * value).into(),
            unit.into(),
        ]
    });
    (!found.further.is_empty()).then(|| Sheet {
        title: "What follows".to_owned(),
        columns: vec!["metric".to_owned(), "value".to_owned(), "unit".to_owned()],
        rows: rows.collect(),
    })
}
