//! How the run was made: enough to reproduce it and to judge what its results apply to.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::source::Source;
use crate::engine::LoadOptions;
use crate::fmt::shell_quoted;
use crate::report::document::Fact;
use crate::report::plot::Sheet;
use crate::report::{Bytes, Clock, Count, WarningGroup};
use crate::run::{Manifest, RecordedRun};
use crate::telemetry::Settled;

/// An engine in the manifest. Damaged fields count as unknown.
struct StartedEngine<'a>(&'a Value);

impl StartedEngine<'_> {
    /// The text at a JSON pointer.
    fn text(&self, at: &str) -> Option<&str> {
        self.0.pointer(at)?.as_str().filter(|text| !text.is_empty())
    }

    /// The texts of the list at a JSON pointer.
    fn texts(&self, at: &str) -> impl Iterator<Item = &str> {
        let list = self.0.pointer(at).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    }

    fn is_simulated(&self) -> bool {
        self.text("/runtime") == Some("sim")
    }

    /// `vllm 0.11`.
    fn name(&self) -> Option<String> {
        let name = self.text("/info/engine")?;
        Some(match self.text("/info/version") {
            Some(version) => format!("{name} {version}"),
            None => format!("{name}, version unknown"),
        })
    }

    fn model(&self) -> Option<String> {
        let model = self.text("/info/model").or_else(|| self.text("/options/model"));
        model.map(str::to_owned)
    }
}

/// Stands for a value that a damaged run folder lost.
const UNKNOWN: &str = "not known";

const SHARED_GPU: &str = "a GPU that others use";

pub(super) fn facts(source: &Source) -> Vec<Fact> {
    let found = source.found;
    let manifest = &found.manifest;
    let script = &manifest.script;
    let seed = manifest.seed.map(|seed| seed.to_string()).unwrap_or_default();
    let mut permissions: Vec<&str> = manifest.permissions.iter().map(String::as_str).collect();
    permissions.extend(manifest.shared_gpu.then_some(SHARED_GPU));
    let allowed = if found.manifest_lost {
        UNKNOWN.to_owned()
    } else if permissions.is_empty() {
        "nothing beyond the defaults".to_owned()
    } else {
        permissions.join(", ")
    };
    let run = match manifest.profiler.as_str() {
        "" => format!("{}; the version of profiler is not known", manifest.run),
        version => format!("{}, by profiler {version}", manifest.run),
    };
    let lost_driver = found.manifest_lost.then(|| UNKNOWN.to_owned());
    let of_script = format!("{}, SHA-256 {}", script.path, or_unknown(&script.sha256));
    let terms = [
        ("model", models(manifest)),
        ("engine", engines(manifest)),
        ("image", from_engines(manifest, image)),
        ("GPU", gpus(found)),
        (
            "GPU driver",
            manifest.driver.clone().or(lost_driver).into_iter().collect(),
        ),
        ("host", vec![host(manifest)]),
        ("launched", from_engines(manifest, launched)),
        ("attached to", from_engines(manifest, attached)),
        ("script", vec![of_script]),
        ("seed", vec![or_unknown(&seed).to_owned()]),
        ("allowed", vec![allowed]),
        ("took", vec![time_taken(source)]),
        ("measured", vec![measured_counts(found)]),
        ("isolated", isolation(&found.isolated).into_iter().collect()),
        ("run", vec![run]),
    ];
    let mut facts = Vec::new();
    for (term, texts) in terms {
        let paste = matches!(term, "launched" | "attached to");
        facts.extend(texts.into_iter().map(|text| Fact {
            paste,
            ..Fact::new(term, text)
        }));
    }
    facts
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { UNKNOWN } else { text }
}

/// Parameters (those set by the user first), modules with their hashes, and the warnings behind grouped ones.
pub(super) fn details(source: &Source, warnings: &[WarningGroup]) -> Vec<Sheet> {
    let manifest = &source.found.manifest;
    let set = |name: &String| manifest.set.contains_key(name);
    // Includes parameters that were set but not used.
    let mut values = manifest.set.clone();
    if let Some(Value::Object(all)) = &manifest.parameters {
        values.extend(all.clone());
    }
    let mut sorted: Vec<(String, Value)> = values.into_iter().collect();
    sorted.sort_by_key(|(name, _)| !set(name));
    let parameters = sorted.into_iter().map(|(name, value)| {
        let origin = if set(&name) { "the user" } else { "default" };
        vec![name.into(), value.to_string().into(), origin.into()]
    });
    let modules = manifest
        .modules
        .iter()
        .map(|(name, hash)| vec![name.as_str().into(), hash.as_str().into()]);
    let found = source.found;
    let loads: Vec<_> = found
        .loads
        .iter()
        .chain(&found.experiment_loads)
        .zip(found.load_warnings())
        .collect();
    let grouped = warnings
        .iter()
        .filter(|one| one.messages.len() > 1)
        .flat_map(|one| &one.messages)
        .map(|text| {
            let own = loads
                .iter()
                .filter(|(_, warnings)| warnings.iter().any(|one| one.message == *text));
            let levels = own.map(|((args, _), _)| LoadOptions::deserialize(&args["load"]).unwrap_or_default().level());
            vec![text.as_str().into(), levels.collect::<Vec<_>>().join(", ").into()]
        });
    let sheets = [
        Sheet::new(["parameter", "value", "set by"], parameters).titled("Parameters"),
        Sheet::new(["module", "SHA-256"], modules).titled("Modules as they ran"),
        Sheet::new(["warning", "load"], grouped).titled("Grouped warnings"),
    ];
    sheets.into_iter().filter(|sheet| !sheet.rows.is_empty()).collect()
}

/// The models of all engines; the requested model if none was started.
pub(super) fn models(manifest: &Manifest) -> Vec<String> {
    let texts = from_engines(manifest, StartedEngine::model);
    let requested = parameter(manifest, "model").filter(|_| texts.is_empty());
    texts.into_iter().chain(requested).collect()
}

/// Names and versions of the engines, and their runtimes.
fn engines(manifest: &Manifest) -> Vec<String> {
    let texts = from_engines(manifest, |engine| {
        let runtime = engine
            .text("/runtime")
            .map(runtime_text)
            .map_or_else(String::new, |runtime| format!(" ({runtime})"));
        Some(format!("{}{runtime}", engine.name()?))
    });
    let requested = parameter(manifest, "engine").filter(|_| texts.is_empty());
    texts
        .into_iter()
        .chain(requested.map(|name| format!("{name}, never ready")))
        .collect()
}

/// A string parameter of the script.
fn parameter(manifest: &Manifest, name: &str) -> Option<String> {
    Some(manifest.parameters.as_ref()?.get(name)?.as_str()?.to_owned())
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

/// The GPUs that engines used, then the machine's other GPUs; for simulated engines, the simulated cards.
fn gpus(found: &RecordedRun) -> Vec<String> {
    let manifest = &found.manifest;
    let simulated = |engine: &StartedEngine| {
        let profile = engine.text("/launched/profile").filter(|_| engine.is_simulated())?;
        let gpu = engine.text("/launched/gpu").map(|gpu| format!("{gpu}, "));
        let total = engine.0["memory_total"]
            .as_u64()
            .map(|total| format!("{} of memory, ", Bytes(total)));
        let known: String = gpu.into_iter().chain(total).collect();
        Some(format!("SIMULATED: {known}profile {profile}"))
    };
    let mut texts = from_engines(manifest, simulated);
    let one = |gpu: &&Value| {
        let text = |name: &str| gpu[name].as_str().unwrap_or_default();
        let total = gpu["total"]
            .as_u64()
            .map_or_else(String::new, |total| format!(", {}", Bytes(total)));
        let index = gpu["index"]
            .as_u64()
            .map_or_else(String::new, |index| format!(", index {index}"));
        format!("{}{total}, {}{index}", text("name"), text("id"))
    };
    let (ours, others) = used(manifest);
    texts.extend(ours.iter().map(one));
    texts.extend(others.iter().map(|gpu| format!("{} (not used)", one(gpu))));
    if texts.is_empty() {
        let none = "none reported by a driver";
        texts.push(if found.manifest_lost { UNKNOWN } else { none }.to_owned());
    }
    texts
}

/// Names of the used GPUs for a heading: `2 × NVIDIA H200`, `a simulated 24 GB card`.
pub(super) fn cards(manifest: &Manifest) -> Vec<String> {
    let mut cards = from_engines(manifest, |engine| {
        let gpu = engine.text("/launched/gpu").filter(|_| engine.is_simulated());
        gpu.map(|gpu| format!("a simulated {gpu}"))
    });
    let mut names: Vec<&str> = used(manifest)
        .0
        .into_iter()
        .map(|gpu| gpu["name"].as_str().unwrap_or_default())
        .collect();
    names.sort_unstable();
    cards.extend(names.chunk_by(|one, next| one == next).map(|same| match same {
        [one] => (*one).to_owned(),
        several => format!("{} × {}", several.len(), several[0]),
    }));
    cards
}

/// Splits the machine's GPUs into those given to engines and the others.
fn used(manifest: &Manifest) -> (Vec<&Value>, Vec<&Value>) {
    manifest.gpus.iter().partition(|gpu| manifest.uses_gpu(gpu))
}

fn image(engine: &StartedEngine) -> Option<String> {
    let digest = engine.text("/launched/digest").map(|digest| format!(", {digest}"));
    Some(format!(
        "{}{}",
        engine.text("/launched/image")?,
        digest.unwrap_or_default()
    ))
}

/// The command of a process, or the arguments of a container.
fn launched(engine: &StartedEngine) -> Option<String> {
    let lists = ["/launched/command", "/launched/entrypoint", "/launched/args"];
    let words = lists.iter().flat_map(|list| engine.texts(list)).map(shell_quoted);
    Some(words.collect::<Vec<_>>().join(" "))
}

/// The address or the container of a server that was already running.
fn attached(engine: &StartedEngine) -> Option<String> {
    let at = engine.text("/launched/url").or(engine.text("/launched/container"));
    launched(engine).filter(String::is_empty).and(at).map(str::to_owned)
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
    let (verb, until) = match (&manifest.ended, &source.found.last) {
        (Some(ended), _) => ("until", ended),
        (None, Some(last)) => ("last event", last),
        (None, None) => return format!("began {}", or_unknown(&manifest.started)),
    };
    let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
    let times = time(&manifest.started).zip(time(until));
    let lasted = times
        .and_then(|(from, until)| Duration::try_from(until.duration_since(from)).ok())
        .map_or_else(String::new, |lasted| format!(" ({})", Clock(lasted)));
    format!("{} {verb} {until}{lasted}", manifest.started)
}

fn measured_counts(found: &RecordedRun) -> String {
    let points: usize = found.boundaries.iter().map(|boundary| boundary.points.len()).sum();
    let parts = [
        (found.finished as usize, "finished operation"),
        (points, "recorded point"),
        (found.starts as usize, "engine start"),
    ];
    let counted = parts.into_iter().filter(|(count, _)| *count > 0);
    let texts: Vec<String> = counted.map(|(count, noun)| Count(count, noun).to_string()).collect();
    if texts.is_empty() {
        "nothing".to_owned()
    } else {
        texts.join(", ")
    }
}

/// The isolation of points, as it was measured.
fn isolation(seen: &[Settled]) -> Option<String> {
    if seen.is_empty() {
        return None;
    }
    let points = Count(seen.len(), "point");
    let most = seen.iter().map(|one| one.above).max().unwrap_or_default();
    let longest = seen.iter().map(|one| one.seconds).fold(0.0, f64::max);
    let not_back = seen.iter().filter(|one| !one.back).count();
    let memory = match not_back {
        0 => format!(
            "memory was back at its baseline before each start (at most {} more",
            Bytes(most)
        ),
        _ => format!(
            "memory was above its baseline before {} (up to {}",
            Count(not_back, "start"),
            Bytes(most)
        ),
    };
    Some(format!(
        "{points}, each on a fresh engine; {memory}, after up to {longest:.1} s)"
    ))
}

/// A text from each engine, without duplicates.
fn from_engines<'a>(manifest: &'a Manifest, describe: impl Fn(&StartedEngine<'a>) -> Option<String>) -> Vec<String> {
    let mut texts = Vec::new();
    for engine in &manifest.engines {
        let text = describe(&StartedEngine(engine));
        texts.extend(text.filter(|text| !text.is_empty() && !texts.contains(text)));
    }
    texts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_null_or_a_wrong_type_hides_nothing_else() {
        let engine = json!({
            "runtime": "docker", "memory_total": "much",
            "options": { "model": "Qwen/Qwen3-8B", "gpus": [0, "GPU-b"] },
            "info": { "engine": "vllm", "version": null, "model": null },
            "launched": { "image": "vllm/vllm-openai:v0.11", "digest": 7, "entrypoint": null, "args": ["serve", null, "a b"] },
        });
        let manifest = Manifest {
            engines: vec![engine, json!({ "options": null, "info": null, "launched": null })],
            gpus: vec![
                json!({ "id": "GPU-b", "index": null, "name": "NVIDIA L4", "total": "?" }),
                json!(null),
            ],
            ..Manifest::default()
        };
        assert_eq!(models(&manifest), ["Qwen/Qwen3-8B"]);
        assert_eq!(engines(&manifest), ["vllm, version unknown (in Docker)"]);
        assert_eq!(from_engines(&manifest, image), ["vllm/vllm-openai:v0.11"]);
        assert_eq!(from_engines(&manifest, launched), ["serve 'a b'"]);
        assert_eq!(cards(&manifest), ["NVIDIA L4"]);
    }
}
