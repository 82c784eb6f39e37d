//! `manifest.json`: the script, its inputs and the machine; and how a plan differs from it, since a resume needs the
//! same plan.
//!
//! The manifest is written before the script starts, and again as more is known.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::RunStatus;
use super::folder::{Folder, not_a_run};
use super::journal::{Entry, JOURNAL};
use super::{Event, Operation, secrets};
use crate::fault::{Fault, Kind, Result};
use crate::outside;

/// Version of `--json`, and of `result.json`.
pub const SCHEMA: u32 = 1;

/// Version of the journal and the manifest. Since version 2, a point refers to its probe's answer.
pub(super) const FOLDER_SCHEMA: u32 = 2;

pub(crate) const MANIFEST: &str = "manifest.json";

/// A run's manifest. In a damaged folder, unknown fields are empty.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Manifest {
    /// The version of the files in the folder.
    pub schema: u32,
    /// Version of the program that wrote it.
    pub profiler: String,
    /// The run's id.
    pub run: String,
    /// How it ended, if it did.
    pub status: RunStatus,
    /// When the first execution started, UTC.
    pub started: String,
    /// When the last execution ended, UTC.
    pub ended: Option<String>,
    /// The script.
    pub script: Script,
    /// SHA-256 of the modules imported, by name: `std/search.rhai`, or a path from the script's folder.
    pub modules: BTreeMap<String, String>,
    /// SHA-256 of the files of prompts and arrivals that loads sent, by the names that the options gave.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// Values from `--params` and `--set`.
    pub set: Map<String, Value>,
    /// The parameters of the script, once it has declared them.
    pub parameters: Option<Value>,
    /// Random seed; always present in a complete file.
    pub seed: Option<u64>,
    /// Permissions given by the user.
    pub permissions: Vec<String>,
    /// Whether the run may measure while others use the GPU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared_gpu: bool,
    /// Whether engines on this machine run without verification (`--insecure`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// Limit of script operations between two API calls, if the user set one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_operations: Option<u64>,
    /// Whether anything was simulated.
    pub simulated: bool,
    /// Every started engine: versions, launch line, image digest.
    pub engines: Vec<Value>,
    /// The GPUs of the machine, by UUID.
    pub gpus: Vec<Value>,
    /// Version of the GPU driver.
    pub driver: Option<String>,
    /// The machine.
    pub host: Machine,
}

/// A script as it ran.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Script {
    /// File name without extension.
    pub name: String,
    /// As given by the user: a path, or the name of a shipped script.
    pub path: String,
    /// SHA-256 of the text.
    pub sha256: String,
}

/// The machine that a run ran on.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Machine {
    /// Host name.
    pub name: String,
    /// Kernel and release.
    pub kernel: String,
    /// Number of usable processors.
    pub cpus: usize,
}

impl Machine {
    /// This machine.
    pub(super) fn own() -> Self {
        let read = |name: &str| {
            let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
            text.trim().to_owned()
        };
        Self {
            name: read("hostname"),
            kernel: format!("{} {}", read("ostype"), read("osrelease")),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
        }
    }
}

impl Manifest {
    /// Whether an engine of this run was given this GPU (one of `gpus`), by its index or its UUID.
    pub fn uses_gpu(&self, gpu: &Value) -> bool {
        let engines = self.engines.iter().filter(|engine| engine["runtime"] != "sim");
        let mut given = engines
            .filter_map(|engine| engine.pointer("/options/gpus")?.as_array())
            .flatten();
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        given.any(|given| {
            ["id", "index"]
                .iter()
                .any(|key| !gpu[*key].is_null() && text(&gpu[*key]) == text(given))
        })
    }

    /// Reads the manifest of a run's folder.
    pub fn read(folder: &Folder) -> Result<Self> {
        let path = folder.path().join(MANIFEST);
        let text = folder.read(MANIFEST)?.ok_or_else(|| not_a_run(folder.path()))?;
        let broken = |error: serde_json::Error| Fault::new(Kind::Io, format!("`{}`: {error}", path.display()));
        let value: Value = outside::json(&text).map_err(broken)?;
        if value["schema"] != FOLDER_SCHEMA {
            let schema = value["schema"]
                .as_u64()
                .map_or_else(|| "none".to_owned(), |schema| schema.to_string());
            let message = format!(
                "`{}` has schema {schema}; this profiler reads schema {FOLDER_SCHEMA}",
                path.display()
            );
            return Err(Fault::usage(message).hint("use the profiler version that wrote it"));
        }
        let manifest: Self = serde_json::from_value(value).map_err(broken)?;
        let without_seed = || Fault::new(Kind::Io, format!("`{}`: missing field `seed`", path.display()));
        manifest.seed.ok_or_else(without_seed).map(|_| manifest)
    }

    /// Adds what an event of the journal says about the run as a whole. Applying all events reconstructs a lost
    /// manifest as far as possible.
    pub(super) fn add(&mut self, entry: &Entry) {
        if self.started.is_empty() {
            self.started.clone_from(&entry.time);
        }
        let args = match &entry.event {
            Event::Engine { info } => {
                let simulated = info.pointer("/info/simulated") == Some(&Value::Bool(true));
                self.simulated |= simulated || info["runtime"] == "sim";
                self.add_engine(info);
                return;
            }
            Event::Resumed { .. } => {
                (self.status, self.ended) = (RunStatus::Running, None);
                return;
            }
            Event::End { status, .. } => {
                (self.status, self.ended) = (*status, Some(entry.time.clone()));
                return;
            }
            Event::Began { args, .. } | Event::Done { args, .. } | Event::StartFailed { args, .. } => args,
            _ => return,
        };
        self.simulated |= args.pointer("/launch/runtime").is_some_and(|runtime| runtime == "sim");
    }

    /// Adds an engine unless it is listed already; returns whether it is new.
    pub(super) fn add_engine(&mut self, info: &Value) -> bool {
        let same = |before: &Value| {
            let mut keys = IDENTITY.iter().chain(&MUST_MATCH);
            keys.all(|key| before.pointer(key) == info.pointer(key))
        };
        let is_new = !self.engines.iter().any(same);
        if is_new {
            self.engines.push(info.clone());
        }
        is_new
    }

    /// Whether the script finished.
    pub(crate) fn done(&self) -> bool {
        self.status == RunStatus::Done
    }

    /// Whether nothing happened since the manifest was written: its status is `running`, the journal has only file
    /// reads and notes, and the folder has no other files of a run.
    pub(super) fn not_started(&self, folder: &Folder) -> bool {
        let idle = |line: io::Result<String>| {
            let entry = line.ok().and_then(|line| serde_json::from_str::<Entry>(&line).ok());
            let is_idle = |event: &Event| match event {
                Event::Done { operation, .. } => matches!(operation, Operation::File(_)),
                Event::Note { .. } => true,
                _ => false,
            };
            entry.is_some_and(|entry| is_idle(&entry.event))
        };
        let left = ["result.json", "logs", "loads", "memory", "tables"];
        self.status == RunStatus::Running
            && !left.iter().any(|name| folder.has(name))
            && (folder.file(JOURNAL)).is_ok_and(|file| file.is_none_or(|file| BufReader::new(file).lines().all(idle)))
    }

    /// Fails if `plan` is not the plan of this run, and lists the differences. `module` returns the current hash of a
    /// module.
    ///
    /// # Errors
    ///
    /// `usage` with the differences.
    pub fn check(&self, plan: &RunPlan, module: impl Fn(&str) -> Option<String>) -> Result<()> {
        let mut differences = Vec::new();
        for (name, sha256) in &self.modules {
            match module(name) {
                Some(now) if now == *sha256 => {}
                Some(_) => differences.push(format!("the module `{name}` has changed")),
                None => differences.push(format!("the module `{name}` no longer exists")),
            }
        }
        let now = hidden(&plan.set);
        parameters(
            "",
            &comparable(&self.set, &plan.budgets),
            &comparable(&now, &plan.budgets),
            &mut differences,
        );
        if let (Some(before), Some(now)) = (self.seed, plan.seed)
            && before != now
        {
            differences.push(format!("the seed was {before} and is {now}"));
        }
        if !differences.is_empty() {
            return Err(refusal(&differences));
        }
        Ok(())
    }

    /// Whether `plan` changes what a resume may change, so that a finished run goes on.
    pub fn is_changed_by(&self, plan: &RunPlan) -> bool {
        completed(self.set.clone(), hidden(&plan.set)) != self.set
    }

    /// Fails if the script at `path` is not the one that ran.
    ///
    /// # Errors
    ///
    /// `usage`.
    pub fn check_script(&self, sha256: &str, path: &Path) -> Result<()> {
        if self.script.sha256 != sha256 {
            return Err(refusal(&[format!("the script `{}` has changed", path.display())]));
        }
        Ok(())
    }

    /// Adds permissions in the syntax of `--allow`, without duplicates.
    pub(super) fn permit(&mut self, words: impl IntoIterator<Item = String>) {
        for word in words {
            if !self.permissions.contains(&word) {
                self.permissions.push(word);
            }
        }
    }

    /// Adds the parameters and permissions of a later execution: repeating the run needs all of them.
    pub(super) fn amend(&mut self, plan: &RunPlan) {
        self.set = completed(std::mem::take(&mut self.set), hidden(&plan.set));
        self.permit(plan.permissions.iter().cloned());
        self.shared_gpu |= plan.shared_gpu;
        self.insecure |= plan.insecure;
        self.max_operations = self.max_operations.max(plan.max_operations);
    }

    /// Writes the file atomically.
    pub(super) fn write(&self, folder: &Folder) -> Result<()> {
        folder.replace_json(MANIFEST.as_ref(), self)
    }
}

/// The error if a run cannot be resumed with this plan.
pub(super) fn refusal(differences: &[String]) -> Fault {
    Fault::usage(format!("this is not the same run: {}", differences.join("; ")))
        .hint("resume it with the original script and parameters, or start a new run")
}

/// A script and the options to run it with.
#[derive(Clone, Debug, Default)]
pub struct RunPlan {
    /// The script.
    pub script: Script,
    /// Its text.
    pub text: String,
    /// SHA-256 of the modules that it imports, as far as known.
    pub modules: Vec<String>,
    /// Parameters that a resume may change, by its header.
    pub budgets: Vec<String>,
    /// Values from `--params` and `--set`. On a resume, omitted values are unchanged.
    pub set: Map<String, Value>,
    /// `--seed`.
    pub seed: Option<u64>,
    /// Permissions given by the user.
    pub permissions: Vec<String>,
    /// `--shared-gpu`.
    pub shared_gpu: bool,
    /// `--insecure`.
    pub insecure: bool,
    /// `--max-operations`.
    pub max_operations: Option<u64>,
    /// `--max-disk`, bytes; default 10 GiB.
    pub max_disk: Option<u64>,
    /// `--attempt`.
    pub attempt: Option<u64>,
}

impl RunPlan {
    /// SHA-256 of the script and its modules.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.script.sha256)
            .chain(&self.modules)
            .map(String::as_str)
    }
}

/// Options of a search that a resume may change: its budgets, and whether a point that ended the server counts as failing.
const CHANGEABLE: [&str; 5] = ["crash", "max_gpu_seconds", "max_probes", "max_seconds", "max_starts"];

/// Parameters without those that a resume may change, of which the script names its `budgets`.
fn comparable(set: &Map<String, Value>, budgets: &[String]) -> Map<String, Value> {
    let mut set = set.clone();
    budgets.iter().for_each(|name| drop(set.remove(name)));
    if let Some(Value::Object(search)) = set.get_mut("search") {
        CHANGEABLE.iter().for_each(|name| drop(search.remove(*name)));
        if search.is_empty() {
            set.remove("search");
        }
    }
    set
}

/// The parameters without secrets.
fn hidden(set: &Map<String, Value>) -> Map<String, Value> {
    let hidden = |(name, value): (&String, &Value)| (name.clone(), secrets::hidden_value(value.clone()));
    set.iter().map(hidden).collect()
}

fn parameters(prefix: &str, before: &Map<String, Value>, now: &Map<String, Value>, found: &mut Vec<String>) {
    for (key, now) in now {
        let name = format!("{prefix}{key}");
        match (before.get(key), now) {
            (Some(Value::Object(before)), Value::Object(now)) => parameters(&format!("{name}."), before, now, found),
            (Some(before), now) if before == now => {}
            (Some(before), now) => found.push(format!("the parameter `{name}` was {before} and is {now}")),
            (None, now) => found.push(format!("the parameter `{name}` was not set and is {now}")),
        }
    }
}

/// The recorded parameters, merged with those given now: secrets are not recorded and must be given again.
pub fn completed(mut recorded: Map<String, Value>, given: Map<String, Value>) -> Map<String, Value> {
    for (key, value) in given {
        let value = match (recorded.remove(&key), value) {
            (Some(Value::Object(before)), Value::Object(now)) => Value::Object(completed(before, now)),
            (_, value) => value,
        };
        recorded.insert(key, value);
    }
    recorded
}

/// JSON pointers that identify an engine. Two descriptions that agree in them refer to the same engine.
const IDENTITY: [&str; 3] = ["/info/engine", "/runtime", "/options"];

/// JSON pointers that must be equal for the same engine, if both descriptions contain them.
const MUST_MATCH: [&str; 5] = [
    "/info/version",
    "/info/model",
    "/launched/image",
    "/launched/digest",
    "/launched/image_digest",
];

/// Differences between a started engine and the same engine in earlier executions; empty for a new engine.
pub(super) fn engine_differences(before: &[Value], now: &Value) -> Vec<String> {
    let differ = |before: &Value| -> Vec<String> {
        let changes = MUST_MATCH.iter().filter_map(|pointer| {
            let (before, now) = (before.pointer(pointer)?, now.pointer(pointer)?);
            let same = before == now || before.is_null() || now.is_null();
            let name = pointer.rsplit('/').next().unwrap_or(pointer);
            (!same).then(|| format!("the engine's {name} was {before} and is {now}"))
        });
        changes.collect()
    };
    let same_engine = |before: &&Value| IDENTITY.iter().all(|key| before.pointer(key) == now.pointer(key));
    before
        .iter()
        .filter(same_engine)
        .map(differ)
        .min_by_key(Vec::len)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn parameters_are_compared_by_their_paths() {
        let mut found = Vec::new();
        let before = map(json!({ "model": "a", "search": { "seed": 1, "coverage": 0.9 }, "gpus": [0] }));
        let now = map(json!({ "model": "a", "search": { "seed": 2 }, "url": "x" }));
        parameters("", &before, &now, &mut found);
        assert_eq!(
            found,
            [
                "the parameter `search.seed` was 1 and is 2",
                "the parameter `url` was not set and is \"x\"",
            ]
        );
    }

    #[test]
    fn a_resume_needs_the_same_engine() {
        let engine = |version: Value, limit: u64| json!({ "info": { "engine": "vllm", "version": version }, "limits": { "input": limit } });
        let before = [engine(json!("0.24.0"), 1)];
        assert!(engine_differences(&before, &engine(json!("0.24.0"), 2)).is_empty());
        assert!(
            engine_differences(&before, &engine(Value::Null, 2)).is_empty(),
            "unknown is not different"
        );
        assert!(engine_differences(&[], &engine(json!("0.25.0"), 1)).is_empty());
        assert_eq!(
            engine_differences(&before, &engine(json!("0.25.0"), 1)),
            ["the engine's version was \"0.24.0\" and is \"0.25.0\""]
        );
        let other = json!({ "info": { "engine": "tgi", "version": "3.3.6" } });
        assert!(
            engine_differences(&before, &other).is_empty(),
            "a second engine of the same script"
        );
        let mut manifest = Manifest::default();
        let added = [&before[0], &engine(json!("0.24.0"), 9), &other].map(|engine| manifest.add_engine(engine));
        assert_eq!(added, [true, false, true]);
    }
}
