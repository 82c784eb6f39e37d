//! Reads the files of `hpml-llama2-tgi`: GPU memory and KV cache usage over time (`gpu_memory_data.json`,
//! `kv_cache_data.json`), and the records of single requests, as CSV or JSON.

use std::collections::BTreeMap;

use super::document::Node;
use super::{MIB, Pick, pick};
use crate::compare::{Case, ComparisonInput, Series, Unit};

const MEMORY: &[Pick] = &[
    ("baseline", "baseline_memory_mb", MIB, Unit::Bytes),
    ("peak_memory", "peak_memory_mb", MIB, Unit::Bytes),
    ("completed", "requests_completed", 1.0, Unit::Count),
    ("failed", "requests_failed", 1.0, Unit::Count),
    ("duration", "total_time_sec", 1.0, Unit::Seconds),
    (
        "request_throughput",
        "throughput_req_per_sec",
        1.0,
        Unit::RequestsPerSecond,
    ),
];

/// `gpu_memory_data.json`: nvidia-smi's figures, which are MiB, summed over all GPUs of the machine.
pub(super) fn read_memory(file: &Node) -> Result<ComparisonInput, String> {
    let mut case = Case::new("memory");
    pick(&mut case, file, MEMORY)?;
    case.facts.concurrency = file.count("max_concurrency")?;
    case.facts.capacity = file.number("total_memory_mb")?.map(|total| (total * MIB) as i64);
    let mut notes = Vec::new();
    if !is_ours(file) {
        notes.push("memory is that of all GPUs of the machine, with other processes; TGI reserves its KV cache before the baseline is read, so that the growth does not show it".to_owned());
    }
    if let (Some(prompts), Some(most)) = (file.count("num_prompts")?, file.count("max_concurrency")?)
        && prompts < most
    {
        notes.push(format!("{prompts} prompts cannot reach a concurrency of {most}"));
    }
    Ok(ComparisonInput {
        model: file.text("model_name"),
        engine: engine(file, "tgi"),
        simulated: is_simulated(file),
        series: vec![series(file, "GPU memory", Unit::Bytes, "history_memory_mb", MIB)?],
        cases: vec![case],
        notes,
        ..ComparisonInput::default()
    })
}

/// `kv_cache_data.json`: per cent of vLLM's KV cache in use.
pub(super) fn read_kv_cache(file: &Node) -> Result<ComparisonInput, String> {
    let mut case = Case::new("KV cache");
    case.metric("kv_usage", file.number("peak_usage_percent")?, Unit::Percent);
    Ok(ComparisonInput {
        engine: engine(file, "vllm"),
        simulated: is_simulated(file),
        series: vec![series(file, "KV cache in use", Unit::Percent, "history_values", 1.0)?],
        cases: vec![case],
        notes: (!is_ours(file))
            .then(|| "the prompts of this study were identical: with prefix caching they share blocks, and the usage is understated".to_owned())
            .into_iter()
            .collect(),
        ..ComparisonInput::default()
    })
}

/// A list of values at the file's `history_times`, seconds.
fn series(file: &Node, name: &str, unit: Unit, key: &str, factor: f64) -> Result<Series, String> {
    let numbers = |key: &str| -> Result<Vec<Option<f64>>, String> {
        file.at(key).objects()?.into_iter().map(Node::as_number).collect()
    };
    let (times, values) = (numbers("history_times")?, numbers(key)?);
    if times.len() != values.len() {
        return Err(format!(
            "`history_times` has {} entries, and `{key}` {}",
            times.len(),
            values.len()
        ));
    }
    let points = times.into_iter().zip(values);
    Ok(Series {
        name: name.to_owned(),
        unit,
        points: points.filter_map(|(at, value)| Some((at?, value? * factor))).collect(),
    })
}

/// Whether `export::hpml` wrote it; hpml's own scripts name no engine.
fn is_ours(file: &Node) -> bool {
    !file.at("engine").is_null()
}

fn is_simulated(file: &Node) -> bool {
    file.at("simulated").0 == true
}

/// The engine that the file names, else that of the study.
fn engine(file: &Node, study: &str) -> Option<String> {
    file.text("engine").or_else(|| Some(study.to_owned()))
}

/// Rows of single requests, one case for each scenario and concurrency.
pub(super) fn read_requests(file: &Node) -> Result<ComparisonInput, String> {
    let mut groups: BTreeMap<(String, Option<u64>), Vec<Node<'_>>> = BTreeMap::new();
    // The files of the mode with one request at a time have no total of concurrent requests.
    let mut single = false;
    let rows = file.objects()?;
    let (named, simulated) = (
        rows.first().and_then(|row| row.text("engine")),
        rows.iter().any(is_simulated),
    );
    for row in rows {
        let theirs = !is_ours(&row);
        single |= theirs && row.at("aggregate_throughput_tok_per_sec").is_null();
        let concurrency = row.count("concurrency")?.or(theirs.then_some(1));
        let scenario = row.text("scenario").unwrap_or_default();
        groups.entry((scenario, concurrency)).or_default().push(row);
    }
    let mut cases = Vec::new();
    for ((scenario, concurrency), rows) in groups {
        let level = concurrency.map_or_else(String::new, |level| format!("concurrency={level}"));
        let mut case = Case::new(format!("{scenario} {level}").trim());
        case.facts.concurrency = concurrency;
        let mean = |columns: &[&str]| -> Result<Option<f64>, String> {
            let column = columns
                .iter()
                .find(|column| rows.iter().any(|row| !row.at(column).is_null()));
            let Some(column) = column else { return Ok(None) };
            let known: Vec<f64> = rows
                .iter()
                .map(|row| row.number(column))
                .collect::<Result<Vec<_>, _>>()?
                .into_iter()
                .flatten()
                .collect();
            Ok((!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64))
        };
        let throughput = mean(&["aggregate_throughput_tok_per_sec", "throughput_tok_per_sec"])?;
        case.metric("output_throughput", throughput, Unit::TokensPerSecond);
        case.metric("mean_ttft_ms", mean(&["ttft_ms"])?, Unit::Milliseconds);
        case.metric("mean_e2el_ms", mean(&["latency_ms"])?, Unit::Milliseconds);
        case.metric("completed", Some(rows.len() as f64), Unit::Count);
        cases.push(case);
    }
    Ok(ComparisonInput {
        engine: named.or_else(|| Some("tgi".to_owned())),
        simulated,
        cases,
        notes: single
            .then(|| "a single request's tokens are counted as words where TGI gave no count, which understates throughput; its cost by request divides the price by one request's time, and is not taken".to_owned())
            .into_iter()
            .collect(),
        ..ComparisonInput::default()
    })
}
