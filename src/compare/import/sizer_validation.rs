//! Reads LLM-sizer's `validation-results.csv`: a row for each profile, with what its calculator says of it.
//!
//! Both sides are called `gb`. The calculator counts in 10^9 bytes. A profile's total is read from the device (GiB on
//! NVIDIA), its parts are mostly formulas, and its overhead, the difference of both, is left out. `latency_ms` has seconds.

use std::collections::BTreeSet;

use super::document::Node;
use super::llm_sizer::{bytes, part};
use super::{GB, case_name};
use crate::compare::{Case, ComparisonInput, Unit};
use crate::fmt::GIB;
use crate::memory::compare::{ExternalEstimate, ModelFacts, Term, implausible};
use crate::memory::{Breakdown, Component, Provenance};

const PARTS: [(Component, &str, &str, Term); 3] = [
    (Component::Weights, "model_weights", "weights", Term::Weights),
    (Component::KvUsed, "kv_cache_used", "kv", Term::Kv),
    (Component::Activations, "activations", "activations", Term::Activations),
];

const SETTINGS: [(&str, &str); 4] = [
    ("gpus", "gpus"),
    ("input", "input_len"),
    ("output", "output_len"),
    ("batch", "batch"),
];

pub(super) fn read(file: &Node) -> Result<ComparisonInput, String> {
    let rows = file.objects()?;
    let models: BTreeSet<String> = rows.iter().filter_map(|row| row.chosen("model_name")).collect();
    let mut cases = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let case = case(row, models.len() > 1).map_err(|what| format!("row {}: {what}", index + 1))?;
        cases.push(case);
    }
    Ok(ComparisonInput {
        model: (models.len() == 1).then(|| models.into_iter().collect()),
        engine: Some("vllm".to_owned()),
        cases,
        notes: vec![
            "the total of a profile is taken as GiB, as it is on NVIDIA, its parts and the calculator's figures as 10^9 bytes; all are called gb, and compared there as they are"
                .to_owned(),
            "`profiler compare` with this file alone holds the calculator against the profiles".to_owned(),
            "where the profile said no number of parameters, it is derived from its weights".to_owned(),
        ],
        ..ComparisonInput::default()
    })
}

fn case(row: &Node, several: bool) -> Result<Case, String> {
    let gb = |column: &str, unit: f64| row.number(column).map(|figure| bytes(figure, unit));
    let model = row.chosen("model_name").filter(|_| several);
    let settings = case_name(row, &SETTINGS)?;
    let mut case = Case::new([model.clone().unwrap_or_default(), settings].join(" ").trim());
    case.model = model;
    let count = |column: &str| row.count(column);
    case.facts = ModelFacts {
        parameters: row
            .number("params_b")?
            .filter(|billions| *billions > 0.0)
            .map(|billions| billions * 1e9),
        weight_dtype: row.chosen("dtype"),
        tensor_parallel: count("gpus")?,
        input: count("input_len")?,
        output: count("output_len")?,
        concurrency: count("batch")?,
        ..ModelFacts::default()
    }
    .counted();
    let mut said = ExternalEstimate {
        by: "LLM-sizer's calculator".to_owned(),
        facts: case.facts.clone(),
        ..ExternalEstimate::default()
    };
    let mut say = |term, bytes: Option<i64>| said.figures.extend(bytes.map(|bytes| (term, bytes)));
    let total = gb("profiled_total_gb", GIB)?;
    case.metric("total_measured", total.map(|total| total as f64), Unit::Bytes);
    let mut parts = Vec::new();
    for (component, name, column, term) in PARTS {
        if let Some(bytes) = gb(&format!("profiled_{column}_gb"), GB)? {
            case.metric(name, Some(bytes as f64), Unit::Bytes);
            let source = "the profile: its formula, or vLLM's log";
            parts.push(part(component, bytes, Provenance::Computed, source));
        }
        say(term, gb(&format!("calculator_{column}_gb"), GB)?);
    }
    say(Term::Overhead, gb("calculator_overhead_gb", GB)?);
    let calculated = gb("calculator_total_gb", GB)?;
    say(Term::Total, calculated);
    case.metric("calculator_total", calculated.map(|total| total as f64), Unit::Bytes);
    let seconds = row.number("latency_ms")?;
    case.metric(
        "mean_latency_ms",
        seconds.map(|seconds| seconds * 1000.0),
        Unit::Milliseconds,
    );
    if let Some(total) = total.and_then(|total| u64::try_from(total).ok()) {
        case.breakdown = Some(Breakdown::new(None, total, parts).map_err(|fault| fault.message)?);
    }
    case.implausible = implausible(case.breakdown.as_ref(), &case.facts);
    said.figures.sort_by_key(|(term, _)| *term);
    case.claim = Some(said);
    Ok(case)
}
