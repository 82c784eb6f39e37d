//! Settings against each other: differences with their intervals, beside what equal settings differ by, and every start.

mod forest;
mod starts;
mod words;

use super::{Part, Source};
use crate::experiment::Experiment;
use crate::report::plot::{Entry, Sheet};

pub(super) use words::{name, value};

/// The parts; what the folder lacks is added to `missing`.
pub(super) fn parts(source: &Source, missing: &mut Vec<String>) -> Vec<Part> {
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
            part(found, name)
        })
        .collect()
}

/// The experiments whose parts fit together, each with its name; of others `missing` tells.
pub(super) fn experiments(source: &Source, missing: &mut Vec<String>) -> Vec<(String, Experiment)> {
    let mut read = Vec::new();
    for (name, value) in &source.found.experiments {
        match serde_json::from_value::<Experiment>(value.clone())
            .ok()
            .filter(fits_together)
        {
            Some(found) => read.push((name.clone(), found)),
            None => missing.push(format!("the experiment `{name}` is damaged: it is not told")),
        }
    }
    read
}

/// Whether every figure has a value for each setting, and no start or difference is of a setting that is not there: of an experiment that was written whole
/// it is so.
fn fits_together(found: &Experiment) -> bool {
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

fn part(found: &Experiment, name: String) -> Part {
    let mut paragraphs = words::all(found);
    paragraphs.extend(words::failures(found));
    let plots = [
        forest::plot(found, format!("{name}-differences")),
        starts::plot(found, format!("{name}-starts")),
    ];
    Part {
        title: format!("Experiment: {}", found.measured.name),
        paragraphs,
        plots: plots.into_iter().flatten().collect(),
        sheets: further(found).into_iter().collect(),
        name,
        ..Part::default()
    }
}

/// Figures that follow from the others.
fn further(found: &Experiment) -> Option<Sheet> {
    let rows = found.further.iter().map(|one| {
        let (value, unit) = words::scaled(one.unit);
        vec![
            Entry::from(words::name(&one.name)),
            one.value.map(|number| number * value).into(),
            unit.into(),
        ]
    });
    (!found.further.is_empty()).then(|| Sheet {
        title: "What follows".to_owned(),
        columns: vec!["figure".to_owned(), "value".to_owned(), "unit".to_owned()],
        rows: rows.collect(),
    })
}
