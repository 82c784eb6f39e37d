//! `gpu_memory_data.json` of hpml-llama2-tgi: what `nvidia-smi` said while TGI answered a hundred requests.
//!
//! Its megabytes are MiB, summed over every GPU of the machine and everybody on them. Its baseline was read when the server
//! was up, and TGI takes its KV cache before that: what it calls the overhead of the KV cache is not one.

use serde::Deserialize;

use super::loose::Loose;
use super::source::Source;
use super::spread::Spread;
use super::units::MIB;
use crate::compare::ComparisonInput;
use crate::compare::{Case, Unit};
use crate::fault::Result;

#[derive(Deserialize, Default)]
#[serde(default)]
struct File {
    model_name: Option<String>,
    num_prompts: Loose,
    max_concurrency: Loose,
    baseline_memory_mb: Loose,
    peak_memory_mb: Loose,
    peak_memory_percent: Loose,
    total_memory_mb: Loose,
    kv_cache_overhead_mb: Loose,
    history_memory_mb: Spread,
    history_times: Spread,
    requests_completed: Loose,
    requests_failed: Loose,
    total_time_sec: Loose,
    throughput_req_per_sec: Loose,
}

/// Reads it.
pub(super) fn read(source: &Source) -> Result<ComparisonInput> {
    let file: File = source.parse("hpml-llama2-tgi")?;
    let mebibytes = |figure: Loose| figure.0.map(|figure| figure * MIB);
    let mut case = Case::named(file.max_concurrency.count().map_or_else(
        || "serving".to_owned(),
        |concurrency| format!("concurrency={concurrency}"),
    ));
    case.figure("baseline_memory", mebibytes(file.baseline_memory_mb), Unit::Bytes);
    case.figure("peak_memory", mebibytes(file.peak_memory_mb), Unit::Bytes);
    case.figure(
        "mean_memory",
        file.history_memory_mb.mean().map(|mean| mean * MIB),
        Unit::Bytes,
    );
    case.figure("total_memory", mebibytes(file.total_memory_mb), Unit::Bytes);
    case.figure("peak_memory_share", file.peak_memory_percent.0, Unit::Percent);
    case.figure("increase_under_load", mebibytes(file.kv_cache_overhead_mb), Unit::Bytes);
    case.figure("samples", Some(file.history_memory_mb.count as f64), Unit::Count);
    case.figure("sampled_for", file.history_times.last, Unit::Seconds);
    case.figure("prompts", file.num_prompts.0, Unit::Count);
    case.figure("completed", file.requests_completed.0, Unit::Count);
    case.figure("failed", file.requests_failed.0, Unit::Count);
    case.figure("duration", file.total_time_sec.0, Unit::Seconds);
    case.figure(
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
        notes.push("there were fewer prompts than the concurrency asked for: it was never reached".to_owned());
    }
    if file.total_memory_mb.0 == Some(0.0) {
        notes.push("`nvidia-smi` told nothing where this was measured: every figure of memory is zero".to_owned());
    }
    Ok(ComparisonInput {
        model: file.model_name,
        engine: Some("tgi".to_owned()),
        cases: vec![case],
        notes,
        ..ComparisonInput::default()
    })
}
