//! The list of answers at the top of a run's page, and its headline.

use super::boundaries::MAX_DRAWN;
use super::{RebuiltBoundary, Source, facts, loads, reproduce};
use super::{breakdown_finding, experiment_findings};
use crate::compare::read_experiment;
use crate::report::document::capitalized;
use crate::report::{Answer, Extras, Fact};
use crate::run::RecordedRun;

/// All answers, most important first.
pub(super) fn answers(source: &Source) -> Vec<Fact> {
    let mut facts = Vec::new();
    let boundaries = source.boundaries().len();
    // With this many boundaries, individual recommendations are of no use.
    if boundaries > MAX_DRAWN {
        facts.push(Fact::new(
            "boundaries",
            format!("{boundaries}; the first {MAX_DRAWN} are drawn below, and the run's folder has the points of all"),
        ));
    }
    let few = source.boundaries().iter().filter(|_| boundaries <= MAX_DRAWN);
    for (number, boundary) in few.enumerate() {
        let several = boundaries > 1;
        // The boundary's own section reports a fault.
        let Some(answer) = answer(source, boundary) else {
            continue;
        };
        // The limit of the only boundary is the heading.
        let facts_of_it = answer.facts().into_iter().skip(usize::from(!several));
        facts.extend(facts_of_it.map(|fact| match several {
            true => Fact {
                term: format!("boundary {}: {}", number + 1, fact.term),
                ..fact
            },
            false => fact,
        }));
    }
    // So is the first finding of a run without one.
    let heading = usize::from(boundaries == 0);
    facts.extend(
        findings(source.found)
            .into_iter()
            .skip(heading)
            .map(|text| Fact::new("finding", text)),
    );
    facts.extend(reproduce::facts(source));
    facts
}

/// The result in one line. An unfinished run is marked as such.
pub(super) fn headline(source: &Source) -> String {
    match source.found.done() {
        true => summary_line(source),
        false => format!("Unfinished: {}", summary_line(source)),
    }
}

fn summary_line(source: &Source) -> String {
    let found = source.found;
    if source.boundaries().len() > MAX_DRAWN {
        return format!(
            "{} boundaries: {}",
            source.boundaries().len(),
            found.manifest.script.name
        );
    }
    if let Some(answer) = source.boundaries().iter().find_map(|boundary| answer(source, boundary)) {
        return answer.limit;
    }
    match findings(found).into_iter().next() {
        Some(finding) => capitalized(&finding),
        None => found.manifest.script.name.clone(),
    }
}

/// What the run was about: `meta-llama/Llama-3.1-8B-Instruct on NVIDIA H200`.
pub(super) fn subject(source: &Source) -> String {
    let manifest = &source.found.manifest;
    let parts = [facts::models(manifest), facts::cards(manifest)];
    let parts = parts
        .map(|names| names.join(", "))
        .into_iter()
        .filter(|names| !names.is_empty());
    parts.collect::<Vec<_>>().join(" on ")
}

/// The answer of a boundary; none if it cannot be read or nothing was tested.
fn answer(source: &Source, boundary: &RebuiltBoundary) -> Option<Answer> {
    let rebuilt = boundary.boundary.as_ref().ok()?;
    let extras = Extras::of_run(source.found, boundary.report.cloned());
    (rebuilt.records().len() > 0).then(|| extras.answer(rebuilt).ok())?
}

/// What the run found besides boundaries, a sentence each: as its scripts recorded it, else computed from the loads,
/// experiments and breakdowns.
pub fn findings(found: &RecordedRun) -> Vec<String> {
    let recorded = found.shown.iter().filter_map(|(value, _)| value["finding"].as_str());
    let mut sentences: Vec<String> = recorded.map(str::to_owned).collect();
    if sentences.is_empty() {
        sentences.extend(loads::sweeps(found).into_iter().map(|sweep| sweep.findings.finding));
    }
    let experiments = found.experiments.iter();
    let experiments = experiments.filter_map(|(_, value)| read_experiment(value).ok());
    sentences.extend(experiments.flat_map(|experiment| experiment_findings(&experiment)));
    for (name, value) in &found.breakdowns {
        if let Ok(footprint) = serde_json::from_value(value.clone()) {
            sentences.push(format!("memory of {name}: {}", breakdown_finding(&footprint)));
        }
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}
