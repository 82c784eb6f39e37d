//! The files of hpml's studies: `metrics_data.json`, `gpu_memory_data.json`, `kv_cache_data.json`.

use std::collections::BTreeSet;
use std::io::BufReader;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::compare::import::MIB;
use crate::csv::{self, Row};
use crate::fault::{Fault, Result};
use crate::load::{LoadAnswer, request_lines};
use crate::run::{Folder, RecordedLoad, RecordedRun, hide};

/// The names of the files.
pub const FILES: [&str; 3] = ["metrics_data.json", "gpu_memory_data.json", "kv_cache_data.json"];

/// The files of each load with hpml's keys, in `load-N/` where the run has several: a row for each request, and for each
/// repeat, in `repeat-M/` where there are several, GPU memory over time in MiB and the share of the KV cache in use over
/// time in per cent. What was not sampled is left out. Two keys are added: `engine`, and `simulated`.
///
/// # Errors
///
/// `usage` if the run has no loads with requests.
pub fn hpml(found: &RecordedRun, folder: &Folder) -> Result<Vec<(PathBuf, String)>> {
    let loads: Vec<&RecordedLoad> = found.loads.iter().chain(&found.experiment_loads).collect();
    let total = total_memory(found);
    let [of_requests, of_memory, of_cache] = FILES;
    let mut files = Vec::new();
    for load in &loads {
        let (args, answer) = load;
        let place = match loads.len() {
            1 => PathBuf::new(),
            _ => PathBuf::from(format!("load-{}", answer.number)),
        };
        let requests = requests(found, load, folder)?;
        if !requests.is_empty() {
            files.push((place.join(of_requests), Value::from(requests).to_string()));
        }
        let repeats = answer.each();
        for (at, repeat) in repeats.iter().enumerate() {
            let Some(timeline) = repeat.engine.timeline.file.as_deref() else {
                continue;
            };
            let Some(bytes) = folder.read(timeline)? else { continue };
            let rows = csv::rows(&String::from_utf8_lossy(&bytes))
                .map_err(|error| Fault::usage(format!("`{timeline}` of this run cannot be read: {error}")))?;
            let place = match repeats.len() {
                1 => place.clone(),
                _ => place.join(format!("repeat-{}", at + 1)),
            };
            files.extend(memory(found, args, repeat, &rows, total).map(|file| (place.join(of_memory), file)));
            files.extend(kv_cache(found, args, &rows).map(|file| (place.join(of_cache), file)));
        }
    }
    if files.is_empty() {
        return Err(Fault::usage("this run has no requests of loads")
            .hint("give the folder of a run of `throughput`, `slo` or `kv_cache`; packed runs may be without them"));
    }
    Ok(files)
}

/// The fields of a line in the request file that are needed.
#[derive(Deserialize)]
struct RequestLine {
    repeat: u64,
    index: u64,
    warmup: bool,
    sent: f64,
    first_token: Option<f64>,
    last_token: Option<f64>,
    outcome: Value,
    counted: Counted,
    tokens_seen: Option<u64>,
    #[serde(default)]
    events: u64,
}

#[derive(Deserialize)]
struct Counted {
    output: Option<u64>,
}

/// Settings of a load that name its scenario.
const SCENARIO: [&str; 3] = ["rate", "input", "output"];

/// A row for each completed request.
fn requests(found: &RecordedRun, (args, answer): &RecordedLoad, folder: &Folder) -> Result<Vec<Value>> {
    let Some(file) = answer
        .records
        .as_deref()
        .map(|name| folder.file(name))
        .transpose()?
        .flatten()
    else {
        return Ok(Vec::new());
    };
    let load = &args["load"];
    let throughput = answer.stats.rates.output_throughput;
    let dollars = load["price_per_hour"].as_f64().zip(throughput);
    let cost = dollars.map(|(hour, tokens)| hour / 3600.0 / tokens);
    let known = SCENARIO.into_iter().filter_map(|name| match &load[name] {
        Value::String(word) => Some(format!("{name}={word}")),
        Value::Number(number) => Some(format!("{name}={number}")),
        _ => None,
    });
    let scenario = known.collect::<Vec<_>>().join(" ");
    let mut rows = Vec::new();
    for line in request_lines::<RequestLine>(BufReader::new(file)) {
        let line = line.map_err(|error| Fault::usage(format!("the requests of this run cannot be read: {error}")))?;
        let Some(line) = line.filter(|line| !line.warmup && line.outcome == "completed") else {
            continue;
        };
        let latency = line.last_token.map(|last| last - line.sent);
        // Many servers state no count.
        let streamed = || line.tokens_seen.unwrap_or(line.events);
        let tokens = line.counted.output.unwrap_or_else(streamed);
        rows.push(json!({
            "engine": args["engine"],
            "simulated": found.manifest.simulated,
            "scenario": scenario,
            "concurrency": load["concurrency"],
            "prompt_idx": line.index,
            "run": line.repeat,
            "request_idx_in_batch": line.index,
            "ttft_ms": line.first_token.map(|first| 1e3 * (first - line.sent)),
            "latency_ms": latency.map(|seconds| 1e3 * seconds),
            "tokens": tokens,
            "per_request_throughput_tok_per_sec": latency.map(|seconds| tokens as f64 / seconds),
            "aggregate_throughput_tok_per_sec": throughput,
            "cost_per_token_usd": cost,
        }));
    }
    Ok(rows)
}

/// The times and the values of a column that were sampled.
fn history(rows: &[Row], column: &str, factor: f64) -> (Vec<f64>, Vec<f64>) {
    let number = |row: &Row, name: &str| row.get(name)?.parse::<f64>().ok();
    let sampled = rows
        .iter()
        .filter_map(|row| Some((number(row, "seconds")?, factor * number(row, column)?)));
    sampled.unzip()
}

fn highest(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

fn memory(found: &RecordedRun, args: &Value, repeat: &LoadAnswer, rows: &[Row], total: Option<f64>) -> Option<String> {
    let (times, used) = history(rows, "used_bytes", 1.0 / MIB);
    let (first, peak) = (*used.first()?, highest(&used)?);
    let percent = |used: f64| total.map(|total| 100.0 * used / total);
    let asked = || found.totals.asked.iter().find_map(|asked| asked.model.as_deref());
    let model = args["launch"]["model"].as_str().or_else(asked);
    let stats = &repeat.stats;
    let document = json!({
        "engine": args["engine"],
        "simulated": found.manifest.simulated,
        "baseline_memory_mb": first,
        "model_name": model.map(|model| hide(model).into_owned()),
        "num_prompts": stats.issued,
        "max_concurrency": args["load"]["concurrency"],
        "history_times": times,
        "history_memory_percent": used.iter().map(|used| percent(*used)).collect::<Vec<_>>(),
        "history_memory_mb": used,
        "peak_memory_mb": peak,
        "peak_memory_percent": percent(peak),
        "total_memory_mb": total,
        "kv_cache_overhead_mb": peak - first,
        "requests_completed": stats.completed,
        "requests_failed": stats.failed,
        "total_time_sec": stats.duration,
        "throughput_req_per_sec": stats.rates.request_throughput,
    });
    Some(document.to_string())
}

fn kv_cache(found: &RecordedRun, args: &Value, rows: &[Row]) -> Option<String> {
    let (times, used) = history(rows, "kv_usage", 100.0);
    let peak = highest(&used)?;
    let document = json!({
        "engine": args["engine"],
        "simulated": found.manifest.simulated,
        "peak_usage_percent": peak,
        "history_times": times,
        "history_values": used,
    });
    Some(document.to_string())
}

/// MiB of an engine's devices, if it is known and the same for all engines of the run.
fn total_memory(found: &RecordedRun) -> Option<f64> {
    let totals = found.stages.iter().map(|(_, usage)| {
        let devices = usage["peak"]["per_gpu"]
            .as_array()
            .or(usage["after"]["per_gpu"].as_array());
        let totals = devices.into_iter().flatten().map(|device| device["total"].as_u64());
        totals.sum::<Option<u64>>().filter(|total| *total > 0)
    });
    let totals: BTreeSet<Option<u64>> = totals.collect();
    match Vec::from_iter(totals).as_slice() {
        [Some(total)] => Some(*total as f64 / MIB),
        _ => None,
    }
}
