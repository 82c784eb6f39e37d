//! The top of a run's page: the headline, the list of answers, what is missing, and how to resume or repeat the run.

use super::boundaries::MAX_DRAWN;
use super::source::Source;
use super::{breakdown_finding, experiment_findings, facts, loads};
use crate::answer::SearchAnswer;
use crate::boundary::Boundary;
use crate::compare::experiments;
use crate::fault::Result;
use crate::report::Count;
use crate::report::commands::{repeat_command, resume};
use crate::report::document::{Fact, capitalized};
use crate::report::recorded_answer::{Extras, answer_facts};
use crate::run::{Folder, RecordedBoundary, RecordedRun};

/// All answers, most important first.
pub(super) fn answers(source: &Source) -> Vec<Fact> {
    let mut facts = Vec::new();
    let boundaries = source.boundaries.len();
    // With more boundaries than this, individual recommendations are useless.
    if boundaries > MAX_DRAWN {
        facts.push(Fact::new(
            "boundaries",
            format!("{boundaries}; the first {MAX_DRAWN} are drawn below, and the run's folder has the points of all"),
        ));
    }
    let few = source.boundaries.iter().filter(|_| boundaries <= MAX_DRAWN);
    for (number, boundary) in (1..).zip(few) {
        let several = boundaries > 1;
        // The boundary's own section reports a fault.
        let own = answer(source, boundary)
            .map(|answer| answer_facts(&answer))
            .unwrap_or_default();
        // The limit of a single boundary is already the heading.
        facts.extend(own.into_iter().skip(usize::from(!several)).map(|mut fact| {
            if several {
                fact.term = format!("boundary {number}: {}", fact.term);
            }
            fact
        }));
    }
    // Without boundaries, the first finding is already the heading.
    let heading = usize::from(boundaries == 0);
    let others = findings(source.found).into_iter().skip(heading);
    facts.extend(others.map(|text| Fact::new("finding", text)));
    if facts.iter().all(|fact| !fact.term.ends_with("asked")) {
        let asked = source.found.totals.asked.iter();
        facts.extend(asked.map(|asked| Fact::new("asked", asked.to_string())));
    }
    facts.extend(reproduction(source));
    facts
}

/// The result in one line. An unfinished run is marked as such.
pub(super) fn headline(source: &Source) -> String {
    if source.found.done() {
        summary_line(source)
    } else {
        format!("Unfinished: {}", summary_line(source))
    }
}

fn summary_line(source: &Source) -> String {
    let found = source.found;
    let (boundaries, script) = (&source.boundaries, &found.manifest.script.name);
    if boundaries.len() > MAX_DRAWN {
        return format!("{} boundaries: {script}", boundaries.len());
    }
    if let Some(answer) = boundaries.iter().find_map(|boundary| answer(source, boundary)) {
        return answer.limit;
    }
    let own = || found.shown.last()?.1.lines().next().map(str::to_owned);
    match findings(found).into_iter().next().or_else(own) {
        Some(finding) => capitalized(&finding),
        None => script.clone(),
    }
}

/// The models and GPUs of the run: `meta-llama/Llama-3.1-8B-Instruct on NVIDIA H200`.
pub(super) fn subject(source: &Source) -> String {
    let manifest = &source.found.manifest;
    let parts: Vec<String> = [facts::models(manifest), facts::cards(manifest)]
        .iter()
        .filter(|names| !names.is_empty())
        .map(|names| names.join(", "))
        .collect();
    parts.join(" on ")
}

/// The answer of a boundary; none if it cannot be read or nothing was tested.
fn answer(source: &Source, (recorded, rebuilt): &(&RecordedBoundary, Result<Boundary>)) -> Option<SearchAnswer> {
    let rebuilt = rebuilt.as_ref().ok()?;
    let extras = Extras::of_run(source.found, recorded.report.clone());
    (rebuilt.records().len() > 0).then(|| extras.answer(rebuilt).ok())?
}

/// The findings of the run besides boundaries, one sentence each: as recorded by its scripts, or else computed from the
/// loads, experiments and breakdowns.
pub fn findings(found: &RecordedRun) -> Vec<String> {
    let recorded = found.shown.iter().filter_map(|(value, _)| value["finding"].as_str());
    let mut sentences: Vec<String> = recorded.map(str::to_owned).collect();
    if sentences.is_empty() {
        sentences.extend(loads::sweeps(found).into_iter().map(|sweep| sweep.findings.finding));
    }
    sentences.extend(experiments(found).flat_map(|(_, experiment)| experiment_findings(&experiment)));
    let footprints = found.footprints();
    sentences.extend(footprints.map(|(name, found)| format!("memory of {name}: {}", breakdown_finding(&found))));
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// The commands and what they need, or why they are unknown.
fn reproduction(source: &Source) -> Vec<Fact> {
    let found = source.found;
    if found.manifest_lost {
        let lost = "the script, what was set, the seed, what was allowed";
        let why = format!("not known: manifest.json is lost or damaged, and with it {lost} of this run");
        return vec![Fact::new("to repeat it", why)];
    }
    let mut facts = Vec::new();
    if !found.done() {
        facts.extend(missing(found, &source.folder).map(|missing| Fact::new("missing", missing)));
    }
    if let Some(command) = resume(found, &source.folder) {
        facts.push(Fact::code("to resume it", command));
    }
    facts.push(Fact::code("to repeat it", repeat_command(found)));
    if let Some(own) = script_note(source) {
        facts.push(Fact::new("its script", own));
    }
    facts
}

/// A note for readers who have the page but not the script file.
fn script_note(source: &Source) -> Option<String> {
    let path = &source.found.manifest.script.path;
    // Shipped scripts have a bare name.
    let file = path.contains('/') || path.ends_with(".rhai");
    let has_text = source.folder.has_file("script.rhai");
    if path == "-" && has_text {
        return Some("it came from standard input; the run's folder keeps its text as `script.rhai`".to_owned());
    }
    (file && has_text).then(|| {
        format!("the commands need the file `{path}`; the run's folder keeps its text as `script.rhai`, and what it imports below `modules/`")
    })
}

/// Says what an unfinished run still lacks. `None` if it was not started, or if only the end of its script is missing.
pub(in crate::report) fn missing(found: &RecordedRun, folder: &Folder) -> Option<String> {
    if let Some((_, missing)) = &found.so_far {
        return (!missing.is_empty()).then(|| missing.clone());
    }
    if found.not_started {
        return None;
    }
    if !found.totals.has_measured() {
        return Some("nothing was measured to its end".to_owned());
    }
    let jobs = folder
        .names("jobs")
        .unwrap_or_default()
        .iter()
        .filter(|name| name.ends_with(".json"))
        .count();
    if jobs > found.jobs.len() {
        return Some(format!(
            "{} of {} had not ended",
            jobs - found.jobs.len(),
            Count(jobs, "job")
        ));
    }
    let open: Vec<String> = found
        .drawn()
        .filter(|boundary| boundary.report.is_none())
        .filter_map(|boundary| unknown_share(boundary).ok())
        .map(|percent| format!("{percent:.1} % of the search range is unknown"))
        .collect();
    (!open.is_empty()).then(|| open.join("; "))
}

/// The percentage of the search range that is neither known to fit nor to fail.
fn unknown_share(boundary: &RecordedBoundary) -> Result<f64> {
    let volume = boundary.rebuild()?.volume()?;
    Ok(100.0 * volume.open as f64 / volume.total.max(1) as f64)
}
