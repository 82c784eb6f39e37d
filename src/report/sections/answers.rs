//! What a run's page says first: its headline, the list of answers, and the shell commands that resume or reproduce the
//! run.

use std::path::Path;

use serde_json::{Map, Value};

use super::boundaries::MAX_DRAWN;
use super::{Fact, Source, breakdown_finding, experiment_findings, facts, loads};
use crate::boundary::Boundary;
use crate::compare::experiments;
use crate::fault::Result;
use crate::fmt::shell_quoted;
use crate::report::document::capitalized;
use crate::report::so_far::missing;
use crate::report::{Answer, Extras};
use crate::run::{AskedServer, Folder, Manifest, RecordedBoundary, RecordedRun, has_hidden};

/// All answers, most important first.
pub(super) fn answers(source: &Source) -> Vec<Fact> {
    let mut facts = Vec::new();
    let boundaries = source.boundaries.len();
    // With this many boundaries, individual recommendations are of no use.
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
            .map(|answer| answer.facts())
            .unwrap_or_default();
        // The limit of the only boundary is the heading.
        facts.extend(own.into_iter().skip(usize::from(!several)).map(|mut fact| {
            if several {
                fact.term = format!("boundary {number}: {}", fact.term);
            }
            fact
        }));
    }
    // So is the first finding of a run without one.
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
    match source.found.done() {
        true => summary_line(source),
        false => format!("Unfinished: {}", summary_line(source)),
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
    match findings(found).into_iter().next() {
        Some(finding) => capitalized(&finding),
        None => script.clone(),
    }
}

/// What the run was about: `meta-llama/Llama-3.1-8B-Instruct on NVIDIA H200`.
pub(super) fn subject(source: &Source) -> String {
    let manifest = &source.found.manifest;
    let mut parts = vec![facts::models(manifest), facts::cards(manifest)];
    parts.retain(|names| !names.is_empty());
    let parts = parts.iter().map(|names| names.join(", "));
    parts.collect::<Vec<_>>().join(" on ")
}

/// The answer of a boundary; none if it cannot be read or nothing was tested.
fn answer(source: &Source, (recorded, rebuilt): &(&RecordedBoundary, Result<Boundary>)) -> Option<Answer> {
    let rebuilt = rebuilt.as_ref().ok()?;
    let extras = Extras::of_run(source.found, recorded.report.clone());
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
        facts.push(Fact::code("to go on with it", command));
    }
    facts.push(Fact::code("to repeat it", command(found)));
    if let Some(own) = script_note(source) {
        facts.push(Fact::new("its script", own));
    }
    facts
}

/// The command that resumes an unfinished run, as the terminal prints it; none if there is nothing to resume.
pub(in crate::report) fn resume(found: &RecordedRun, folder: &Folder) -> Option<String> {
    let manifest = &found.manifest;
    let resumable = found.totals.has_measured() || manifest.status != "failed";
    if found.done() || !resumable || !found.can_resume() || has_hidden(&manifest.set) {
        return None;
    }
    let (script, flags) = (&manifest.script.path, permission_flags(manifest));
    Some(resume_command(script, folder.path(), &manifest.set, &flags))
}

/// `profiler run SCRIPT --resume FOLDER FLAGS`. What a folder names may come from somebody else: a resume may only use
/// the addresses, containers and files that its own command line names, so the parameters are repeated if they have any.
pub fn resume_command(script: &str, folder: &Path, set: &Map<String, Value>, flags: &[String]) -> String {
    let none = Map::new();
    let command = run_command(script, if names_something(set) { set } else { &none }, &[]);
    let folder = shell_quoted(&folder.display().to_string());
    [&[command, "--resume".to_owned(), folder], flags].concat().join(" ")
}

/// Whether parameters name an address, a container, or a file or folder of this machine.
fn names_something(set: &Map<String, Value>) -> bool {
    fn is_file(value: &Value) -> bool {
        match value {
            Value::String(text) => text.starts_with(['/', '.', '~']) || Path::new(text).exists(),
            Value::Array(values) => values.iter().any(is_file),
            Value::Object(values) => values.values().any(is_file),
            _ => false,
        }
    }
    set.iter()
        .any(|(name, value)| name == "url" || name == "container" || is_file(value))
}

/// A note for readers who have the page but not the script file.
fn script_note(source: &Source) -> Option<String> {
    let path = &source.found.manifest.script.path;
    // Shipped scripts have a bare name.
    let file = path.contains('/') || path.ends_with(".rhai");
    let kept = source.folder.has_file("script.rhai");
    if path == "-" && kept {
        return Some("it came from standard input; the run's folder keeps its text as `script.rhai`".to_owned());
    }
    (file && kept).then(|| {
        format!("the commands need the file `{path}`; the run's folder keeps its text as `script.rhai`, and what it imports below `modules/`")
    })
}

/// What was set, with the model that a server was asked for where none was named: the only one, or one chosen at the terminal.
pub fn with_model(
    mut set: Map<String, Value>,
    parameters: Option<&Value>,
    asked: &[AskedServer],
) -> Map<String, Value> {
    let mut models = (asked.iter()).map(|asked| asked.model.as_ref().filter(|_| asked.address.is_some()));
    let has_parameter = parameters.is_some_and(|parameters| parameters.get("model").is_some());
    if let Some(Some(first)) = models.next()
        && has_parameter
        && models.all(|other| other == Some(first))
    {
        set.entry("model").or_insert_with(|| first.clone().into());
    }
    set
}

/// `profiler run SCRIPT --seed N` with all parameters and permissions.
fn command(found: &RecordedRun) -> String {
    let manifest = &found.manifest;
    let mut set = with_model(manifest.set.clone(), manifest.parameters.as_ref(), &found.totals.asked);
    if let Some(engine) = auto_engine(manifest) {
        set.insert("engine".to_owned(), engine.into());
    }
    let seed = manifest.seed.map(|seed| format!("--seed {seed}"));
    let flags: Vec<String> = seed.into_iter().chain(permission_flags(manifest)).collect();
    run_command(&manifest.script.path, &set, &flags)
}

/// `profiler run SCRIPT --set KEY=VALUE …`
pub(crate) fn run_command(script: &str, set: &Map<String, Value>, flags: &[String]) -> String {
    let mut words = vec!["profiler".to_owned(), "run".to_owned(), shell_quoted(script)];
    for (key, value) in set {
        words.push("--set".to_owned());
        words.push(shell_quoted(&format!("{key}={}", set_value(value))));
    }
    words.extend_from_slice(flags);
    words.join(" ")
}

/// The engine that `auto` resolved to; on another machine it may resolve to another.
fn auto_engine(manifest: &Manifest) -> Option<String> {
    let requested = manifest.parameters.as_ref()?.get("engine")?;
    let engines = manifest.engines.iter();
    let mut used = engines.filter_map(|engine| engine["info"]["engine"].as_str());
    let first = used.next()?;
    (*requested == "auto" && used.all(|other| other == first)).then(|| first.to_owned())
}

/// `--allow WHAT` for each permission.
pub fn allow_flags(permissions: &[String]) -> Vec<String> {
    let allowed = permissions.iter();
    allowed.map(|what| format!("--allow {}", shell_quoted(what))).collect()
}

fn permission_flags(manifest: &Manifest) -> Vec<String> {
    let mut words = allow_flags(&manifest.permissions);
    if manifest.shared_gpu {
        words.push("--shared-gpu".to_owned());
    }
    if manifest.insecure {
        words.push("--insecure".to_owned());
    }
    if let Some(most) = manifest.max_operations {
        words.extend(["--max-operations".to_owned(), most.to_string()]);
    }
    words
}

/// A value in the form that `--set` parses back: strings unquoted unless they would parse as something else.
fn set_value(value: &Value) -> String {
    match value {
        Value::String(text) if serde_json::from_str::<Value>(text).is_err() => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::script::params;

    proptest! {
        #[test]
        fn values_round_trip(text in ".*", number in any::<i64>()) {
            for value in [json!(text), json!(number), json!([text, number]), json!({ "a.b": text }), json!(null)] {
                let assignment = format!("key={}", set_value(&value));
                prop_assert_eq!(params::assignment(&assignment).unwrap(), ("key", value));
            }
        }
    }
}
