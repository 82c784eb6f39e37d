//! The folder of a `vllm bench sweep`, for its `plot`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::csv;
use crate::fault::{Fault, Result};
use crate::run::{Folder, RecordedRun};

/// The files below the folder of a sweep: for each engine and setting of a load `SERVE--…-BENCH--…/run=N.json`, a run for
/// each repeat, and `summary.json`, a list of them; and `summary.csv` with all runs. They are the run's own files of
/// `loads/`, which have vLLM's keys, without the lists of single requests; what was varied is added, as vLLM does.
///
/// # Errors
///
/// `usage` if the run has no loads, or was made by a version that kept no such files.
pub fn vllm_sweep(found: &RecordedRun, folder: &Folder) -> Result<Vec<(PathBuf, String)>> {
    let mut settings: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (args, answer) in found.loads.iter().chain(&found.experiment_loads) {
        let varied = varied(args);
        let words = |part: &str| {
            let of_part = varied.iter().filter(|(serves, ..)| *serves == (part == "SERVE"));
            let words: Vec<String> = of_part
                .map(|(_, name, value)| format!("{name}={}", plain(value)))
                .collect();
            format!("{part}--{}", words.join("-"))
        };
        let name = format!("{}-{}", words("SERVE"), words("BENCH"));
        let repeats = answer.repeats.as_ref().map_or(1, |repeats| repeats.each.len());
        let runs = settings.entry(name).or_default();
        for repeat in 1..=repeats {
            let file = match repeat {
                1 => format!("loads/{}.json", answer.number),
                _ => format!("loads/{}-repeat-{repeat}.json", answer.number),
            };
            let Some(bytes) = folder.read(&file)? else { continue };
            let damaged = |error| Fault::usage(format!("`{file}` of this run cannot be read: {error}"));
            let mut run: Map<String, Value> = serde_json::from_slice(&bytes).map_err(damaged)?;
            run.retain(|_, value| !value.is_array());
            run.insert("run_number".to_owned(), runs.len().into());
            run.extend(
                varied
                    .iter()
                    .map(|(_, name, value)| ((*name).to_owned(), value.clone())),
            );
            runs.push(Value::Object(run));
        }
    }
    settings.retain(|_, runs| !runs.is_empty());
    if settings.is_empty() {
        return Err(Fault::usage("this run has no files of loads in vLLM's layout")
            .hint("give the folder of a run of `throughput`, `slo`, `batch` or `compare_engines`; packed runs may be without them"));
    }
    let all: Vec<&Value> = settings.values().flatten().collect();
    let mut files = vec![(PathBuf::from("summary.csv"), summary(&all))];
    for (name, runs) in &settings {
        let folder = PathBuf::from(name);
        for (index, run) in runs.iter().enumerate() {
            files.push((folder.join(format!("run={index}.json")), format!("{run:#}")));
        }
        files.push((folder.join("summary.json"), format!("{:#}", Value::Array(runs.clone()))));
    }
    Ok(files)
}

/// What distinguishes a load: whether it belongs to the engine's start, vLLM's name, and the value.
fn varied(args: &Value) -> Vec<(bool, &'static str, Value)> {
    let of = [
        (true, "engine", "/engine"),
        (true, "tensor_parallel_size", "/launch/tensor_parallel"),
        (true, "dtype", "/launch/dtype"),
        (false, "max_concurrency", "/load/concurrency"),
        (false, "request_rate", "/load/rate"),
        (false, "random_input_len", "/load/input"),
        (false, "random_output_len", "/load/output"),
    ];
    let known = of
        .into_iter()
        .filter_map(|(serves, name, pointer)| Some((serves, name, args.pointer(pointer)?.clone())));
    known
        .filter(|(.., value)| value.is_number() || value.is_string())
        .collect()
}

/// A value as part of a name.
fn plain(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.replace(
        |letter: char| !letter.is_ascii_alphanumeric() && !"._".contains(letter),
        "_",
    )
}

/// All runs as a table, with an index as its first column, as pandas writes it.
fn summary(runs: &[&Value]) -> String {
    let numbered = runs.iter().enumerate().filter_map(|(index, run)| {
        let mut row = run.as_object()?.clone();
        row.insert(String::new(), index.into());
        Some(row)
    });
    csv::write(&[String::new()], &numbered.collect::<Vec<_>>())
}
