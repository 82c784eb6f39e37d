//! The files of hpml's studies: `metrics_data.json`, `gpu_memory_data.json`, `kv_cache_data.json`.

use std::io::BufReader;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::compare::import::MIB;
use crate::csv::{self, Row};
use crate::fault::{Fault, Result};
use crate::outside;
use crate::run::{Folder, RecordedLoad, RecordedRun, hide};

/// Longest line of a file of requests.
const MAX_LINE: u64 = 16 << 20;

/// The files of each load with hpml's keys, in `load-N/` where the run has several: a row for each request, GPU memory
/// over time in MiB, and the share of the KV cache in use over time in per cent. What was not sampled is left out. Two
/// keys are added: `engine`, and `simulated`.
///
/// # Errors
///
/// `usage` if the run has no loads with requests.
pub fn hpml(found: &RecordedRun, folder: &Folder) -> Result<Vec<(PathBuf, String)>> {
    let loads: Vec<&RecordedLoad> = found.loads.iter().chain(&found.experiment_loads).collect();
    let total = total_memory(folder)?;
    let mut files = Vec::new();
    for load in &loads {
        let place = match loads.len() {
            1 => PathBuf::new(),
            _ => PathBuf::from(format!("load-{}", load.1.number)),
        };
        let requests = requests(found, load, folder)?;
        if !requests.is_empty() {
            files.push((place.join("metrics_data.json"), json!(requests).to_string()));
        }
        let Some(timeline) = load.1.timelines().next() else {
            continue;
        };
        let Some(bytes) = folder.read(timeline)? else { continue };
        let rows = csv::rows(&String::from_utf8_lossy(&bytes))
            .map_err(|error| Fault::usage(format!("`{timeline}` of this run cannot be read: {error}")))?;
        files.extend(memory(found, load, &rows, total).map(|file| (place.join("gpu_memory_data.json"), file)));
        files.extend(kv_cache(found, load, &rows).map(|file| (place.join("kv_cache_data.json"), file)));
    }
    if files.is_empty() {
        return Err(Fault::usage("this run has no requests of loads")
            .hint("give the folder of a run of `throughput`, `slo` or `kv_cache`; packed runs may be without them"));
    }
    Ok(files)
}

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
    let mut lines = BufReader::new(file);
    let load = &args["load"];
    let throughput = answer.stats.rates.output_throughput;
    let dollars = load["price_per_hour"].as_f64().zip(throughput);
    let cost = dollars.map(|(hour, tokens)| hour / 3600.0 / tokens);
    let simulated = found.manifest.simulated;
    let (mut rows, mut text) = (Vec::new(), Vec::new());
    let failed = |error: std::io::Error| Fault::usage(format!("the requests of this run cannot be read: {error}"));
    while outside::line(&mut lines, &mut text, MAX_LINE).map_err(failed)? > 0 {
        let line: Value = serde_json::from_slice(&text).unwrap_or_default();
        text.clear();
        let seconds = |name: &str| Some(line[name].as_f64()? - line["sent"].as_f64()?);
        if line["warmup"] == true || line["outcome"] != "completed" {
            continue;
        }
        let (latency, tokens) = (seconds("last_token"), line["counted"]["output"].as_u64());
        rows.push(json!({
            "engine": args["engine"],
            "simulated": simulated,
            "scenario": format!("input={} output={}", load["input"], load["output"]),
            "concurrency": load["concurrency"],
            "prompt_idx": line["index"],
            "run": line["repeat"],
            "request_idx_in_batch": line["index"],
            "ttft_ms": seconds("first_token").map(|seconds| 1e3 * seconds),
            "latency_ms": latency.map(|seconds| 1e3 * seconds),
            "tokens": tokens,
            "per_request_throughput_tok_per_sec": tokens.zip(latency).map(|(tokens, seconds)| tokens as f64 / seconds),
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

fn memory(found: &RecordedRun, (args, answer): &RecordedLoad, rows: &[Row], total: Option<f64>) -> Option<String> {
    let (times, used) = history(rows, "used_bytes", 1.0 / MIB);
    let (first, peak) = (*used.first()?, highest(&used)?);
    let percent = |used: f64| total.map(|total| 100.0 * used / total);
    let model = found.totals.asked.iter().find_map(|asked| asked.model.as_deref());
    let stats = &answer.stats;
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

fn kv_cache(found: &RecordedRun, (args, _): &RecordedLoad, rows: &[Row]) -> Option<String> {
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

/// MiB of the devices of the run's first engine.
fn total_memory(folder: &Folder) -> Result<Option<f64>> {
    let names = folder.names("memory")?;
    let Some(name) = names.iter().find(|name| name.ends_with(".usage.json")) else {
        return Ok(None);
    };
    let bytes = folder.read(PathBuf::from("memory").join(name))?.unwrap_or_default();
    let usage: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let devices = usage["peak"]["per_gpu"]
        .as_array()
        .or(usage["after"]["per_gpu"].as_array());
    let totals = devices.map(|devices| {
        devices
            .iter()
            .filter_map(|device| device["total"].as_f64())
            .sum::<f64>()
            / MIB
    });
    Ok(totals.filter(|total| *total > 0.0))
}
