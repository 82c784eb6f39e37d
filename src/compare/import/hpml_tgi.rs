//! Reads the two files of hpml-llama2-tgi.
//!
//! `gpu_memory_data.json` holds `nvidia-smi` samples while TGI served a hundred requests. Its megabytes are MiB,
//! summed over all GPUs and processes of the machine. Its baseline was read after the server was up, when TGI had
//! already allocated its KV cache; so its "KV cache overhead" is not that.
//!
//! `kv_cache_data.json` holds vLLM's KV cache usage, sampled ten times a second.

use serde::Deserialize;

use super::source::Source;
use super::values::{LenientNumber, ListStats, MIB};
use crate::compare::{Case, ComparisonInput, Unit};
use crate::fault::Result;

#[derive(Deserialize, Default)]
#[serde(default)]
struct GpuMemory {
    model_name: Option<String>,
    num_prompts: LenientNumber,
    max_concurrency: LenientNumber,
    baseline_memory_mb: LenientNumber,
    peak_memory_mb: LenientNumber,
    peak_memory_percent: LenientNumber,
    total_memory_mb: LenientNumber,
    kv_cache_overhead_mb: LenientNumber,
    history_memory_mb: ListStats,
    history_times: ListStats,
    requests_completed: LenientNumber,
    requests_failed: LenientNumber,
    total_time_sec: LenientNumber,
    throughput_req_per_sec: LenientNumber,
}

pub(super) fn read_gpu_memory(source: &Source) -> Result<ComparisonInput> {
    let file: GpuMemory = source.parse("hpml-llama2-tgi")?;
    let mebibytes = |figure: LenientNumber| figure.0.map(|figure| figure * MIB);
    let mut case = Case::new(file.max_concurrency.count().map_or_else(
        || "serving".to_owned(),
        |concurrency| format!("concurrency={concurrency}"),
    ));
    case.metric("baseline_memory", mebibytes(file.baseline_memory_mb), Unit::Bytes);
    case.metric("peak_memory", mebibytes(file.peak_memory_mb), Unit::Bytes);
    case.metric(
        "mean_memory",
        file.history_memory_mb.mean().map(|mean| mean * MIB),
        Unit::Bytes,
    );
    case.metric("total_memory", mebibytes(file.total_memory_mb), Unit::Bytes);
    case.metric("peak_memory_share", file.peak_memory_percent.0, Unit::Percent);
    case.metric("increase_under_load", mebibytes(file.kv_cache_overhead_mb), Unit::Bytes);
    case.metric("samples", Some(file.history_memory_mb.count as f64), Unit::Count);
    case.metric("sampled_for", file.history_times.last, Unit::Seconds);
    case.metric("prompts", file.num_prompts.0, Unit::Count);
    case.metric("completed", file.requests_completed.0, Unit::Count);
    case.metric("failed", file.requests_failed.0, Unit::Count);
    case.metric("duration", file.total_time_sec.0, Unit::Seconds);
    case.metric(
        "request_throughput",
        file.throughput_req_per_sec.0,
        Unit::RequestsPerSecond,
    );
    let mut notes = vec![
        "its MB are MiB, summed over all GPUs of the machine with everybody on them".to_owned(),
        "`increase_under_load`, which the source calls the overhead of the KV cache, is what was added after the server was up: TGI takes \
         its KV cache before that, so this is not its size"
            .to_owned(),
    ];
    if file.max_concurrency.0 > file.num_prompts.0 && file.num_prompts.0.is_some() {
        notes.push("there were fewer prompts than the requested concurrency: it was never reached".to_owned());
    }
    if file.total_memory_mb.0 == Some(0.0) {
        notes.push("`nvidia-smi` reported nothing there: every figure of memory is zero".to_owned());
    }
    Ok(ComparisonInput {
        model: file.model_name,
        engine: Some("tgi".to_owned()),
        cases: vec![case],
        notes,
        ..ComparisonInput::default()
    })
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct KvCache {
    peak_usage_percent: LenientNumber,
    history_times: ListStats,
    history_values: ListStats,
}

pub(super) fn read_kv_cache(source: &Source) -> Result<ComparisonInput> {
    let file: KvCache = source.parse("hpml-llama2-tgi")?;
    let mut case = Case::new("serving");
    case.metric("peak_kv_usage", file.peak_usage_percent.0, Unit::Percent);
    case.metric("mean_kv_usage", file.history_values.mean(), Unit::Percent);
    case.metric("samples", Some(file.history_values.count as f64), Unit::Count);
    case.metric("sampled_for", file.history_times.last, Unit::Seconds);
    let mut notes = vec![
        "the prompts of this tool are all the same: where prefix caching is on, they share their blocks, and usage is understated"
            .to_owned(),
    ];
    if file.peak_usage_percent.0 >= Some(100.0) {
        notes.push("the cache was full: what then happened (preemptions, queueing) is not in the file".to_owned());
    }
    if file.history_times.count != file.history_values.count {
        notes.push(format!(
            "there are {} times but {} values",
            file.history_times.count, file.history_values.count
        ));
    }
    Ok(ComparisonInput {
        engine: Some("vllm".to_owned()),
        cases: vec![case],
        notes,
        ..ComparisonInput::default()
    })
}
