//! Experiments: differences between settings with intervals and noise, and every start. Also names and units of
//! metrics.

mod forest;
mod starts;

use std::collections::BTreeSet;

use crate::experiment::{Comparison, Contrast, Experiment, Verdict};
use crate::report::plot::{Entry, Sheet};
use crate::report::sections::format::{GIB, list, number, tenths};
use crate::report::sections::{Section, Source};
use crate::unit::Unit;

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
    let mut paragraphs = summary(found);
    paragraphs.extend(failures(found));
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
        let (value, unit) = scaled(one.unit);
        vec![
            Entry::from(metric_name(&one.name)),
            one.value.map(|number| number * value).into(),
            unit.into(),
        ]
    });
    (!found.further.is_empty()).then(|| Sheet::new(["metric", "value", "unit"], rows).titled("What follows"))
}

/// A metric's name in prose: `mean_ttft_ms at 8` becomes `mean TTFT at 8`.
pub(in crate::report::sections) fn metric_name(name: &str) -> String {
    let word = |word: &str| match word {
        "ttft" | "tpot" | "itl" | "e2el" | "kv" | "gpu" | "cuda" => word.to_uppercase(),
        _ => word.to_owned(),
    };
    let mut words: Vec<String> = name
        .split(' ')
        .map(|part| {
            let part = part.strip_suffix("_ms").unwrap_or(part);
            part.split('_').map(word).collect::<Vec<_>>().join(" ")
        })
        .collect();
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// The factor and the unit in which tables show a value.
pub(in crate::report::sections) fn scaled(unit: Unit) -> (f64, &'static str) {
    match unit {
        Unit::Bytes => (1.0 / GIB, "GiB"),
        Unit::Tokens => (1.0, "tokens"),
        Unit::TokensPerSecond => (1.0, "tokens/s"),
        Unit::RequestsPerSecond => (1.0, "requests/s"),
        Unit::Seconds => (1.0, "s"),
        Unit::Milliseconds => (1.0, "ms"),
        Unit::Percent => (1.0, "%"),
        Unit::Watts => (1.0, "W"),
        Unit::Celsius => (1.0, "°C"),
        Unit::Count => (1.0, ""),
    }
}

pub(in crate::report::sections) fn with_unit(value: f64, unit: Unit) -> String {
    let (factor, unit) = scaled(unit);
    let space = if unit.is_empty() { "" } else { " " };
    format!("{}{space}{unit}", number(value * factor))
}

/// The conclusions, differences by setting, and the number of starts.
fn summary(found: &Experiment) -> Vec<String> {
    let measured = &found.measured;
    let mut sentences: Vec<String> = found.conclusions.clone();
    for (index, setting) in measured.settings.iter().enumerate().skip(1) {
        sentences.extend(differences_from(
            found,
            index,
            &setting.name,
            &measured.settings[0].name,
        ));
    }
    let starts: Vec<String> = measured
        .settings
        .iter()
        .enumerate()
        .map(|(index, setting)| {
            let done = measured
                .trials
                .iter()
                .filter(|trial| trial.setting == index && trial.failed.is_none());
            format!("{} of {}", done.count(), setting.name)
        })
        .collect();
    let workload = if measured.asked.is_empty() {
        String::new()
    } else {
        format!(" Workload: {}.", measured.asked)
    };
    sentences.push(format!("Successful starts: {}.{workload}", list(&starts)));
    sentences
}

fn differences_from(found: &Experiment, index: usize, setting: &str, first: &str) -> Vec<String> {
    let contrast = |one: &&Comparison| one.contrasts.iter().find(|contrast| contrast.setting == index).cloned();
    let all: Vec<(&Comparison, Contrast)> = found
        .comparisons
        .iter()
        .filter_map(|one| Some((one, contrast(&one)?)))
        .collect();
    let of = |wanted: &[Verdict]| -> Vec<&(&Comparison, Contrast)> {
        all.iter()
            .filter(|(_, contrast)| wanted.contains(&contrast.verdict))
            .collect()
    };
    let mut sentences = Vec::new();
    let differing: Vec<String> = of(&[Verdict::More, Verdict::Less])
        .into_iter()
        .map(|(one, contrast)| difference(one, contrast))
        .collect();
    if differing.is_empty() {
        sentences.push(format!("{setting} against {first}: no difference was shown."));
    } else {
        sentences.push(format!("{setting} against {first}: {}.", list(&differing)));
    }
    for (wanted, what) in [
        (Verdict::NoDifferenceSeen, "No difference was seen in"),
        (Verdict::TooFewStarts, "Too few starts to judge"),
    ] {
        let names: Vec<String> = of(&[wanted])
            .into_iter()
            .map(|(one, _)| metric_name(&one.name))
            .collect();
        if !names.is_empty() {
            sentences.push(format!("{what} {}.", list(&names)));
        }
    }
    sentences
}

/// `+1,567.2 %`.
pub(super) fn percent(percent: f64) -> String {
    let sign = if percent < 0.0 { "−" } else { "+" };
    format!("{sign}{} %", tenths(percent.abs()))
}

/// `memory 0.51 GiB less (3.0 %; 95 % interval 0.4 to 0.6)`.
fn difference(one: &Comparison, contrast: &Contrast) -> String {
    let by = contrast.difference.unwrap_or_default();
    let percent = contrast.percent.map(|percent| format!("{} %", tenths(percent.abs())));
    let interval = contrast.interval.map(|[low, high]| {
        let (factor, _) = scaled(one.unit);
        let (low, high) = (low.abs().min(high.abs()), low.abs().max(high.abs()));
        format!("95 % interval {} to {}", number(low * factor), number(high * factor))
    });
    let details: Vec<String> = percent.into_iter().chain(interval).collect();
    let details = if details.is_empty() {
        String::new()
    } else {
        format!(" ({})", details.join("; "))
    };
    format!(
        "{} {} {}{details}",
        metric_name(&one.name),
        with_unit(by.abs(), one.unit),
        contrast.verdict.words()
    )
}

/// Messages of failed starts, without duplicates.
fn failures(found: &Experiment) -> Vec<String> {
    let trials = found.measured.trials.iter();
    let failed = trials.filter_map(|trial| Some((trial.setting, trial.failed.as_ref()?)));
    let sentences: BTreeSet<String> = failed
        .map(|(setting, failed)| {
            let why = failed["message"].as_str().unwrap_or("unknown reason");
            let cause = failed["cause"]
                .as_str()
                .map_or_else(String::new, |cause| format!(" ({cause})"));
            format!(
                "A start of {} failed: {why}{cause}",
                found.measured.settings[setting].name
            )
        })
        .collect();
    sentences.into_iter().collect()
}
