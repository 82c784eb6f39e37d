//! How the run was made: enough to reproduce it and to judge what its results apply to.

use std::time::Duration;

use serde_json::Value;

use super::reproduce::shell_quoted;
use super::{Fact, Source};
use crate::report::plot::Sheet;
use crate::report::{Bytes, Clock, Count, WarningGroup};
use crate::run::{Manifest, RecordedRun};

/// JSON pointers to an engine's image and its digest.
const IMAGE: [&str; 2] = ["/launched/image", "/launched/digest"];

/// Stands for a value that a damaged run folder lost.
const UNKNOWN: &str = "not known";

const SHARED_GPU: &str = "a GPU that others use";

pub(super) fn facts(source: &Source) -> Vec<Fact> {
    let found = source.found;
    let manifest = &found.manifest;
    let script = &manifest.script;
    let seed = manifest.seed.map(|seed| seed.to_string()).unwrap_or_default();
    let allowed = match (manifest.permissions.join(", "), manifest.shared_gpu) {
        _ if found.lost.contains("permissions") => UNKNOWN.to_owned(),
        (allowed, false) if allowed.is_empty() => "nothing beyond the defaults".to_owned(),
        (allowed, true) if allowed.is_empty() => SHARED_GPU.to_owned(),
        (allowed, true) => format!("{allowed}, {SHARED_GPU}"),
        (allowed, false) => allowed,
    };
    let run = match manifest.profiler.as_str() {
        "" => format!("{}; the version of profiler is not known", manifest.run),
        version => format!("{}, by profiler {version}", manifest.run),
    };
    let terms = [
        ("model", models(manifest)),
        ("engine", engines(manifest)),
        ("image", from_engines(manifest, image)),
        ("GPU", gpus(found)),
        ("GPU driver", driver(found)),
        ("host", vec![host(manifest)]),
        ("launched", from_engines(manifest, launched)),
        (
            "script",
            vec![format!("{}, SHA-256 {}", script.path, or_unknown(&script.sha256))],
        ),
        ("seed", vec![or_unknown(&seed).to_owned()]),
        ("allowed", vec![allowed]),
        ("took", vec![time_taken(source)]),
        ("measured", vec![measured_counts(found)]),
        ("run", vec![run]),
    ];
    let fact = |term: &str, text: String| match term {
        "launched" => Fact::code(term, text),
        _ => Fact::new(term, text),
    };
    let facts = terms
        .into_iter()
        .flat_map(|(term, texts)| texts.into_iter().map(move |text| fact(term, text)));
    facts.collect()
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { UNKNOWN } else { text }
}

fn driver(found: &RecordedRun) -> Vec<String> {
    let known = found.manifest.driver.iter().cloned();
    let lost = found.lost.contains("driver").then(|| UNKNOWN.to_owned());
    known.chain(lost).take(1).collect()
}

/// Parameters (those set by the user first), modules with their hashes, and the warnings behind grouped ones.
pub(super) fn details(source: &Source, warnings: &[WarningGroup]) -> Vec<Sheet> {
    let manifest = &source.found.manifest;
    let set = |name: &String| manifest.set.contains_key(name);
    let mut parameters: Vec<(&String, &Value)> = manifest
        .parameters
        .as_ref()
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .collect();
    let unused = manifest
        .set
        .iter()
        .filter(|(name, _)| parameters.iter().all(|(known, _)| known != name));
    parameters.extend(unused.collect::<Vec<_>>());
    parameters.sort_by_key(|(name, _)| !set(name));
    let parameters = parameters.into_iter().map(|(name, value)| {
        let by = if set(name) { "the user" } else { "default" };
        vec![name.as_str().into(), value.to_string().into(), by.into()]
    });
    let modules = manifest.modules.iter();
    let modules = modules.map(|(name, hash)| vec![name.as_str().into(), hash.as_str().into()]);
    let grouped = warnings.iter().filter(|one| one.messages.len() > 1);
    let grouped = grouped
        .flat_map(|one| &one.messages)
        .map(|text| vec![text.as_str().into()]);
    let sheets = [
        Sheet::new(["parameter", "value", "set by"], parameters).titled("Parameters"),
        Sheet::new(["module", "SHA-256"], modules).titled("Modules as they ran"),
        Sheet::new(["warning"], grouped).titled("Grouped warnings"),
    ];
    sheets.into_iter().filter(|sheet| !sheet.rows.is_empty()).collect()
}

/// The models of all engines; the requested model if none was started.
pub(super) fn models(manifest: &Manifest) -> Vec<String> {
    let texts = from_engines(manifest, |engine| {
        text(engine, "/info/model").or_else(|| text(engine, "/options/model"))
    });
    if !texts.is_empty() {
        return texts;
    }
    let requested = manifest
        .parameters
        .as_ref()
        .and_then(|parameters| text(parameters, "/model"));
    requested.into_iter().collect()
}

/// Names and versions of the engines, and their runtimes.
pub(super) fn engines(manifest: &Manifest) -> Vec<String> {
    let engine = |engine: &Value| {
        let name = text(engine, "/info/engine")?;
        let version = text(engine, "/info/version")
            .map_or_else(|| ", version unknown".to_owned(), |version| format!(" {version}"));
        let runtime =
            text(engine, "/runtime").map_or_else(String::new, |runtime| format!(" ({})", runtime_text(&runtime)));
        Some(format!("{name}{version}{runtime}"))
    };
    let texts = from_engines(manifest, engine);
    if !texts.is_empty() {
        return texts;
    }
    let requested = manifest
        .parameters
        .as_ref()
        .and_then(|parameters| text(parameters, "/engine"));
    requested
        .map(|name| format!("{name}, never ready"))
        .into_iter()
        .collect()
}

fn runtime_text(runtime: &str) -> &str {
    match runtime {
        "docker" => "in Docker",
        "process" => "as a process",
        "attach" => "attached",
        "sim" => "SIMULATED",
        other => other,
    }
}

/// The GPUs that engines used, then the machine's others. For simulated engines, what was simulated.
fn gpus(found: &RecordedRun) -> Vec<String> {
    let manifest = &found.manifest;
    let simulated = |engine: &Value| {
        let profile = text(engine, "/launched/profile").filter(|_| engine["runtime"] == "sim")?;
        let gpu = text(engine, "/launched/gpu").map_or_else(String::new, |gpu| format!("{gpu}, "));
        let total = engine["memory_total"].as_u64();
        let total = total.map_or_else(String::new, |total| format!("{} of memory, ", Bytes(total)));
        Some(format!("SIMULATED: {gpu}{total}profile {profile}"))
    };
    let mut texts = from_engines(manifest, simulated);
    let one = |gpu: &Value| {
        let total = gpu["total"]
            .as_u64()
            .map_or_else(String::new, |total| format!(", {}", Bytes(total)));
        format!(
            "{}{total}, {}, index {}",
            plain(&gpu["name"]),
            plain(&gpu["id"]),
            plain(&gpu["index"])
        )
    };
    let (ours, others) = used(manifest);
    texts.extend(ours.into_iter().map(one));
    texts.extend(others.into_iter().map(|gpu| format!("{} (not used)", one(gpu))));
    if texts.is_empty() {
        let lost = found.lost.contains("gpus");
        texts.push(if lost { UNKNOWN } else { "none reported by a driver" }.to_owned());
    }
    texts
}

/// Names of the used GPUs for a heading: `2 × NVIDIA H200`, `a simulated 24 GB card`.
pub(super) fn cards(manifest: &Manifest) -> Vec<String> {
    let simulated = |engine: &Value| {
        let gpu = text(engine, "/launched/gpu").filter(|_| engine["runtime"] == "sim");
        gpu.map(|gpu| format!("a simulated {gpu}"))
    };
    let mut cards = from_engines(manifest, simulated);
    let names: Vec<String> = used(manifest).0.into_iter().map(|gpu| plain(&gpu["name"])).collect();
    for (at, name) in names
        .iter()
        .enumerate()
        .filter(|(at, name)| !names[..*at].contains(name))
    {
        let count = names[at..].iter().filter(|other| *other == name).count();
        cards.push(if count == 1 {
            name.clone()
        } else {
            format!("{count} × {name}")
        });
    }
    cards
}

/// Splits the machine's GPUs into those that engines were given and the others.
fn used(manifest: &Manifest) -> (Vec<&Value>, Vec<&Value>) {
    let given = |engine: &Value| {
        let gpus = engine["options"]["gpus"]
            .as_array()
            .filter(|_| engine["runtime"] != "sim")?;
        Some(gpus.iter().map(plain).collect::<Vec<_>>().join(","))
    };
    let given = from_engines(manifest, given);
    let given: Vec<&str> = given.iter().flat_map(|list| list.split(',')).collect();
    let is_given = |gpu: &&Value| {
        ["index", "id"]
            .iter()
            .any(|key| given.contains(&plain(&gpu[*key]).as_str()))
    };
    manifest.gpus.iter().partition(is_given)
}

fn image(engine: &Value) -> Option<String> {
    let [name, digest] = IMAGE.map(|pointer| text(engine, pointer));
    Some(match (name?, digest) {
        (name, Some(digest)) => format!("{name}, {digest}"),
        (name, None) => name,
    })
}

/// The command of a process, the arguments of a container, or the address of an attached server.
fn launched(engine: &Value) -> Option<String> {
    let words = |key: &str| -> Vec<String> {
        engine["launched"][key]
            .as_array()
            .into_iter()
            .flatten()
            .map(plain)
            .collect()
    };
    let mut line = words("command");
    if line.is_empty() {
        line = words("entrypoint");
        line.extend(words("args"));
    }
    if line.is_empty() {
        return text(engine, "/launched/url").or_else(|| text(engine, "/launched/container"));
    }
    Some(line.iter().map(|word| shell_quoted(word)).collect::<Vec<_>>().join(" "))
}

fn host(manifest: &Manifest) -> String {
    let host = &manifest.host;
    if host.name.is_empty() && host.cpus == 0 {
        return UNKNOWN.to_owned();
    }
    format!("{}, {}, {}", host.name, host.kernel, Count(host.cpus, "CPU"))
}

fn time_taken(source: &Source) -> String {
    let manifest = &source.found.manifest;
    let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
    let until = manifest.ended.as_ref().or(source.found.last.as_ref());
    let Some(until) = until else {
        return format!("began {}", or_unknown(&manifest.started));
    };
    let lasted = time(&manifest.started)
        .zip(time(until))
        .and_then(|(from, until)| Duration::try_from(until.duration_since(from)).ok());
    let lasted = lasted.map_or_else(String::new, |lasted| format!(" ({})", Clock(lasted)));
    let verb = if manifest.ended.is_some() {
        "until"
    } else {
        "last event"
    };
    format!("{} {verb} {until}{lasted}", manifest.started)
}

fn measured_counts(found: &RecordedRun) -> String {
    let points: usize = found.boundaries.iter().map(|boundary| boundary.points.len()).sum();
    let parts = [
        (
            found.finished,
            [
                "finished probe, load or experiment",
                "finished probes, loads or experiments",
            ],
        ),
        (points as u64, ["recorded point", "recorded points"]),
        (found.starts, ["start of an engine", "starts of engines"]),
    ];
    let counted = parts.into_iter().filter(|(count, _)| *count > 0);
    let texts: Vec<String> = counted
        .map(|(count, [one, more])| format!("{count} {}", if count == 1 { one } else { more }))
        .collect();
    match texts.is_empty() {
        true => "nothing".to_owned(),
        false => texts.join(", "),
    }
}

/// A text from each engine, without duplicates.
fn from_engines(manifest: &Manifest, describe: impl Fn(&Value) -> Option<String>) -> Vec<String> {
    let mut texts = Vec::new();
    for text in manifest.engines.iter().filter_map(describe) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

fn text(value: &Value, pointer: &str) -> Option<String> {
    let text = value.pointer(pointer)?.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// A string without quotes; other values as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
