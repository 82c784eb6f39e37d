//! Reads LLM-sizer's profiles of `vllm bench latency`, schema 2 (`profile-vllm-bench-enhanced.py`) and 3
//! (`profile-vllm-bench-v3.py`), and the `batch-bench-results-*.csv` of its batch driver (22 columns in schema 2,
//! 39 in 3).
//!
//! Everything is called `gb` there. Values read from the device are GiB on NVIDIA (`nvidia-smi`, divided by 1024)
//! and 10^9 bytes with `rocm-smi`; values of formulas are 10^9 bytes; values of vLLM's log are GiB. Weights and KV
//! are of one rank, while measured values are the sum over all devices; here weights and KV are multiplied by the
//! ranks.
//!
//! The CSV has zeros as empty cells, so an empty cell is unknown rather than zero. It records neither the source of
//! a figure nor the GPUs.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::source::Source;
use super::values::{GB, GIB, LenientNumber, Parts, Scalars, bytes};
use super::vllm_bench::latencies;
use crate::compare::{Case, ComparisonInput, Unit};
use crate::fault::Result;
use crate::memory::compare::{Facts, implausible};
use crate::memory::{Component, Provenance};

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
    let mut notes = profile_notes(schema, reader, ranks);
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

const BATCH_TOOL: &str = "LLM-sizer's batch driver";

pub(super) fn read_batch(source: &Source) -> Result<ComparisonInput> {
    let rows: Vec<Scalars> = source.rows(BATCH_TOOL)?.into_iter().map(Scalars::from_row).collect();
    let third = source.shape.has("kv_cache_allocated_gb");
    let schema = if third { Schema::Third } else { Schema::Second };
    let models: BTreeSet<String> = rows.iter().filter_map(|row| row.text("model_id")).collect();
    let mut notes = profile_notes(schema, Reader::Unknown, None);
    notes.push("an empty cell is a zero or nothing: it is taken as not known".to_owned());
    let mut cases = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        for key in ["input_len", "output_len", "batch_size"] {
            if row.0.contains_key(key) && row.count(key).is_none() {
                return Err(source.broken(BATCH_TOOL, format!("row {}: `{key}` is not a whole number", index + 1)));
            }
        }
        let name = row_name(row, models.len() > 1);
        if row.text("success").is_none_or(|word| word.eq_ignore_ascii_case("true")) {
            cases.push(row_case(row, name, schema, &mut notes)?);
        } else {
            let error = row.text("error_message").unwrap_or_default();
            // The message is all of stderr; Python's error is its last line.
            let error = error.lines().map(str::trim).rfind(|line| !line.is_empty());
            notes.push(format!("{name} failed: {}", error.unwrap_or("no message")));
        }
    }
    let versions: BTreeSet<String> = rows.iter().filter_map(|row| row.text("engine_version")).collect();
    let versions: Vec<String> = versions.into_iter().filter(|version| version != "unknown").collect();
    Ok(ComparisonInput {
        model: (!models.is_empty()).then(|| models.into_iter().collect::<Vec<_>>().join(", ")),
        engine: Some(format!("vllm {}", versions.join(", ")).trim_end().to_owned()),
        cases,
        notes,
        ..ComparisonInput::default()
    })
}

fn row_name(row: &Scalars, with_model: bool) -> String {
    let part = |key: &str, name: &str| row.count(key).map(|value| format!("{name}={value}"));
    let parts = [
        row.text("model_id").filter(|_| with_model),
        part("input_len", "input"),
        part("output_len", "output"),
        part("batch_size", "batch"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn row_case(row: &Scalars, name: String, schema: Schema, notes: &mut Vec<String>) -> Result<Case> {
    let profile = Profile {
        schema,
        reader: Reader::Unknown,
        name,
        total: row.number("total_memory_gb"),
        baseline: row.number("baseline_memory_gb"),
        increase: row.number("memory_increase_gb"),
        weights: row.number("weights_gb"),
        kv_used: row.number("kv_cache_used_gb").or_else(|| row.number("kv_cache_gb")),
        kv_pool: row.number("kv_cache_allocated_gb"),
        graphs: row.number("graph_capture_gb"),
        activations: row.number("activations_gb"),
        overhead: row.number("overhead_gb"),
        // The overall confidence is that of the weights; in schema 3 it says "logs" if they come from there.
        confidence: [row.text("estimation_confidence"), None, None],
        ranks: None,
        facts: Facts {
            weight_dtype: row.text("weight_dtype").filter(|dtype| dtype != "auto"),
            kv_dtype: row.text("kv_cache_dtype").filter(|dtype| dtype != "auto"),
            input: row.count("input_len"),
            output: row.count("output_len"),
            concurrency: row.count("batch_size"),
            kv_tokens: row.count("vllm_kv_cache_tokens"),
            ..Facts::default()
        }
        .counted(),
    };
    let mut case = profile.case(notes)?;
    for (key, name) in [
        ("memory_timeline_min_gb", "timeline_min"),
        ("memory_timeline_mean_gb", "timeline_mean"),
        ("memory_timeline_p95_gb", "timeline_p95"),
        ("memory_timeline_max_gb", "timeline_max"),
    ] {
        case.metric(name, row.number(key).map(|value| value * GIB), Unit::Bytes);
    }
    for (key, name, unit) in [
        ("memory_timeline_samples", "timeline_samples", Unit::Count),
        ("vllm_kv_cache_tokens", "kv_tokens", Unit::Tokens),
        ("latency_ms", "mean_latency_ms", Unit::Milliseconds),
        ("duration_seconds", "duration", Unit::Seconds),
        ("power_mean_w", "power_mean", Unit::Watts),
        ("power_max_w", "power_max", Unit::Watts),
        ("temp_mean_c", "temperature_mean", Unit::Celsius),
        ("temp_max_c", "temperature_max", Unit::Celsius),
    ] {
        case.metric(name, row.number(key), unit);
    }
    Ok(case)
}

/// The schema's version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Schema {
    /// The "peak" is read after the engine has exited.
    #[default]
    Second,
    /// The peak is sampled during the run, and vLLM's log is read.
    Third,
}

/// The program that read the device's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reader {
    NvidiaSmi,
    RocmSmi,
    #[default]
    Unknown,
}

/// A profile's values in its own `gb`.
#[derive(Clone, Debug, Default)]
struct Profile {
    schema: Schema,
    reader: Reader,
    name: String,
    total: Option<f64>,
    baseline: Option<f64>,
    increase: Option<f64>,
    weights: Option<f64>,
    kv_used: Option<f64>,
    kv_pool: Option<f64>,
    graphs: Option<f64>,
    activations: Option<f64>,
    overhead: Option<f64>,
    /// Confidence of weights, KV and activations, which tells where a value comes from.
    confidence: [Option<String>; 3],
    ranks: Option<u64>,
    facts: Facts,
}

/// Where a value comes from: unit, provenance, method, and whether it is of one rank.
struct Origin {
    unit: f64,
    provenance: Provenance,
    how: &'static str,
    per_rank: bool,
}

impl Profile {
    /// The unit of values read from the device.
    fn measured(&self) -> f64 {
        match (self.reader, self.schema) {
            (Reader::RocmSmi, Schema::Second) => GB,
            _ => GIB,
        }
    }

    /// Converts the profile, and adds notes.
    fn case(&self, notes: &mut Vec<String>) -> Result<Case> {
        let unit = self.measured();
        let ranks = self.ranks.unwrap_or(1).max(1);
        let mut parts = Parts::default();
        parts.add(
            Component::OtherTenants,
            bytes(self.baseline, unit),
            Provenance::Measured,
            "in use before the start",
        );
        let mut add = |component, figure: Option<f64>, origin: Origin| {
            let times = if origin.per_rank { ranks as f64 } else { 1.0 };
            let figure = bytes(figure.map(|figure| figure * times), origin.unit);
            parts.add(component, figure, origin.provenance, origin.how);
            figure.map(|figure| figure as f64)
        };
        let weights = add(Component::Weights, self.weights, self.origin_of_weights());
        let pool = add(
            Component::KvPool,
            self.kv_pool.filter(|pool| *pool > 0.0),
            engine_reported("vLLM's log: available KV cache memory"),
        );
        let used = add(Component::KvUsed, self.kv_used, self.origin_of_kv());
        let activations = add(Component::Activations, self.activations, self.origin_of_activations());
        let graphs = add(
            Component::CudaGraphs,
            self.graphs,
            engine_reported("vLLM's log: graph capturing took"),
        );

        let mut case = Case::new(&self.name);
        let measured = |figure: Option<f64>| figure.map(|figure| figure * unit);
        for (name, value) in [
            ("total_measured", measured(self.total)),
            ("baseline", measured(self.baseline)),
            ("net_increase", measured(self.increase)),
            ("model_weights", weights),
            ("kv_cache_pool", pool),
            ("kv_cache_used", used),
            ("graph_capture", graphs),
            ("activations", activations),
            ("framework_overhead", measured(self.overhead)),
        ] {
            case.metric(name, value, Unit::Bytes);
        }
        if let (Some(pool), Some(used)) = (pool, used)
            && used > pool
        {
            notes.push(format!(
                "{}: more KV is said to be in use than the pool holds; it is left out of the breakdown",
                self.name
            ));
        }
        case.facts = Facts {
            tensor_parallel: self.ranks,
            read_after_exit: self.schema == Schema::Second,
            ..self.facts.clone()
        };
        case.breakdown = parts.breakdown(bytes(self.total, unit))?;
        case.implausible = implausible(case.breakdown.as_ref(), &case.facts);
        Ok(case)
    }

    fn origin_of_weights(&self) -> Origin {
        match self.confidence(0) {
            confidence if confidence.starts_with("low") => {
                self.share_of_measured("65 % of the increase, whatever the model")
            }
            confidence if confidence.contains("log") => engine_reported("vLLM's log: model loading took"),
            _ => computed("parameters x bytes of the requested dtype"),
        }
    }

    fn origin_of_kv(&self) -> Origin {
        match self.confidence(1) {
            confidence if confidence.starts_with("low") => {
                self.share_of_measured("20 % of the increase, whatever the model")
            }
            confidence if confidence.contains("log") => engine_reported("vLLM's log"),
            _ => computed("2 x layers x hidden size x tokens x bytes: as if every head had keys and values of its own"),
        }
    }

    fn origin_of_activations(&self) -> Origin {
        match (self.confidence(2), self.schema) {
            (confidence, _) if confidence.contains("log") => engine_reported("vLLM's log"),
            (_, Schema::Third) => self.share_of_measured("70 % of what the other parts leave"),
            (confidence, Schema::Second) if confidence.starts_with("low") => {
                self.share_of_measured("12 % of the increase, whatever the model")
            }
            _ => Origin {
                per_rank: false,
                ..computed("batch x tokens x hidden size x 8 x bytes")
            },
        }
    }

    fn confidence(&self, index: usize) -> &str {
        self.confidence[index].as_deref().unwrap_or_default()
    }

    /// A share of a measured value, which is of all devices.
    fn share_of_measured(&self, how: &'static str) -> Origin {
        Origin {
            unit: self.measured(),
            provenance: Provenance::Assumed,
            how,
            per_rank: false,
        }
    }
}

fn engine_reported(how: &'static str) -> Origin {
    Origin {
        unit: GIB,
        provenance: Provenance::EngineReported,
        how,
        per_rank: true,
    }
}

fn computed(how: &'static str) -> Origin {
    Origin {
        unit: GB,
        provenance: Provenance::Computed,
        how,
        per_rank: true,
    }
}

/// Notes on every profile of this kind.
fn profile_notes(schema: Schema, reader: Reader, ranks: Option<u64>) -> Vec<String> {
    let mut notes = vec![
        match (reader, schema) {
            (Reader::NvidiaSmi, _) => "what was read from the device is GiB, what follows from a formula is 10^9 bytes; both are called gb",
            (Reader::RocmSmi, Schema::Second) => "all figures are 10^9 bytes",
            (Reader::RocmSmi, Schema::Third) => {
                "what was read from the device is taken as GiB, as amd-smi tells MiB; where it fell back to rocm-smi, it is 10^9 bytes, 7 % less"
            }
            (Reader::Unknown, _) => {
                "what was read from the device is taken as GiB, as on NVIDIA; the file does not say, and with rocm-smi it would be 10^9 bytes, 7 % less"
            }
        }
        .to_owned(),
    ];
    if schema == Schema::Second {
        notes.push(
            "this version reads its peak after the engine has exited: it is no peak, whatever it says".to_owned(),
        );
    }
    if let Some(ranks) = ranks.filter(|ranks| *ranks > 1) {
        notes.push(format!(
            "weights and KV were told for one of {ranks} ranks, beside a total of all devices: they are multiplied by {ranks} here"
        ));
    }
    notes
}
