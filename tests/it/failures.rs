//! Every failure that the engines' documentation or sources word (tests/data/failures), read by the shipped adapters.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use profiler::engine::{Adapter, Reading, read_request, read_start};
use profiler::script;
use serde::Deserialize;
use serde_json::{Value, json};

use super::script::bench::Bench;

/// One failure and what must be made of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    /// The file's name.
    #[serde(skip)]
    engine: String,
    version: String,
    when: When,
    #[serde(default)]
    log: Vec<String>,
    message: Option<String>,
    exit: Option<i64>,
    verdict: Option<String>,
    cause: Option<String>,
    phase: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum When {
    Start,
    Request,
}

#[derive(Deserialize)]
struct Table {
    failure: Vec<Failure>,
}

/// The failures of all engines.
fn failures() -> Vec<Failure> {
    let folder = format!("{}/tests/data/failures", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let read = |file: &PathBuf| {
        let engine = file.file_stem().unwrap().to_string_lossy().into_owned();
        let table: Table = toml::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        table.failure.into_iter().map(move |failure| Failure {
            engine: engine.clone(),
            ..failure
        })
    };
    files.iter().flat_map(read).collect()
}

impl Failure {
    fn read(&self, adapter: &dyn Adapter) -> Reading {
        let messages: Vec<String> = self.message.iter().cloned().collect();
        match self.when {
            When::Start => read_start(adapter, &self.log, self.exit.unwrap_or(1)),
            When::Request => read_request(adapter, &messages, &self.log, self.exit),
        }
        .unwrap()
    }

    /// What is wrong with this reading.
    fn complaint(&self, reading: &Reading) -> Option<String> {
        let verdict = json!(reading.verdict);
        let known = self.verdict.as_ref().map_or(Value::Null, |verdict| json!(verdict));
        // Nothing may be made of an unknown failure; of a known one the cause is as given, where it is given.
        let cause = self.cause.is_none() && self.verdict.is_some() || reading.cause == self.cause;
        let phase = self.phase.is_none() || reading.phase == self.phase;
        (verdict != known || !cause || !phase)
            .then(|| format!("{} {}: {self:?}\nis read as {reading:?}", self.engine, self.version))
    }
}

/// What the shipped adapters make of the failures.
fn readings() -> Vec<(Failure, Reading)> {
    let host = Bench::script("").host();
    let mut adapters: HashMap<String, Arc<dyn Adapter>> = HashMap::new();
    let mut read = |failure: Failure| {
        let adapter = adapters
            .entry(failure.engine.clone())
            .or_insert_with(|| script::adapter(&host, &failure.engine).unwrap());
        let reading = failure.read(adapter.as_ref());
        (failure, reading)
    };
    failures().into_iter().map(&mut read).collect()
}

#[test]
fn every_failure_of_every_engine_is_what_it_is() {
    let readings = readings();
    let wrong: Vec<_> = readings
        .iter()
        .filter_map(|(failure, reading)| failure.complaint(reading))
        .collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    for name in script::shipped::modules().filter_map(|module| module.strip_prefix("engines/")) {
        let told = readings.iter().any(|(failure, _)| failure.engine == name);
        // Neither is an engine of its own.
        assert!(
            told || ["sim", "openai"].contains(&name),
            "no failures of `{name}` are told"
        );
    }
}

#[test]
fn figures_of_torch_are_read_wherever_it_gives_them() {
    for (failure, reading) in readings() {
        let texts = failure.log.iter().chain(&failure.message);
        let told = texts.filter(|text| text.contains("has a total capacity of")).count();
        let full = reading
            .allocations
            .iter()
            .filter(|one| one.total.is_some() && one.free.is_some());
        assert_eq!(full.count(), told.min(1), "{failure:?}: {reading:?}");
    }
}
