//! Reads the files of `vllm bench`: `serve`, `latency`, `throughput`, and the `summary.json` or `summary.csv` of a
//! sweep, whose runs with equal settings are averaged; and those of SGLang's `bench_serving`, which began as a copy of it
//! and names some metrics differently.
//!
//! The keys depend on version and options. Known names have a unit here; names that end in `_ms` are milliseconds.
//! Lists with one entry per request (`ttfts`, `itls`, texts) are skipped.

use std::collections::{BTreeSet, HashMap};

use super::document::Node;
use crate::compare::{Case, ComparisonInput, Unit};
use crate::memory::compare::ModelFacts;

/// Metrics with a unit, in display order.
const FIGURES: [(&str, Unit); 17] = [
    ("request_throughput", Unit::RequestsPerSecond),
    ("request_goodput", Unit::RequestsPerSecond),
    ("input_throughput", Unit::TokensPerSecond),
    ("output_throughput", Unit::TokensPerSecond),
    ("total_token_throughput", Unit::TokensPerSecond),
    ("max_output_tokens_per_s", Unit::TokensPerSecond),
    ("requests_per_second", Unit::RequestsPerSecond),
    ("tokens_per_second", Unit::TokensPerSecond),
    ("max_concurrent_requests", Unit::Count),
    ("mean_concurrency", Unit::Count),
    ("completed", Unit::Count),
    ("failed", Unit::Count),
    ("num_requests", Unit::Count),
    ("duration", Unit::Seconds),
    ("elapsed_time", Unit::Seconds),
    ("total_input_tokens", Unit::Tokens),
    ("total_output_tokens", Unit::Tokens),
];

/// Names of metrics in older versions, and in SGLang's bench.
const OTHER_NAMES: [(&str, &str); 3] = [
    ("request_goodput", "request_goodput:"),
    ("total_token_throughput", "total_throughput"),
    ("mean_concurrency", "concurrency"),
];

/// The metric in the file, under its name or another.
fn figure(run: &Node, name: &str) -> Result<Option<f64>, String> {
    let others = OTHER_NAMES
        .iter()
        .filter(|(known, _)| *known == name)
        .map(|(_, other)| *other);
    // A dot in a name would be a path; none has one.
    let written = std::iter::once(name).chain(others).find(|name| !run.at(name).is_null());
    written.map_or(Ok(None), |name| run.number(name))
}

/// Settings that identify a run.
const SETTINGS: [&str; 3] = ["max_concurrency", "request_rate", "num_prompts"];

const TENSOR_PARALLEL: &str = "tensor_parallel_size";

pub(super) fn read(run: &Node) -> Result<ComparisonInput, String> {
    let one = |case| ComparisonInput {
        model: run.text("model_id"),
        engine: Some(run.text("backend").unwrap_or_else(|| "vllm".to_owned())),
        cases: vec![case],
        // Written by our own program.
        simulated: run.at("simulated").0 == true,
        ..ComparisonInput::default()
    };
    if !run.at("avg_latency").is_null() {
        let mut case = Case::new("latency");
        latencies(&mut case, run)?;
        return Ok(one(case));
    }
    Ok(ComparisonInput {
        notes: notes(run),
        ..one(case(run))
    })
}

/// One run as a case, named by its settings.
fn case(run: &Node) -> Case {
    let mut case = Case::new(name(run));
    for (name, unit) in FIGURES {
        case.metric(name, figure(run, name).ok().flatten(), unit);
    }
    for (suffix, prefix, unit) in [("_ms", "", Unit::Milliseconds), ("", "spec_decode_", Unit::Count)] {
        let named = |(name, _): &(&String, Node)| name.ends_with(suffix) && name.starts_with(prefix);
        for (name, value) in run.entries().filter(named) {
            let name = name.replace("_e2e_latency_ms", "_e2el_ms");
            case.metric(&name, value.as_number().unwrap_or_default(), unit);
        }
    }
    case.facts = ModelFacts {
        weight_dtype: run.chosen("dtype"),
        kv_dtype: run.chosen("kv_cache_dtype"),
        tensor_parallel: run.count(TENSOR_PARALLEL).ok().flatten(),
        concurrency: run.count("max_concurrency").ok().flatten(),
        ..ModelFacts::default()
    };
    case
}

/// Notes on one run.
fn notes(run: &Node) -> Vec<String> {
    let figures = FIGURES.iter().map(|(name, _)| *name);
    let known = figures.chain(SETTINGS).chain([TENSOR_PARALLEL]);
    let mut notes: Vec<String> = known
        .filter_map(|name| Some(format!("{}: it is left out", figure(run, name).err()?)))
        .collect();
    if let Some(version) = run.text("server_info.version").or(run.text("version")) {
        notes.push(format!("written by version {version}"));
    }
    if !run.at("request_goodput:").is_null() {
        notes.push("written by an older version of vLLM, whose key `request_goodput:` has a colon".to_owned());
    }
    let number = |name| run.number_if_any(name);
    if let (Some(concurrency), Some(prompts)) = (number("max_concurrency"), number("num_prompts"))
        && prompts < concurrency
    {
        notes.push(format!(
            "{prompts} prompts cannot reach a concurrency of {concurrency}: the figures are of less"
        ));
    }
    let failed = number("failed").filter(|failed| *failed > 0.0);
    notes.extend(failed.map(|failed| format!("{failed} requests of a run failed: its throughput is without them")));
    notes
}

/// `vllm bench latency` writes seconds; here they become milliseconds, like every latency.
pub(super) fn latencies(case: &mut Case, stats: &Node) -> Result<(), String> {
    let mut add = |statistic: &str, seconds: Option<f64>| {
        let milliseconds = seconds.map(|seconds| seconds * 1000.0);
        case.metric(&format!("{statistic}_latency_ms"), milliseconds, Unit::Milliseconds);
    };
    add("mean", stats.number("avg_latency")?);
    for (percentile, value) in stats.at("percentiles").entries() {
        let name = if percentile == "50" {
            "median".to_owned()
        } else {
            format!("p{percentile}")
        };
        add(&name, value.as_number()?);
    }
    Ok(())
}

fn name(run: &Node) -> String {
    let mut parts = Vec::new();
    for key in SETTINGS {
        let name = if key == "max_concurrency" { "concurrency" } else { key };
        parts.extend(run.number_if_any(key).map(|value| format!("{name}={value}")));
    }
    // The number of prompts matters only if nothing else distinguishes the runs.
    if parts.len() > 1 {
        parts.retain(|part| !part.starts_with("num_prompts"));
    }
    if parts.is_empty() {
        "run".to_owned()
    } else {
        parts.join(" ")
    }
}

/// Results that a tool appended to one file, each with its own case.
pub(super) fn read_appended(file: &Node) -> Result<ComparisonInput, String> {
    let runs = file.objects()?;
    let inputs = runs.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let mut all = ComparisonInput::default();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for input in inputs {
        all.model = all.model.or(input.model);
        all.engine = all.engine.or(input.engine);
        all.simulated |= input.simulated;
        for note in input.notes {
            if !all.notes.contains(&note) {
                all.notes.push(note);
            }
        }
        for mut case in input.cases {
            let times = seen.entry(case.name.clone()).or_insert(0);
            *times += 1;
            if *times > 1 {
                case.name.push_str(&format!(" #{times}"));
            }
            all.cases.push(case);
        }
    }
    Ok(all)
}

/// Keys that may differ between runs with equal settings.
const OF_EACH: [&str; 6] = ["date", "run_number", "label", "endpoint_type", "burstiness", ""];

pub(super) fn read_sweep(file: &Node) -> Result<ComparisonInput, String> {
    let runs = file.objects()?;
    let cases: Vec<Case> = runs.iter().map(case).collect();
    let swept = swept(&runs, &cases);
    let mut groups: Vec<Vec<Case>> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut notes = BTreeSet::new();
    for (run, mut case) in runs.iter().zip(cases) {
        notes.extend(self::notes(run));
        for (key, value) in swept.iter().filter_map(|key| Some((key, setting(run, key)?))) {
            case.name.push_str(&format!(" {key}={value}"));
        }
        let index = *known.entry(case.name.clone()).or_insert(groups.len());
        match groups.get_mut(index) {
            Some(group) => group.push(case),
            None => groups.push(vec![case]),
        }
    }
    if groups.len() < runs.len() {
        notes.insert("runs of equal settings are averaged; `runs` says how many".to_owned());
    }
    let cases = groups.into_iter().map(|group| {
        let count = group.len();
        let mut mean = Case::mean(group);
        mean.metric("runs", (count > 1).then_some(count as f64), Unit::Count);
        mean
    });
    let first = runs.first();
    let engine = first.and_then(|run| run.text("backend"));
    Ok(ComparisonInput {
        model: first.and_then(|run| run.text("model_id")),
        engine: Some(engine.unwrap_or_else(|| "vllm".to_owned())),
        cases: cases.collect(),
        notes: notes.into_iter().collect(),
        simulated: runs.iter().any(|run| run.at("simulated").0 == true),
        ..ComparisonInput::default()
    })
}

fn setting(run: &Node, key: &str) -> Option<String> {
    run.entries().find(|(name, _)| *name == key)?.1.as_text()
}

/// Settings that differ between the runs, except those in every name.
fn swept(runs: &[Node], cases: &[Case]) -> BTreeSet<String> {
    let measured: BTreeSet<&str> = cases
        .iter()
        .flat_map(|case| &case.figures)
        .map(|figure| figure.name.as_str())
        .collect();
    let names: BTreeSet<&String> = runs
        .iter()
        .flat_map(|run| run.entries().map(|(name, _)| name))
        .collect();
    let excluded = |name: &str| OF_EACH.contains(&name) || SETTINGS.contains(&name) || measured.contains(name);
    let differs = |name: &&String| {
        let mut values = runs.iter().map(|run| setting(run, name));
        let first = values.next().flatten();
        values.any(|value| value != first)
    };
    let swept = names.into_iter().filter(|name| !excluded(name) && differs(name));
    swept.cloned().collect()
}
