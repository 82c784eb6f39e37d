//! Reads the folder of a `vllm bench sweep`: `SERVE--…-BENCH--…/run=N.json`, in the folder or one below it, or one of
//! these folders by itself.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::document::{Document, Node};
use super::vllm_bench;
use crate::compare::ComparisonInput;
use crate::fault::{Fault, Result};

/// Most folders that are looked into.
const MAX_FOLDERS: usize = 10_000;

/// The files of a sweep's runs in order; empty if the folder is not one of a sweep.
pub(super) fn runs(folder: &Path) -> Vec<PathBuf> {
    let below = |folder: &Path, wanted: fn(&str) -> bool| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(wanted));
        let mut paths: Vec<PathBuf> = named.take(MAX_FOLDERS).map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let is_run: fn(&str) -> bool = |name| name.starts_with("run=") && name.ends_with(".json");
    let is_setting: fn(&str) -> bool = |name| name.starts_with("SERVE-") || name.starts_with("BENCH-");
    let of = |settings: Vec<PathBuf>| -> Vec<PathBuf> { settings.iter().flat_map(|one| below(one, is_run)).collect() };
    let own = below(folder, is_run);
    if !own.is_empty() {
        return own;
    }
    let found = of(below(folder, is_setting));
    if !found.is_empty() {
        return found;
    }
    let dated: fn(&str) -> bool = |name| !name.starts_with('.');
    below(folder, dated)
        .iter()
        .filter(|one| one.is_dir())
        .flat_map(|one| of(below(one, is_setting)))
        .collect()
}

/// Reads the runs of a sweep together.
pub(super) fn read(folder: &Path, runs: &[PathBuf]) -> Result<ComparisonInput> {
    let mut all = Vec::new();
    for path in runs {
        let document = Document::open(path)?;
        let wrong = |what: String| Fault::usage(format!("`{}` is no run of a sweep: {what}", path.display()));
        let Value::Object(mut run) = document.root.map_err(wrong)? else {
            return Err(wrong("it is not an object".to_owned()));
        };
        if ["duration", "request_throughput"]
            .iter()
            .all(|name| !run.contains_key(*name))
        {
            return Err(wrong("it has neither `duration` nor `request_throughput`".to_owned()));
        }
        for (name, value) in settings(path) {
            run.entry(name).or_insert(value);
        }
        all.push(Value::Object(run));
    }
    let all = Value::Array(all);
    let mut input =
        vllm_bench::read_sweep(&Node(&all)).map_err(|what| Fault::usage(format!("`{}`: {what}", folder.display())))?;
    input.title = folder.display().to_string();
    Ok(input)
}

/// The settings in the name of a run's folder: `SERVE--max_num_seqs=256-dtype=auto-BENCH--max_concurrency=8`.
fn settings(run: &Path) -> Map<String, Value> {
    let name = run
        .parent()
        .and_then(Path::file_name)
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let words = name.split("--").flat_map(|part| part.split('-'));
    words
        .filter_map(|word| word.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect()
}
