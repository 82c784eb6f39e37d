//! Reads the files of `vllm bench`: `serve` (and each run of a sweep), `latency` and `throughput`.
//!
//! The keys depend on version and options: known names have a unit here, names ending in `_ms` are
//! milliseconds. Lists with one entry per request (`ttfts`, `itls`, texts) are skipped.

use serde::Deserialize;

use super::lenient::LenientNumber;
use super::scalars::Scalars;
use super::source::Source;
use crate::compare::ComparisonInput;
use crate::compare::{Case, Unit};
use crate::fault::Result;
use crate::memory::compare::Facts;

/// The tool's name in messages.
pub(super) const TOOL: &str = "vllm bench";

/// Metrics with a unit, in display order.
const FIGURES: [(&str, Unit); 15] = [
    ("request_throughput", Unit::RequestsPerSecond),
    ("request_goodput", Unit::RequestsPerSecond),
    ("output_throughput", Unit::TokensPerSecond),
    ("total_token_throughput", Unit::TokensPerSecond),
    ("max_output_tokens_per_s", Unit::TokensPerSecond),
    ("requests_per_second", Unit::RequestsPerSecond),
    ("tokens_per_second", Unit::TokensPerSecond),
    ("max_concurrent_requests", Unit::Count),
    ("completed", Unit::Count),
    ("failed", Unit::Count),
    ("num_requests", Unit::Count),
    ("duration", Unit::Seconds),
    ("elapsed_time", Unit::Seconds),
    ("total_input_tokens", Unit::Tokens),
    ("total_output_tokens", Unit::Tokens),
];

/// Settings that identify a run.
const SETTINGS: [&str; 3] = ["max_concurrency", "request_rate", "num_prompts"];

#[derive(Deserialize, Default)]
#[serde(default)]
struct Latency {
    avg_latency: LenientNumber,
    percentiles: std::collections::BTreeMap<String, LenientNumber>,
}

pub(super) fn read(source: &Source) -> Result<ComparisonInput> {
    if source.shape.has("avg_latency") {
        let latency: Latency = source.parse(TOOL)?;
        let mut case = Case::new("latency");
        latencies(&mut case, latency.avg_latency, latency.percentiles.iter());
        return Ok(ComparisonInput {
            engine: Some("vllm".to_owned()),
            cases: vec![case],
            ..ComparisonInput::default()
        });
    }
    let run: Scalars = source.parse(TOOL)?;
    let mut input = ComparisonInput {
        model: run.text("model_id"),
        engine: Some(run.text("backend").unwrap_or_else(|| "vllm".to_owned())),
        notes: notes(&run),
        ..ComparisonInput::default()
    };
    input.cases.push(case(&run));
    Ok(input)
}

/// One run as a case, named by its settings.
pub(super) fn case(run: &Scalars) -> Case {
    let mut case = Case::new(name(run));
    for (name, unit) in FIGURES {
        case.metric(name, run.number(name), unit);
    }
    let timed = |name: &&String| name.ends_with("_ms");
    for name in run.0.keys().filter(timed) {
        case.metric(name, run.number(name), Unit::Milliseconds);
    }
    let spent = |name: &&String| name.starts_with("spec_decode_");
    for name in run.0.keys().filter(spent) {
        case.metric(name, run.number(name), Unit::Count);
    }
    case.facts = Facts {
        weight_dtype: run.text("dtype").filter(|dtype| dtype != "auto"),
        kv_dtype: run.text("kv_cache_dtype").filter(|dtype| dtype != "auto"),
        tensor_parallel: run.count("tensor_parallel_size"),
        ..Facts::default()
    };
    case
}

/// Notes on one run.
pub(super) fn notes(run: &Scalars) -> Vec<String> {
    let mut notes = Vec::new();
    if let (Some(concurrency), Some(prompts)) = (run.number("max_concurrency"), run.number("num_prompts"))
        && prompts < concurrency
    {
        notes.push(format!(
            "{prompts} prompts cannot reach a concurrency of {concurrency}: the figures are of less"
        ));
    }
    if let Some(failed) = run.number("failed").filter(|failed| *failed > 0.0) {
        notes.push(format!(
            "{failed} requests of a run failed: its throughput is without them"
        ));
    }
    notes
}

/// `vllm bench latency` writes seconds; here they become milliseconds, like every latency.
pub(super) fn latencies<'a>(
    case: &mut Case,
    mean: LenientNumber,
    percentiles: impl Iterator<Item = (&'a String, &'a LenientNumber)>,
) {
    let milliseconds = |seconds: LenientNumber| seconds.0.map(|seconds| seconds * 1000.0);
    case.metric("mean_latency_ms", milliseconds(mean), Unit::Milliseconds);
    for (percentile, value) in percentiles {
        let name = match percentile.as_str() {
            "50" => "median_latency_ms".to_owned(),
            percentile => format!("p{percentile}_latency_ms"),
        };
        case.metric(&name, milliseconds(*value), Unit::Milliseconds);
    }
}

fn name(run: &Scalars) -> String {
    let parts = SETTINGS.iter().filter_map(|key| {
        let value = run.number(key)?;
        let name = if *key == "max_concurrency" { "concurrency" } else { key };
        Some(format!("{name}={value}"))
    });
    // The number of prompts matters only if nothing else distinguishes the runs.
    let mut parts: Vec<String> = parts.collect();
    if parts.len() > 1 {
        parts.retain(|part| !part.starts_with("num_prompts"));
    }
    if parts.is_empty() {
        "run".to_owned()
    } else {
        parts.join(" ")
    }
}
