//! Reads the files of `vllm bench`: `serve`, `latency`, `throughput`, and the `summary.json` or `summary.csv` of a
//! sweep, whose runs with equal settings are averaged.
//!
//! The keys depend on version and options: known names have a unit here, names ending in `_ms` are milliseconds.
//! Lists with one entry per request (`ttfts`, `itls`, texts) are skipped.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;

use super::source::{Shape, Source};
use super::values::{LenientNumber, Scalar, Scalars, bounded_list};
use crate::compare::{Case, ComparisonInput, Metric, Unit};
use crate::fault::Result;
use crate::memory::compare::Facts;

/// The tool's name in messages.
const TOOL: &str = "vllm bench";

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
fn case(run: &Scalars) -> Case {
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
fn notes(run: &Scalars) -> Vec<String> {
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

#[derive(Deserialize)]
#[serde(transparent)]
struct Runs(#[serde(deserialize_with = "bounded_list")] Vec<Scalars>);

/// Keys that differ between runs with equal settings.
const OF_EACH: [&str; 6] = ["date", "run_number", "label", "endpoint_type", "burstiness", ""];

pub(super) fn read_sweep(source: &Source) -> Result<ComparisonInput> {
    let runs = match &source.shape {
        Shape::Table(_) => source.rows(TOOL)?.into_iter().map(Scalars::from_row).collect(),
        _ => source.parse::<Runs>(TOOL)?.0,
    };
    let mut groups: Vec<(String, Vec<&Scalars>)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let swept = swept(&runs);
    for run in &runs {
        let name = sweep_name(run, &swept);
        let index = *known.entry(name.clone()).or_insert(groups.len());
        match groups.get_mut(index) {
            Some((_, group)) => group.push(run),
            None => groups.push((name, vec![run])),
        }
    }
    let mut notes: BTreeSet<String> = runs.iter().flat_map(notes).collect();
    if groups.len() < runs.len() {
        notes.insert("runs of equal settings are averaged; `runs` says how many".to_owned());
    }
    let first = runs.first();
    Ok(ComparisonInput {
        model: first.and_then(|run| run.text("model_id")),
        engine: Some(
            first
                .and_then(|run| run.text("backend"))
                .unwrap_or_else(|| "vllm".to_owned()),
        ),
        cases: groups.iter().map(|(name, group)| mean(name, group)).collect(),
        notes: notes.into_iter().collect(),
        ..ComparisonInput::default()
    })
}

/// Settings that differ between the runs, except concurrency and rate, which every name has.
fn swept(runs: &[Scalars]) -> BTreeSet<String> {
    let cases = runs.iter().map(case);
    let measured: BTreeSet<String> = cases.flat_map(|case| case.figures).map(|figure| figure.name).collect();
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.0.keys()).collect();
    let differs = |name: &&String| {
        let mut values = runs.iter().map(|run| run.0.get(*name));
        let first = values.next().flatten();
        values.any(|value| value != first)
    };
    names
        .into_iter()
        .filter(|name| !OF_EACH.contains(&name.as_str()))
        .filter(|name| !["max_concurrency", "request_rate", "num_prompts"].contains(&name.as_str()))
        .filter(|name| !measured.contains(*name))
        .filter(differs)
        .cloned()
        .collect()
}

fn sweep_name(run: &Scalars, swept: &BTreeSet<String>) -> String {
    let mut name = case(run).name;
    for key in swept {
        if let Some(value) = run.0.get(key).map(Scalar::to_string) {
            name.push_str(&format!(" {key}={value}"));
        }
    }
    name
}

/// The means of the metrics that all runs of a group have.
fn mean(name: &str, group: &[&Scalars]) -> Case {
    let cases: Vec<Case> = group.iter().map(|run| case(run)).collect();
    let mut mean = Case::new(name);
    let Some(first) = cases.first() else { return mean };
    mean.facts = first.facts.clone();
    let count = cases.len() as f64;
    for figure in &first.figures {
        let values = cases.iter().map(|case| {
            let same = |other: &&Metric| other.name == figure.name;
            case.figures.iter().find(same).map(|figure| figure.value)
        });
        let sum: Option<f64> = values.sum();
        mean.metric(&figure.name, sum.map(|sum| sum / count), figure.unit);
    }
    if cases.len() > 1 {
        mean.metric("runs", Some(count), Unit::Count);
    }
    mean
}
