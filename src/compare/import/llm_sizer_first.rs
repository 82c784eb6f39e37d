//! Reads LLM-sizer's profiles before its schema had a version: `profile-model-memory.py` (torch's counters
//! around one `generate`) and `profile-vllm-model.py` (GPU memory before and after one request to a running
//! vLLM).
//!
//! The first writes torch's counters of one device in 10^9 bytes. The second writes GiB on NVIDIA and 10^9
//! bytes with `rocm-smi`, and guesses everything but the total.

use serde::Deserialize;

use super::source::Source;
use super::values::{GB, GIB, LenientNumber, Parts, Scalars, bytes};
use crate::compare::{Case, ComparisonInput, Unit};
use crate::fault::Result;
use crate::memory::compare::{Facts, implausible};
use crate::memory::{Component, Provenance};

#[derive(Deserialize, Default)]
#[serde(default)]
struct File {
    memory_breakdown: Breakdown,
    all_measurements: Option<Scalars>,
    model_info: Scalars,
    gpu_info: Option<Scalars>,
    inference_stats: Option<Scalars>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Breakdown {
    model_weights_gb: LenientNumber,
    kv_cache_gb: LenientNumber,
    activations_gb: LenientNumber,
    framework_overhead_gb: LenientNumber,
    multi_gpu_overhead_gb: LenientNumber,
    total_gb: LenientNumber,
    estimation_method: Option<String>,
}

pub(super) fn read(source: &Source) -> Result<ComparisonInput> {
    let file: File = source.parse("LLM-sizer")?;
    let none = Scalars::default();
    let gpus = file.gpu_info.as_ref().unwrap_or(&none);
    let by_torch = file.all_measurements.is_some() || file.memory_breakdown.estimation_method.is_none();
    let (case, notes) = if by_torch {
        by_torch_counters(&file, gpus)?
    } else {
        by_difference(&file, gpus)?
    };
    Ok(ComparisonInput {
        model: file.model_info.text("model_name"),
        engine: Some(if by_torch { "transformers" } else { "vllm" }.to_owned()),
        cases: vec![case],
        notes,
        ..ComparisonInput::default()
    })
}

fn by_torch_counters(file: &File, gpus: &Scalars) -> Result<(Case, Vec<String>)> {
    let part = &file.memory_breakdown;
    let none = Scalars::default();
    let all = file.all_measurements.as_ref().unwrap_or(&none);
    let peak = all.number("peak_memory_gb").or(part.total_gb.0);
    let mut parts = Parts::default();
    for (component, figure, how) in [
        (
            Component::Weights,
            part.model_weights_gb,
            "torch's allocated memory after loading",
        ),
        (
            Component::KvUsed,
            part.kv_cache_gb,
            "torch's allocated memory after the answer less that before it",
        ),
        (
            Component::Activations,
            part.activations_gb,
            "torch's peak less its allocated memory after the answer",
        ),
    ] {
        parts.add(component, bytes(figure.0, GB), Provenance::Measured, how);
    }
    let mut case = Case::new(name(&file.model_info));
    for (name, value) in [
        ("peak_memory", peak),
        ("model_weights", part.model_weights_gb.0),
        ("parameters_size", all.number("model_weights_gb")),
        ("kv_cache", part.kv_cache_gb.0),
        ("activations", part.activations_gb.0),
        ("framework_overhead", part.framework_overhead_gb.0),
        ("total", part.total_gb.0),
        ("multi_gpu_overhead", gpus.number("multi_gpu_overhead_gb")),
    ] {
        case.metric(name, value.map(|value| value * GB), Unit::Bytes);
    }
    case.facts = facts(&file.model_info);
    case.breakdown = parts.breakdown(bytes(peak, GB))?;
    case.implausible = implausible(case.breakdown.as_ref(), &case.facts);
    let mut notes = vec![
        "10^9 bytes, to two decimals, of torch's counters on one device: the CUDA context and what torch does not allocate are not in them"
            .to_owned(),
        "its framework overhead comes out as zero whatever the engine does, by its formula".to_owned(),
    ];
    if part.kv_cache_gb.0 == Some(0.0) {
        notes.push(
            "a KV cache of zero means that it was freed before the tool looked, not that there was none".to_owned(),
        );
    }
    if gpus.count("num_gpus") > Some(1) {
        notes.push(
            "with several GPUs, weights and peak are of the first alone, and what it calls multi-GPU overhead is what the others hold".to_owned(),
        );
    }
    Ok((case, notes))
}

fn by_difference(file: &File, gpus: &Scalars) -> Result<(Case, Vec<String>)> {
    let part = &file.memory_breakdown;
    let (unit, named) = match gpus.text("gpu_type").as_deref() {
        Some("rocm") => (GB, "10^9 bytes, as rocm-smi was read"),
        Some("cuda") => (GIB, "GiB, as nvidia-smi was read"),
        _ => (
            GIB,
            "taken as GiB; the file does not say, and with rocm-smi it would be 10^9 bytes, 7 % less",
        ),
    };
    let known = file.model_info.number("num_parameters").is_some();
    let mut parts = Parts::default();
    let (weights, provenance, how) = if known {
        (
            bytes(part.model_weights_gb.0, GB),
            Provenance::Computed,
            "2 x parameters",
        )
    } else {
        (
            bytes(part.model_weights_gb.0, unit),
            Provenance::Assumed,
            "65 % of what was in use before the request",
        )
    };
    parts.add(Component::Weights, weights, provenance, how);
    parts.add(
        Component::KvPool,
        bytes(part.kv_cache_gb.0, unit),
        Provenance::Assumed,
        "20 % of what was in use before the request",
    );
    parts.add(
        Component::Activations,
        bytes(part.activations_gb.0, unit),
        Provenance::Assumed,
        "80 % of what the request added, or 0.5",
    );
    let mut case = Case::new(name(&file.model_info));
    case.metric("model_weights", weights.map(|weights| weights as f64), Unit::Bytes);
    for (name, value) in [
        ("total", part.total_gb),
        ("kv_cache", part.kv_cache_gb),
        ("activations", part.activations_gb),
        ("framework_overhead", part.framework_overhead_gb),
        ("multi_gpu_overhead", part.multi_gpu_overhead_gb),
    ] {
        case.metric(name, value.0.map(|value| value * unit), Unit::Bytes);
    }
    if let Some(stats) = &file.inference_stats {
        case.metric("duration", stats.number("inference_time_sec"), Unit::Seconds);
        case.metric(
            "output_throughput",
            stats.number("tokens_per_second"),
            Unit::TokensPerSecond,
        );
    }
    case.facts = facts(&file.model_info);
    case.breakdown = parts.breakdown(bytes(part.total_gb.0, unit))?;
    case.implausible = implausible(case.breakdown.as_ref(), &case.facts);
    let notes = vec![
        format!("the total is {named}, of all GPUs with everybody on them; the parts are guesses, not measurements"),
        "the total was read a second after the answer, not at a peak".to_owned(),
    ];
    Ok((case, notes))
}

fn name(model: &Scalars) -> String {
    let parts = [("total_sequence_length", "tokens"), ("batch_size", "batch")];
    let parts = parts
        .iter()
        .filter_map(|(key, name)| model.count(key).map(|value| format!("{name}={value}")));
    let name = parts.collect::<Vec<_>>().join(" ");
    if name.is_empty() { "profile".to_owned() } else { name }
}

fn facts(model: &Scalars) -> Facts {
    let tokens = model.count("total_sequence_length");
    Facts {
        parameters: model.number("num_parameters"),
        weight_dtype: model.text("dtype").filter(|dtype| dtype != "auto"),
        concurrency: model.count("batch_size"),
        tokens: tokens.map(|tokens| tokens.saturating_mul(model.count("batch_size").unwrap_or(1))),
        ..Facts::default()
    }
}
