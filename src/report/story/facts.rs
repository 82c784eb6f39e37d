//! What was run: enough to repeat it, and to know what the figures hold for.

use std::time::Duration;

use serde_json::Value;

use super::repeat::quoted;
use super::{Fact, Source};
use crate::report::plot::{Entry, Sheet};
use crate::report::{Alike, Bytes, Clock, Count};
use crate::run::{Found, Manifest};

/// Where an engine's description tells its image, and the digest of that.
const IMAGE: [&str; 2] = ["/launched/image", "/launched/digest"];

/// What is said of what a broken folder does not tell.
const UNKNOWN: &str = "not known";

/// What `--shared-gpu` allows.
const SHARED: &str = "a GPU that others use";

/// The most wanted first.
pub(super) fn facts(source: &Source) -> Vec<Fact> {
    let manifest = &source.found.manifest;
    let mut facts = Vec::new();
    let mut all = |term: &str, texts: Vec<String>| facts.extend(texts.into_iter().map(|text| Fact::told(term, text)));
    all("model", models(manifest));
    all("engine", engines(manifest));
    all("image", of_engines(manifest, image));
    all("GPU", gpus(source.found));
    all("GPU driver", driver(source.found));
    all("host", vec![host(manifest)]);
    facts.extend(
        of_engines(manifest, launched)
            .into_iter()
            .map(|line| Fact::typed("launched", line)),
    );
    let script = &manifest.script;
    facts.push(Fact::told(
        "script",
        format!("{}, SHA-256 {}", script.path, known(&script.sha256)),
    ));
    facts.push(Fact::told(
        "seed",
        manifest
            .seed
            .map_or_else(|| UNKNOWN.to_owned(), |seed| seed.to_string()),
    ));
    facts.push(Fact::told(
        "allowed",
        match (manifest.permissions.join(", "), manifest.shared_gpu) {
            _ if source.found.lost.contains("permissions") => UNKNOWN.to_owned(),
            (allowed, false) if allowed.is_empty() => "nothing beyond the defaults".to_owned(),
            (allowed, true) if allowed.is_empty() => SHARED.to_owned(),
            (allowed, true) => format!("{allowed}, {SHARED}"),
            (allowed, false) => allowed,
        },
    ));
    facts.push(Fact::told("took", took(source)));
    facts.push(Fact::told("measured", measured(source)));
    facts.push(Fact::told(
        "run",
        match manifest.profiler.as_str() {
            "" => format!("{}; the version of profiler is not known", manifest.run),
            version => format!("{}, by profiler {version}", manifest.run),
        },
    ));
    facts
}

/// A text, or that it is not known.
fn known(text: &str) -> &str {
    if text.is_empty() { UNKNOWN } else { text }
}

fn driver(found: &Found) -> Vec<String> {
    let known = found.manifest.driver.iter().cloned();
    let lost = found.lost.contains("driver").then(|| UNKNOWN.to_owned());
    known.chain(lost).take(1).collect()
}

/// Parameters, those that the user set first, modules with their hashes, and the warnings of which several are told as one.
pub(super) fn details(source: &Source, warnings: &[Alike]) -> Vec<Sheet> {
    let manifest = &source.found.manifest;
    let set = |name: &String| manifest.set.contains_key(name);
    let mut parameters: Vec<(&String, &Value)> = manifest
        .parameters
        .as_ref()
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .collect();
    let unasked = manifest
        .set
        .iter()
        .filter(|(name, _)| parameters.iter().all(|(known, _)| known != name));
    parameters.extend(unasked.collect::<Vec<_>>());
    parameters.sort_by_key(|(name, _)| !set(name));
    let row = |(name, value): (&String, &Value)| -> Vec<Entry> {
        let by = if set(name) { "the user" } else { "default" };
        vec![name.as_str().into(), value.to_string().into(), by.into()]
    };
    let sheet = |title: &str, columns: &[&str], rows: Vec<Vec<Entry>>| Sheet {
        title: title.to_owned(),
        columns: columns.iter().map(|&column| column.to_owned()).collect(),
        rows,
    };
    let modules = manifest
        .modules
        .iter()
        .map(|(name, hash)| vec![name.as_str().into(), hash.as_str().into()]);
    let alike = warnings.iter().filter(|one| one.all.len() > 1).flat_map(|one| &one.all);
    let alike = alike.map(|text| vec![text.as_str().into()]);
    let sheets = [
        sheet(
            "Parameters",
            &["parameter", "value", "set by"],
            parameters.into_iter().map(row).collect(),
        ),
        sheet("Modules as they ran", &["module", "SHA-256"], modules.collect()),
        sheet("Warnings that are told as one", &["warning"], alike.collect()),
    ];
    sheets.into_iter().filter(|sheet| !sheet.rows.is_empty()).collect()
}

/// The models of all engines; what was asked for where none was started.
pub(super) fn models(manifest: &Manifest) -> Vec<String> {
    let told = of_engines(manifest, |engine| {
        text(engine, "/info/model").or_else(|| text(engine, "/options/model"))
    });
    if !told.is_empty() {
        return told;
    }
    let asked = manifest
        .parameters
        .as_ref()
        .and_then(|parameters| text(parameters, "/model"));
    asked.into_iter().collect()
}

/// Names and versions of the engines and where they ran.
pub(super) fn engines(manifest: &Manifest) -> Vec<String> {
    let engine = |engine: &Value| {
        let name = text(engine, "/info/engine")?;
        let version = text(engine, "/info/version")
            .map_or_else(|| ", version not told".to_owned(), |version| format!(" {version}"));
        let runtime = text(engine, "/runtime").map_or_else(String::new, |runtime| format!(" ({})", place(&runtime)));
        Some(format!("{name}{version}{runtime}"))
    };
    let told = of_engines(manifest, engine);
    if !told.is_empty() {
        return told;
    }
    let asked = manifest
        .parameters
        .as_ref()
        .and_then(|parameters| text(parameters, "/engine"));
    asked.map(|name| format!("{name}, never ready")).into_iter().collect()
}

fn place(runtime: &str) -> &str {
    match runtime {
        "docker" => "in Docker",
        "process" => "as a process",
        "attach" => "it ran already",
        "sim" => "SIMULATED",
        other => other,
    }
}

/// The GPUs that engines used first, then the others of the machine; of a simulated engine, what was simulated.
fn gpus(found: &Found) -> Vec<String> {
    let manifest = &found.manifest;
    let simulated = |engine: &Value| {
        let profile = text(engine, "/launched/profile").filter(|_| engine["runtime"] == "sim")?;
        let gpu = text(engine, "/launched/gpu").map_or_else(String::new, |gpu| format!("{gpu}, "));
        let total = engine["memory_total"].as_u64();
        let total = total.map_or_else(String::new, |total| format!("{} of memory, ", Bytes(total)));
        Some(format!("SIMULATED: {gpu}{total}profile {profile}"))
    };
    let mut told = of_engines(manifest, simulated);
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
    told.extend(ours.into_iter().map(one));
    told.extend(others.into_iter().map(|gpu| format!("{} (not used)", one(gpu))));
    if told.is_empty() {
        let lost = found.lost.contains("gpus");
        told.push(if lost { UNKNOWN } else { "none that a driver tells of" }.to_owned());
    }
    told
}

/// The names of the GPUs that engines used, for a heading: `2 × NVIDIA H200`, `a simulated 24 GB card`.
pub(super) fn cards(manifest: &Manifest) -> Vec<String> {
    let simulated = |engine: &Value| {
        let gpu = text(engine, "/launched/gpu").filter(|_| engine["runtime"] == "sim");
        gpu.map(|gpu| format!("a simulated {gpu}"))
    };
    let mut cards = of_engines(manifest, simulated);
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

/// The GPUs of the machine that engines were given, and the others.
fn used(manifest: &Manifest) -> (Vec<&Value>, Vec<&Value>) {
    let given = |engine: &Value| {
        let gpus = engine["options"]["gpus"]
            .as_array()
            .filter(|_| engine["runtime"] != "sim")?;
        Some(gpus.iter().map(plain).collect::<Vec<_>>().join(","))
    };
    let given = of_engines(manifest, given);
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

/// The command of a process, the arguments of a container, or the address of what ran already.
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
    Some(line.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
}

fn host(manifest: &Manifest) -> String {
    let host = &manifest.host;
    if host.name.is_empty() && host.cpus == 0 {
        return UNKNOWN.to_owned();
    }
    format!("{}, {}, {}", host.name, host.kernel, Count(host.cpus, "CPU"))
}

fn took(source: &Source) -> String {
    let manifest = &source.found.manifest;
    let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
    let until = manifest.ended.as_ref().or(source.found.last.as_ref());
    let Some(until) = until else {
        return format!("began {}", known(&manifest.started));
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

fn measured(source: &Source) -> String {
    let found = source.found;
    let points: usize = found.boundaries.iter().map(|boundary| boundary.points.len()).sum();
    let small = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let parts = [
        (small(found.finished), "finished probe, load or experiment"),
        (points, "recorded point"),
        (small(found.starts), "start of an engine"),
    ];
    let told = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, noun)| match (*count, *noun) {
            (1, noun) => format!("1 {noun}"),
            (count, "finished probe, load or experiment") => format!("{count} finished probes, loads or experiments"),
            (count, "start of an engine") => format!("{count} starts of engines"),
            (count, noun) => format!("{count} {noun}s"),
        });
    let told: Vec<String> = told.collect();
    if told.is_empty() {
        "nothing".to_owned()
    } else {
        told.join(", ")
    }
}

/// What each engine tells, each text once.
fn of_engines(manifest: &Manifest, tell: impl Fn(&Value) -> Option<String>) -> Vec<String> {
    let mut told = Vec::new();
    for text in manifest.engines.iter().filter_map(tell) {
        if !told.contains(&text) {
            told.push(text);
        }
    }
    told
}

fn text(value: &Value, pointer: &str) -> Option<String> {
    let text = value.pointer(pointer)?.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// A text without its quotes, anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
