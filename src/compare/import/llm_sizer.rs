//! Reads LLM-sizer's profiles of `vllm bench latency`, schema 2 and 3, the `batch-bench-results-*.csv` of its batch
//! driver, and the profile of its first script, which runs transformers.
//!
//! Schema 2 reads the device before the start and after the engine's end, so its total is an idle GPU's.
//!
//! The tool labels every figure `gb`. Values read from the device are GiB on NVIDIA (`nvidia-smi`, divided by 1024);
//! values of formulas are 10^9 bytes; values of vLLM's log are GiB. Weights and KV are of one rank, while measured
//! values are the sum over all devices. Here weights and KV are multiplied by the number of ranks.
//!
//! The CSV has empty cells for zeros too, so an empty cell counts as unknown. The CSV records neither the source of a
//! figure nor the GPUs.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::document::{Node, set};
use super::vllm_bench::latencies;
use super::{GB, Pick, case_name, pick};
use crate::compare::{Case, ComparisonInput, Unit};
use crate::fmt::GIB;
use crate::memory::compare::{ModelFacts, implausible};
use crate::memory::{Breakdown, Component, Part, Provenance};

/// Figures of the breakdown that were read from the device: the total, before the start, and the difference.
const DEVICE: &[Pick] = &[
    ("total_measured", "total_measured_gb", GIB, Unit::Bytes),
    ("baseline", "baseline_gb", GIB, Unit::Bytes),
    ("net_increase", "net_increase_gb", GIB, Unit::Bytes),
];

/// A component of a profile's breakdown. Its value comes from vLLM's log or a formula, or is an assumed share.
struct SizerComponent {
    component: Component,
    /// The metric.
    name: &'static str,
    /// Its key, without `_gb`.
    key: &'static str,
    /// The key of its confidence, which names the source; empty: always from the log.
    confidence: &'static str,
    log: &'static str,
    /// The formula; empty: a value that is not in the log is assumed.
    formula: &'static str,
    assumed: &'static str,
}

const COMPONENTS: &[SizerComponent] = &[
    SizerComponent {
        component: Component::Weights,
        name: "model_weights",
        key: "model_weights",
        confidence: "weights",
        log: "vLLM's log: model loading took",
        formula: "parameters x bytes of the requested dtype",
        assumed: "65 % of the increase, whatever the model",
    },
    SizerComponent {
        component: Component::KvPool,
        name: "kv_cache_pool",
        key: "kv_cache_allocated",
        confidence: "",
        log: "vLLM's log: available KV cache memory",
        formula: "",
        assumed: "",
    },
    SizerComponent {
        component: Component::KvUsed,
        name: "kv_cache_used",
        key: "kv_cache_used",
        confidence: "kv_cache",
        log: "vLLM's log",
        formula: "2 x layers x hidden size x tokens x bytes: as if every head had keys and values of its own",
        assumed: "20 % of the increase, whatever the model",
    },
    SizerComponent {
        component: Component::CudaGraphs,
        name: "graph_capture",
        key: "graph_capture",
        confidence: "",
        log: "vLLM's log: graph capturing took",
        formula: "",
        assumed: "",
    },
    SizerComponent {
        component: Component::Activations,
        name: "activations",
        key: "activations",
        confidence: "activations",
        log: "vLLM's log",
        formula: "",
        assumed: "70 % of what the other parts leave",
    },
];

impl SizerComponent {
    /// The part of a breakdown of `ranks` devices. Values from the log and from formulas are of one device.
    fn part(&self, profile: &Node, ranks: f64) -> Result<Option<Part>, String> {
        let gb = |key: &str| profile.number(&format!("memory_breakdown.{key}_gb"));
        let value = match (gb(self.key)?, self.component) {
            (None, Component::KvUsed) => gb("kv_cache")?,
            (pool, Component::KvPool) => pool.filter(|pool| *pool > 0.0),
            (value, _) => value,
        };
        let from = profile
            .text(&format!("memory_breakdown.confidence_levels.{}", self.confidence))
            .unwrap_or_default();
        let is_log = self.confidence.is_empty() || (from.contains("log") && !from.starts_with("low"));
        let (unit, provenance, source) = if is_log {
            (GIB * ranks, Provenance::EngineReported, self.log)
        } else if self.component == Component::Activations && from == "medium" {
            (
                GB,
                Provenance::Computed,
                "batch size x tokens x hidden size x 8 x bytes",
            )
        } else if self.formula.is_empty() || from.starts_with("low") {
            (GIB, Provenance::Assumed, self.assumed)
        } else {
            (GB * ranks, Provenance::Computed, self.formula)
        };
        Ok(bytes(value, unit).map(|bytes| part(self.component, bytes, provenance, source)))
    }
}

/// The rest of the breakdown, without the other parts.
const OVERHEAD: Pick = ("framework_overhead", "framework_overhead_gb", GIB, Unit::Bytes);

const FURTHER: &[Pick] = &[
    ("mean_latency_ms", "latency_ms", 1.0, Unit::Milliseconds),
    ("duration", "duration_seconds", 1.0, Unit::Seconds),
    ("kv_tokens", KV_TOKENS, 1.0, Unit::Tokens),
];

/// Figures of the memory timeline.
const TIMELINE: &[Pick] = &[
    ("timeline_min", "min_gb", GIB, Unit::Bytes),
    ("timeline_mean", "mean_gb", GIB, Unit::Bytes),
    ("timeline_median", "median_gb", GIB, Unit::Bytes),
    ("timeline_p95", "p95_gb", GIB, Unit::Bytes),
    ("timeline_max", "max_gb", GIB, Unit::Bytes),
    ("timeline_samples", "num_samples", 1.0, Unit::Count),
    ("power_mean", "extended.power.mean_w", 1.0, Unit::Watts),
    ("power_max", "extended.power.max_w", 1.0, Unit::Watts),
    ("temperature_mean", "extended.temperature.mean_c", 1.0, Unit::Celsius),
    ("temperature_max", "extended.temperature.max_c", 1.0, Unit::Celsius),
];

const KV_TOKENS: &str = "vllm_internal_metrics.total_gpu_kv_cache_tokens";

/// Input, output and batch size, which identify a profile.
const SETTINGS: [(&str, &str); 3] = [
    ("input", "benchmark_parameters.input_len"),
    ("output", "benchmark_parameters.output_len"),
    ("batch", "benchmark_parameters.batch_size"),
];

/// Columns of the batch driver, and the paths of the same values in a profile.
const COLUMNS: &[(&str, &str)] = &[
    ("input_len", "benchmark_parameters.input_len"),
    ("output_len", "benchmark_parameters.output_len"),
    ("batch_size", "benchmark_parameters.batch_size"),
    ("total_memory_gb", "memory_breakdown.total_measured_gb"),
    ("baseline_memory_gb", "memory_breakdown.baseline_gb"),
    ("memory_increase_gb", "memory_breakdown.net_increase_gb"),
    ("overhead_gb", "memory_breakdown.framework_overhead_gb"),
    ("weights_gb", "memory_breakdown.model_weights_gb"),
    ("kv_cache_allocated_gb", "memory_breakdown.kv_cache_allocated_gb"),
    ("kv_cache_gb", "memory_breakdown.kv_cache_gb"),
    ("kv_cache_used_gb", "memory_breakdown.kv_cache_used_gb"),
    ("graph_capture_gb", "memory_breakdown.graph_capture_gb"),
    ("activations_gb", "memory_breakdown.activations_gb"),
    // The overall confidence is that of the weights. It says "logs" if they come from there.
    ("estimation_confidence", "memory_breakdown.confidence_levels.weights"),
    ("weight_dtype", "dtype_metadata.weight_dtype"),
    ("kv_cache_dtype", "dtype_metadata.kv_cache_dtype"),
    ("vllm_kv_cache_tokens", KV_TOKENS),
    ("memory_timeline_min_gb", "memory_timeline.min_gb"),
    ("memory_timeline_mean_gb", "memory_timeline.mean_gb"),
    ("memory_timeline_p95_gb", "memory_timeline.p95_gb"),
    ("memory_timeline_max_gb", "memory_timeline.max_gb"),
    ("memory_timeline_samples", "memory_timeline.num_samples"),
    ("power_mean_w", "memory_timeline.extended.power.mean_w"),
    ("power_max_w", "memory_timeline.extended.power.max_w"),
    ("temp_mean_c", "memory_timeline.extended.temperature.mean_c"),
    ("temp_max_c", "memory_timeline.extended.temperature.max_c"),
    ("latency_ms", "latency_ms"),
    ("duration_seconds", "duration_seconds"),
];

pub(super) fn read(file: &Node) -> Result<ComparisonInput, String> {
    let version = file.text("schema_version").unwrap_or_default();
    let major = version.split('.').next().unwrap_or_default();
    if !["2", "3"].contains(&major) {
        return Err(format!("its schema is `{version}`, and only 2 and 3 are known"));
    }
    // Values that are not numbers are skipped.
    let count = |path| file.count(path).ok().flatten();
    let ranks = count("benchmark_parameters.tensor_parallel_size").or_else(|| count("gpu_info.num_gpus"));
    let vendor = file.text("gpu_info.gpu_type");
    let mut notes = vec![unit_note(vendor.as_deref()).to_owned()];
    if major == "2" {
        notes.push(IDLE.to_owned());
    }
    if let Some(ranks) = ranks.filter(|ranks| *ranks > 1) {
        notes.push(format!(
            "weights and KV are those of one of {ranks} ranks, while the total is of all devices: they are multiplied by {ranks} here"
        ));
    }
    if ranks.is_some() && count("gpu_info.system_gpus") > ranks {
        let note = "the machine has more GPUs than were used, and the total sums all of them: others' memory is in it";
        notes.push(note.to_owned());
    }
    // With rocm-smi the total is a constant of the tool, not a measurement.
    let capacity = file
        .number_if_any("gpu_info.total_gpu_memory_gb")
        .filter(|_| vendor.as_deref() == Some("cuda"));
    let facts = ModelFacts {
        parameters: file.number_if_any("model_info.num_parameters"),
        layers: count("model_info.num_layers"),
        heads: count("model_info.num_heads"),
        head_dim: count("model_info.head_dim"),
        hidden_size: count("model_info.hidden_size"),
        quantization: file.text("model_info.quantization"),
        tensor_parallel: ranks,
        capacity: bytes(capacity, GIB),
        ..ModelFacts::default()
    };
    let case = case(file, name(file, None)?, facts, &mut notes)?;
    let version = file.chosen("engine_metadata.engine_version");
    let engine = "vllm";
    Ok(ComparisonInput {
        model: file.text("model_info.name").or(file.text("benchmark_parameters.model")),
        engine: Some(
            format!("{engine} {}", version.unwrap_or_default())
                .trim_end()
                .to_owned(),
        ),
        cases: vec![case],
        notes,
        ..ComparisonInput::default()
    })
}

const IDLE: &str = "schema 2 reads the total after the engine has ended: it is that of an idle GPU, and weights, KV cache and activations are formulas";

/// The profile of the script that loads a model with transformers: torch's counters of the current device, in 10^9 bytes.
pub(super) fn read_transformers(file: &Node) -> Result<ComparisonInput, String> {
    let gb = |key: &str| {
        file.number(&format!("memory_breakdown.{key}_gb"))
            .map(|value| bytes(value, GB))
    };
    let of = [
        (
            Component::Weights,
            gb("model_weights")?,
            Provenance::Measured,
            "torch: allocated after loading",
        ),
        (
            Component::KvUsed,
            gb("kv_cache")?,
            Provenance::Computed,
            "torch: allocated after `generate` less before",
        ),
        (
            Component::Activations,
            gb("activations")?,
            Provenance::Computed,
            "torch: peak less allocated after `generate`",
        ),
    ];
    let parts: Vec<Part> = of
        .into_iter()
        .filter_map(|(component, bytes, from, how)| Some(part(component, bytes?, from, how)))
        .collect();
    let count = |path: &str| file.count(&format!("model_info.{path}"));
    let mut case = Case::new("profile");
    for part in &parts {
        case.metric(part.component.name(), Some(part.bytes as f64), Unit::Bytes);
    }
    let total = gb("total")?;
    case.metric("total_measured", total.map(|total| total as f64), Unit::Bytes);
    let (input, all) = (count("prompt_length")?, count("total_sequence_length")?);
    case.facts = ModelFacts {
        parameters: file.number("model_info.num_parameters")?,
        weight_dtype: file.chosen("model_info.dtype"),
        input,
        output: all.zip(input).and_then(|(all, input)| all.checked_sub(input)),
        concurrency: count("batch_size")?,
        ..ModelFacts::default()
    }
    .counted();
    if let Some(total) = total.and_then(|total| u64::try_from(total).ok()) {
        case.breakdown = Some(Breakdown::new(None, total, parts).map_err(|fault| fault.message)?);
    }
    case.implausible = implausible(case.breakdown.as_ref(), &case.facts);
    let mut notes = vec![
        "torch's allocator on one device: the CUDA context is not in it, and the overhead is 0 by its formula"
            .to_owned(),
    ];
    if let Some(gpus) = file.count("gpu_info.num_gpus")?.filter(|gpus| *gpus > 1) {
        notes.push(format!(
            "of {gpus} GPUs only one was read; `multi_gpu_overhead_gb` is mostly the others' weights"
        ));
    }
    Ok(ComparisonInput {
        model: file.text("model_info.model_name"),
        engine: Some("transformers".to_owned()),
        cases: vec![case],
        notes,
        ..ComparisonInput::default()
    })
}

fn unit_note(vendor: Option<&str>) -> &'static str {
    match vendor {
        Some("cuda") => {
            "what was read from the device is GiB, what follows from a formula is 10^9 bytes; both are called gb"
        }
        Some("rocm") => {
            "what was read from the device is taken as GiB, as amd-smi reports MiB; where it fell back to rocm-smi, it is 10^9 bytes, 7 % less"
        }
        _ => {
            "what was read from the device is taken as GiB, as on NVIDIA; the file does not say, and with rocm-smi it would be 10^9 bytes, 7 % less"
        }
    }
}

pub(super) fn read_batch(file: &Node) -> Result<ComparisonInput, String> {
    let rows = file.objects()?;
    let of_all = |key: &str| -> BTreeSet<String> { rows.iter().filter_map(|row| row.chosen(key)).collect() };
    let models = of_all("model_id");
    let mut notes = vec![
        unit_note(None).to_owned(),
        "empty cells may be zero or missing; they count as unknown".to_owned(),
    ];
    if rows
        .first()
        .is_some_and(|row| row.at("kv_cache_allocated_gb").is_null())
        && !of_all("kv_cache_gb").is_empty()
    {
        notes.push(IDLE.to_owned());
    }
    let mut cases = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        for (key, _) in &COLUMNS[..SETTINGS.len()] {
            if !row.at(key).is_null() && !matches!(row.count(key), Ok(Some(_))) {
                return Err(format!("row {}: `{key}` is not a whole number", index + 1));
            }
        }
        let mut fields = Map::new();
        for (column, path) in COLUMNS {
            set(&mut fields, path, row.at(column).0.clone());
        }
        let object = Value::Object(fields);
        let profile = Node(&object);
        let name = name(&profile, row.text("model_id").filter(|_| models.len() > 1))?;
        if row.text("success").is_none_or(|word| word.eq_ignore_ascii_case("true")) {
            cases.push(case(&profile, name, ModelFacts::default(), &mut notes)?);
            continue;
        }
        // The message is all of stderr; Python's error is its last line.
        let error = row
            .at("error_message")
            .0
            .as_str()
            .and_then(|error| error.lines().map(str::trim).rfind(|line| !line.is_empty()));
        notes.push(format!("{name} failed: {}", error.unwrap_or("no message")));
    }
    let versions: Vec<String> = of_all("engine_version").into_iter().collect();
    Ok(ComparisonInput {
        model: (!models.is_empty()).then(|| models.into_iter().collect::<Vec<_>>().join(", ")),
        engine: Some(format!("vllm {}", versions.join(", ")).trim_end().to_owned()),
        cases,
        notes,
        ..ComparisonInput::default()
    })
}

fn name(profile: &Node, model: Option<String>) -> Result<String, String> {
    let settings = case_name(profile, &SETTINGS)?;
    Ok(match model {
        Some(model) => format!("{model} {settings}").trim_end().to_owned(),
        None if settings.is_empty() => "profile".to_owned(),
        None => settings,
    })
}

/// A profile as a case. `known` has facts that rows of a batch lack.
fn case(profile: &Node, name: String, known: ModelFacts, notes: &mut Vec<String>) -> Result<Case, String> {
    let ranks = known.tensor_parallel.unwrap_or(1).max(1) as f64;
    let mut case = Case::new(name);
    let breakdown = profile.at("memory_breakdown");
    let within = |name: &'static str| move |what: String| what.replacen('`', &format!("`{name}."), 1);
    pick(&mut case, &breakdown, DEVICE).map_err(within("memory_breakdown"))?;
    let metric = |case: &Case, name| case.figure(name).map(|figure| figure.value);
    let total = bytes(metric(&case, "total_measured"), 1.0);
    let mut parts = Vec::new();
    if let Some(bytes) = bytes(metric(&case, "baseline"), 1.0) {
        let how = "in use before the start";
        parts.push(part(Component::OtherTenants, bytes, Provenance::Measured, how));
    }
    for row in COMPONENTS {
        if let Some(part) = row.part(profile, ranks)? {
            case.metric(row.name, Some(part.bytes as f64), Unit::Bytes);
            parts.push(part);
        }
    }
    latencies(&mut case, &profile.at("latency_stats"))?;
    pick(&mut case, &breakdown, &[OVERHEAD]).map_err(within("memory_breakdown"))?;
    pick(&mut case, profile, FURTHER)?;
    pick(&mut case, &profile.at("memory_timeline"), TIMELINE).map_err(within("memory_timeline"))?;
    let [input, output, concurrency] = SETTINGS.map(|(_, path)| path);
    case.facts = ModelFacts {
        weight_dtype: profile.chosen("dtype_metadata.weight_dtype"),
        kv_dtype: profile.chosen("dtype_metadata.kv_cache_dtype"),
        input: profile.count(input)?,
        output: profile.count(output)?,
        concurrency: profile.count(concurrency)?,
        kv_tokens: profile.count(KV_TOKENS)?,
        ..known
    }
    .counted();
    let of = |component| move |part: &&Part| part.component == component;
    if let Some(pool) = parts.iter().find(of(Component::KvPool)).map(|part| part.bytes) {
        let used = parts.iter().find(of(Component::KvUsed)).map(|part| part.bytes);
        if used > Some(pool) {
            notes.push(format!(
                "{}: more KV is said to be in use than the pool holds; it is left out of the breakdown",
                case.name
            ));
            parts.retain(|part| part.component != Component::KvUsed);
        }
        for part in parts.iter_mut().filter(|part| part.component == Component::KvUsed) {
            part.within = Some(Component::KvPool);
        }
    }
    if let Some(total) = total.and_then(|total| u64::try_from(total).ok()) {
        case.breakdown = Some(Breakdown::new(None, total, parts).map_err(|fault| fault.message)?);
    }
    case.implausible = implausible(case.breakdown.as_ref(), &case.facts);
    Ok(case)
}

pub(super) fn part(component: Component, bytes: i64, provenance: Provenance, source: &str) -> Part {
    Part {
        component,
        bytes,
        provenance,
        source: source.to_owned(),
        within: None,
    }
}

/// Converts to bytes; `None` if negative or larger than any device.
pub(super) fn bytes(figure: Option<f64>, unit: f64) -> Option<i64> {
    figure
        .map(|figure| (figure * unit).round())
        .filter(|bytes| (0.0..=9e15).contains(bytes))
        .map(|bytes| bytes as i64)
}
