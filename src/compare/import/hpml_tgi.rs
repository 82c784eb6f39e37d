//! Reads the two files of hpml-llama2-tgi.
//!
//! `gpu_memory_data.json` holds `nvidia-smi` samples while TGI served a hundred requests. Its megabytes are MiB,
//! summed over all GPUs and processes of the machine. Its baseline was read after the server was up, when TGI had
//! already allocated its KV cache; so its "KV cache overhead" is not that.
//!
//! `kv_cache_data.json` holds vLLM's KV cache usage, sampled ten times a second.

use super::document::Node;
use super::{MIB, Pick, case_name, pick};
use crate::compare::{Case, ComparisonInput, Unit};

const GPU_MEMORY: &[Pick] = &[
    ("baseline_memory", "baseline_memory_mb", MIB, Unit::Bytes),
    ("peak_memory", "peak_memory_mb", MIB, Unit::Bytes),
    ("mean_memory", "history_memory_mb.mean", MIB, Unit::Bytes),
    ("total_memory", "total_memory_mb", MIB, Unit::Bytes),
    ("peak_memory_share", "peak_memory_percent", 1.0, Unit::Percent),
    ("increase_under_load", "kv_cache_overhead_mb", MIB, Unit::Bytes),
    ("samples", "history_memory_mb.count", 1.0, Unit::Count),
    ("sampled_for", "history_times.last", 1.0, Unit::Seconds),
    ("prompts", "num_prompts", 1.0, Unit::Count),
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

pub(super) fn read_gpu_memory(file: &Node) -> Result<ComparisonInput, String> {
    let name = case_name(file, &[("concurrency", "max_concurrency")])?;
    let mut case = Case::new(if name.is_empty() { "serving" } else { &name });
    pick(&mut case, file, GPU_MEMORY)?;
    let mut notes = vec![
        "its MB are MiB, summed over all GPUs of the machine with everybody on them".to_owned(),
        "`increase_under_load`, which the source calls the overhead of the KV cache, is what was added after the server was up: TGI takes \
         its KV cache before that, so this is not its size"
            .to_owned(),
    ];
    let (prompts, concurrency) = (file.number("num_prompts")?, file.number("max_concurrency")?);
    if prompts.is_some() && concurrency > prompts {
        notes.push("there were fewer prompts than the requested concurrency: it was never reached".to_owned());
    }
    if file.number("total_memory_mb")? == Some(0.0) {
        notes.push("`nvidia-smi` reported nothing there: every figure of memory is zero".to_owned());
    }
    Ok(ComparisonInput {
        model: file.text("model_name"),
        engine: Some("tgi".to_owned()),
        cases: vec![case],
        notes,
        ..ComparisonInput::default()
    })
}

const KV_CACHE: &[Pick] = &[
    ("peak_kv_usage", "peak_usage_percent", 1.0, Unit::Percent),
    ("mean_kv_usage", "history_values.mean", 1.0, Unit::Percent),
    ("samples", "history_values.count", 1.0, Unit::Count),
    ("sampled_for", "history_times.last", 1.0, Unit::Seconds),
];

pub(super) fn read_kv_cache(file: &Node) -> Result<ComparisonInput, String> {
    let mut case = Case::new("serving");
    pick(&mut case, file, KV_CACHE)?;
    let mut notes = vec![
        "the prompts of this tool are all the same: where prefix caching is on, they share their blocks, and usage is understated"
            .to_owned(),
    ];
    if file.number("peak_usage_percent")? >= Some(100.0) {
        notes.push("the cache was full: what then happened (preemptions, queueing) is not in the file".to_owned());
    }
    let (times, values) = (
        file.number("history_times.count")?,
        file.number("history_values.count")?,
    );
    if times != values {
        let (times, values) = (times.unwrap_or(0.0), values.unwrap_or(0.0));
        notes.push(format!("there are {times} times but {values} values"));
    }
    Ok(ComparisonInput {
        engine: Some("vllm".to_owned()),
        cases: vec![case],
        notes,
        ..ComparisonInput::default()
    })
}
