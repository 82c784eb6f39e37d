//! A run of ours in the form in which everything is compared.

use serde_json::Value;

use super::subject::{Case, Unit};
use super::{Found, Subject};
use crate::fault::{Fault, Kind, Result};
use crate::memory::Footprint;
use crate::memory::compare::{Facts, implausible};

/// The figures of a load that stand alone.
const FIGURES: [(&str, Unit); 8] = [
    ("request_throughput", Unit::RequestsPerSecond),
    ("output_throughput", Unit::TokensPerSecond),
    ("total_token_throughput", Unit::TokensPerSecond),
    ("issued", Unit::Count),
    ("completed", Unit::Count),
    ("failed", Unit::Count),
    ("cut_off", Unit::Count),
    ("duration", Unit::Seconds),
];

/// Those that are summaries of a sample, and the figures of a summary. Together they make the names that vLLM's bench gives them.
const SAMPLES: [&str; 4] = ["ttft_ms", "tpot_ms", "itl_ms", "e2el_ms"];
const SUMMARY: [&str; 7] = ["mean", "median", "std", "p90", "p95", "p99", "p99_9"];

impl Subject {
    /// What a run found; `title` is its folder as the user named it.
    ///
    /// # Errors
    ///
    /// A breakdown in its journal that cannot be read.
    pub fn of(found: &Found, title: &str) -> Result<Self> {
        let engines = &found.manifest.engines;
        let facts = facts(engines);
        let mut cases = Vec::new();
        for (name, value) in &found.breakdowns {
            let footprint: Footprint = serde_json::from_value(value.clone())
                .map_err(|error| Fault::new(Kind::Io, format!("a breakdown of `{title}` cannot be read: {error}")))?;
            let mut case = Case::named(name);
            case.facts = Facts {
                tensor_parallel: facts
                    .tensor_parallel
                    .or(u64::try_from(footprint.per_gpu.len()).ok().filter(|gpus| *gpus > 1)),
                ..facts.clone()
            };
            case.implausible = implausible(Some(&footprint.all), &case.facts);
            case.breakdown = Some(footprint.all);
            cases.push(case);
        }
        cases.extend(found.loads.iter().map(|(args, answer)| load(args, answer)));
        let drawn = |boundary: &&super::FoundBoundary| !boundary.described.is_null();
        let mut notes = found.warnings().to_vec();
        if found.boundaries.iter().filter(drawn).count() > 1 {
            notes.push("of several boundaries, the first is compared".to_owned());
        }
        Ok(Self {
            title: title.to_owned(),
            format: "run",
            holds: "what a run of profiler found",
            model: told(engines, &["/info/model", "/options/model"]),
            engine: engine(engines),
            simulated: found.manifest.simulated,
            boundary: found.boundaries.iter().find(drawn).cloned(),
            cases,
            notes,
        })
    }
}

/// What all engines of the run agree on.
fn facts(engines: &[Value]) -> Facts {
    let text = |pointers: &[&str]| told(engines, pointers).filter(|text| text != "auto");
    let count = |pointers: &[&str]| told(engines, pointers).and_then(|text| text.parse().ok());
    Facts {
        weight_dtype: text(&["/options/dtype", "/facts/dtype"]),
        quantization: text(&["/options/quantization"]),
        kv_dtype: text(&["/options/kv_cache_dtype"]),
        tensor_parallel: count(&["/options/tensor_parallel"]),
        kv_tokens: count(&["/info/kv_tokens", "/facts/kv_tokens"]),
        prefill_chunk: count(&["/facts/max_num_batched_tokens"]),
        input: count(&["/limits/input"]),
        output: count(&["/limits/output"]),
        concurrency: count(&["/limits/concurrency"]),
        capacity: count(&["/memory_total"]).and_then(|bytes: u64| i64::try_from(bytes).ok()),
        ..Facts::default()
    }
}

fn engine(engines: &[Value]) -> Option<String> {
    let name = told(engines, &["/info/engine"])?;
    Some(match told(engines, &["/info/version"]) {
        Some(version) => format!("{name} {version}"),
        None => name,
    })
}

/// What the engines say at the first of these places where any says something; nothing where they contradict each other.
fn told(engines: &[Value], pointers: &[&str]) -> Option<String> {
    let text = |value: &Value| match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    pointers.iter().find_map(|pointer| {
        let mut said = engines
            .iter()
            .filter_map(|engine| engine.pointer(pointer).and_then(text));
        let first = said.next()?;
        said.all(|other| other == first).then_some(first)
    })
}

fn load(args: &Value, answer: &Value) -> Case {
    let asked = |key: &str| args["load"][key].as_u64();
    let parts = ["concurrency", "input", "output"].iter();
    let parts = parts.filter_map(|key| Some(format!("{key}={}", asked(key)?)));
    let mut case = Case::named(parts.collect::<Vec<_>>().join(" "));
    for (name, unit) in FIGURES {
        case.figure(name, answer[name].as_f64(), unit);
    }
    for sample in SAMPLES {
        for figure in SUMMARY {
            let name = format!("{figure}_{sample}");
            case.figure(&name, answer[sample][figure].as_f64(), Unit::Milliseconds);
        }
    }
    case
}
