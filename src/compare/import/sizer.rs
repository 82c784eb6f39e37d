//! Reads LLM-sizer's profile of one `vllm bench latency`: schema 2 (`profile-vllm-bench-enhanced.py`) and 3
//! (`profile-vllm-bench-v3.py`).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::lenient::LenientNumber;
use super::scalars::Scalars;
use super::sizer_profile::{self, Profile, Reader, Schema};
use super::source::Source;
use super::units::{GIB, bytes};
use super::vllm_bench::latencies;
use crate::compare::ComparisonInput;
use crate::compare::Unit;
use crate::fault::Result;
use crate::memory::compare::Facts;

const TOOL: &str = "LLM-sizer";

#[derive(Deserialize, Default)]
#[serde(default)]
struct File {
    schema_version: Version,
    model_info: Option<Scalars>,
    benchmark_parameters: Option<Scalars>,
    dtype_metadata: Option<Scalars>,
    latency_stats: Option<Latency>,
    memory_breakdown: Breakdown,
    vllm_internal_metrics: Option<Scalars>,
    memory_timeline: Option<Timeline>,
    gpu_info: Option<Scalars>,
    engine_metadata: Option<Scalars>,
}

/// A version as string or number.
#[derive(Deserialize, Default)]
#[serde(untagged)]
enum Version {
    Text(String),
    Number(f64),
    #[default]
    None,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Latency {
    avg_latency: LenientNumber,
    percentiles: BTreeMap<String, LenientNumber>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Breakdown {
    total_measured_gb: LenientNumber,
    baseline_gb: LenientNumber,
    net_increase_gb: LenientNumber,
    model_weights_gb: LenientNumber,
    kv_cache_gb: LenientNumber,
    kv_cache_allocated_gb: LenientNumber,
    kv_cache_used_gb: LenientNumber,
    graph_capture_gb: LenientNumber,
    activations_gb: LenientNumber,
    framework_overhead_gb: LenientNumber,
    confidence_levels: Option<Scalars>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Timeline {
    min_gb: LenientNumber,
    max_gb: LenientNumber,
    mean_gb: LenientNumber,
    median_gb: LenientNumber,
    p95_gb: LenientNumber,
    num_samples: LenientNumber,
    extended: Option<Extended>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Extended {
    power: Option<Scalars>,
    temperature: Option<Scalars>,
}

pub(super) fn read(source: &Source) -> Result<ComparisonInput> {
    let file: File = source.parse(TOOL)?;
    let schema = schema(source, &file.schema_version)?;
    let none = Scalars::default();
    let model = file.model_info.as_ref().unwrap_or(&none);
    let settings = file.benchmark_parameters.as_ref().unwrap_or(&none);
    let gpus = file.gpu_info.as_ref().unwrap_or(&none);
    let engine = file.engine_metadata.as_ref().unwrap_or(&none);
    let reader = match gpus.text("gpu_type").as_deref() {
        Some("cuda") => Reader::NvidiaSmi,
        Some("rocm") => Reader::RocmSmi,
        _ => Reader::Unknown,
    };
    let ranks = settings
        .count("tensor_parallel_size")
        .or_else(|| gpus.count("num_gpus"));
    let part = &file.memory_breakdown;
    let confidence = part.confidence_levels.as_ref().unwrap_or(&none);
    let profile = Profile {
        schema,
        reader,
        name: name(settings),
        total: part.total_measured_gb.0,
        baseline: part.baseline_gb.0,
        increase: part.net_increase_gb.0,
        weights: part.model_weights_gb.0,
        kv_used: part.kv_cache_used_gb.0.or(part.kv_cache_gb.0),
        kv_pool: part.kv_cache_allocated_gb.0,
        graphs: part.graph_capture_gb.0,
        activations: part.activations_gb.0,
        overhead: part.framework_overhead_gb.0,
        confidence: ["weights", "kv_cache", "activations"].map(|component| confidence.text(component)),
        ranks,
        facts: facts(&file, model, settings, gpus, reader),
    };
    let mut notes = sizer_profile::notes(schema, reader, ranks);
    if gpus.count("system_gpus") > ranks && ranks.is_some() {
        notes.push(
            "the machine has more GPUs than were used, and the total sums all of them: others' memory is in it"
                .to_owned(),
        );
    }
    let mut case = profile.case(&mut notes)?;
    if let Some(latency) = &file.latency_stats {
        latencies(&mut case, latency.avg_latency, latency.percentiles.iter());
    }
    if let Some(tokens) = case.facts.kv_tokens {
        case.metric("kv_tokens", Some(tokens as f64), Unit::Tokens);
    }
    if let Some(timeline) = &file.memory_timeline {
        for (name, value) in [
            ("timeline_min", timeline.min_gb),
            ("timeline_mean", timeline.mean_gb),
            ("timeline_median", timeline.median_gb),
            ("timeline_p95", timeline.p95_gb),
            ("timeline_max", timeline.max_gb),
        ] {
            case.metric(name, value.0.map(|value| value * GIB), Unit::Bytes);
        }
        case.metric("timeline_samples", timeline.num_samples.0, Unit::Count);
        let extended = timeline.extended.as_ref();
        let of = |scalars: Option<&Scalars>, key: &str| scalars.and_then(|scalars| scalars.number(key));
        let power = extended.and_then(|extended| extended.power.as_ref());
        let heat = extended.and_then(|extended| extended.temperature.as_ref());
        case.metric("power_mean", of(power, "mean_w"), Unit::Watts);
        case.metric("power_max", of(power, "max_w"), Unit::Watts);
        case.metric("temperature_mean", of(heat, "mean_c"), Unit::Celsius);
        case.metric("temperature_max", of(heat, "max_c"), Unit::Celsius);
    }
    let version = engine.text("engine_version").filter(|version| version != "unknown");
    Ok(ComparisonInput {
        model: model.text("name").or_else(|| settings.text("model")),
        engine: Some(version.map_or_else(|| "vllm".to_owned(), |version| format!("vllm {version}"))),
        cases: vec![case],
        notes,
        ..ComparisonInput::default()
    })
}

fn schema(source: &Source, version: &Version) -> Result<Schema> {
    let version = match version {
        Version::Text(text) => text.clone(),
        Version::Number(number) => number.to_string(),
        Version::None => String::new(),
    };
    match version.split('.').next() {
        Some("2") => Ok(Schema::Second),
        Some("3") => Ok(Schema::Third),
        _ => Err(source.broken(TOOL, format!("its schema is `{version}`, and 2 and 3 are known"))),
    }
}

fn name(settings: &Scalars) -> String {
    let part = |key: &str, name: &str| settings.count(key).map(|value| format!("{name}={value}"));
    let parts = [
        part("input_len", "input"),
        part("output_len", "output"),
        part("batch_size", "batch"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        "profile".to_owned()
    } else {
        parts.join(" ")
    }
}

fn facts(file: &File, model: &Scalars, settings: &Scalars, gpus: &Scalars, reader: Reader) -> Facts {
    let none = Scalars::default();
    let types = file.dtype_metadata.as_ref().unwrap_or(&none);
    let internal = file.vllm_internal_metrics.as_ref().unwrap_or(&none);
    // With rocm-smi the total is a constant of the tool, not a measurement.
    let capacity = gpus
        .number("total_gpu_memory_gb")
        .filter(|_| reader == Reader::NvidiaSmi);
    Facts {
        parameters: model.number("num_parameters"),
        layers: model.count("num_layers"),
        heads: model.count("num_heads"),
        head_dim: model.count("head_dim"),
        hidden_size: model.count("hidden_size"),
        weight_dtype: types.text("weight_dtype").filter(|dtype| dtype != "auto"),
        kv_dtype: types.text("kv_cache_dtype").filter(|dtype| dtype != "auto"),
        quantization: model.text("quantization"),
        input: settings.count("input_len"),
        output: settings.count("output_len"),
        concurrency: settings.count("batch_size"),
        kv_tokens: internal.count("total_gpu_kv_cache_tokens"),
        capacity: bytes(capacity, GIB),
        ..Facts::default()
    }
    .counted()
}
