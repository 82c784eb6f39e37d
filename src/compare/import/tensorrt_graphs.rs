//! Reads TensorRT-LLM's CUDA graph memory: torch's counters before and after an engine was built, with and
//! without graphs for requests without speculation. One file for a matrix (`experiments`, whose last element is
//! the summary), or one file per experiment.
//!
//! Its megabytes are MiB. Torch sees neither the driver's memory for instantiated graphs nor the KV pool, which
//! torch does not allocate.

use serde::Deserialize;
use serde_json::Value;

use super::source::{Shape, Source};
use super::values::{LenientNumber, MIB, bounded_list};
use crate::compare::{Case, ComparisonInput, Unit};
use crate::fault::Result;

const TOOL: &str = "the TensorRT-LLM graph profiler";

#[derive(Deserialize, Default)]
#[serde(default)]
struct Matrix {
    model_name: Option<String>,
    #[serde(deserialize_with = "bounded_list")]
    experiments: Vec<Experiment>,
    summary: Option<Summary>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Experiment {
    model_name: Option<String>,
    experiment_name: Option<String>,
    max_concurrency: LenientNumber,
    max_batch_size: LenientNumber,
    max_draft_len: LenientNumber,
    force_separate_pools: Option<bool>,
    memory_before: Counters,
    memory_after: Counters,
    memory_diff: Counters,
    creation_time_seconds: LenientNumber,
    num_cuda_graphs: LenientNumber,
    error: Option<Value>,
    /// Set only in the last element of a matrix.
    summary: Option<Summary>,
}

/// Torch's counters of the current device. Without CUDA the file has them under names without a unit.
#[derive(Clone, Copy, Deserialize, Default)]
#[serde(default)]
struct Counters {
    allocated_mb: LenientNumber,
    reserved_mb: LenientNumber,
    max_allocated_mb: LenientNumber,
}

#[derive(Clone, Copy, Deserialize, Default)]
#[serde(default)]
struct Summary {
    allocated_overhead_mb: LenientNumber,
    allocated_overhead_pct: LenientNumber,
    reserved_overhead_mb: LenientNumber,
    reserved_overhead_pct: LenientNumber,
    additional_cuda_graphs: LenientNumber,
    reserved_memory_per_graph_mb: LenientNumber,
}

pub(super) fn read(source: &Source) -> Result<ComparisonInput> {
    let matrix = matches!(&source.shape, Shape::Object(keys) if keys.contains("experiments"));
    let file = if matrix {
        source.parse(TOOL)?
    } else {
        let experiment: Experiment = source.parse(TOOL)?;
        Matrix {
            model_name: experiment.model_name.clone(),
            experiments: vec![experiment],
            summary: None,
        }
    };
    let mut input = ComparisonInput {
        model: file.model_name,
        engine: Some("tensorrt_llm".to_owned()),
        notes: vec![
            "its MB are MiB of torch's allocator on one device: what the driver keeps for graphs and the KV pool are not in them".to_owned(),
        ],
        ..ComparisonInput::default()
    };
    if matrix && file.experiments.iter().filter(|one| one.summary.is_none()).count() > 1 {
        input.notes.push(
            "unless its experiments were isolated, both ran in one process: the second begins with what the first left"
                .to_owned(),
        );
    }
    let mut summary = file.summary;
    for experiment in &file.experiments {
        if experiment.summary.is_some() {
            // The matrix repeats its summary as its last experiment.
            summary = summary.or(experiment.summary);
        } else if let Some(error) = &experiment.error {
            let name = experiment.experiment_name.as_deref().unwrap_or("an experiment");
            input.notes.push(format!("`{name}` failed: {error}"));
        } else {
            input.cases.push(case(experiment));
            if experiment.num_cuda_graphs.0 == Some(0.0) {
                input
                    .notes
                    .push("no CUDA graphs were counted: the tool says 0 also where it could not look".to_owned());
            }
        }
    }
    input.cases.extend(summary.as_ref().map(differences));
    Ok(input)
}

fn case(experiment: &Experiment) -> Case {
    let mut case = Case::new(name(experiment));
    for (stage, counters) in [
        ("before", &experiment.memory_before),
        ("after", &experiment.memory_after),
        ("added", &experiment.memory_diff),
    ] {
        for (counter, value) in [
            ("allocated", counters.allocated_mb),
            ("reserved", counters.reserved_mb),
            ("max_allocated", counters.max_allocated_mb),
        ] {
            case.metric(
                &format!("{counter}_{stage}"),
                value.0.map(|value| value * MIB),
                Unit::Bytes,
            );
        }
    }
    case.metric("cuda_graphs", experiment.num_cuda_graphs.0, Unit::Count);
    case.metric("start_time", experiment.creation_time_seconds.0, Unit::Seconds);
    case
}

/// The settings that distinguish experiments across files.
fn name(experiment: &Experiment) -> String {
    let mut parts = Vec::new();
    for (name, value) in [
        ("batch", experiment.max_batch_size),
        ("draft", experiment.max_draft_len),
        ("max_concurrency", experiment.max_concurrency),
    ] {
        match value.count() {
            Some(value) => parts.push(format!("{name}={value}")),
            None if name == "max_concurrency" => parts.push("max_concurrency=none".to_owned()),
            None => {}
        }
    }
    if let Some(separate) = experiment.force_separate_pools {
        parts.push(format!("pools={}", if separate { "separate" } else { "shared" }));
    }
    parts.join(" ")
}

fn differences(summary: &Summary) -> Case {
    let mut case = Case::new("summary");
    let mebibytes = |figure: LenientNumber| figure.0.map(|figure| figure * MIB);
    case.metric(
        "allocated_overhead",
        mebibytes(summary.allocated_overhead_mb),
        Unit::Bytes,
    );
    case.metric(
        "allocated_overhead_share",
        summary.allocated_overhead_pct.0,
        Unit::Percent,
    );
    case.metric(
        "reserved_overhead",
        mebibytes(summary.reserved_overhead_mb),
        Unit::Bytes,
    );
    case.metric(
        "reserved_overhead_share",
        summary.reserved_overhead_pct.0,
        Unit::Percent,
    );
    case.metric("additional_cuda_graphs", summary.additional_cuda_graphs.0, Unit::Count);
    case.metric(
        "reserved_for_each_graph",
        mebibytes(summary.reserved_memory_per_graph_mb),
        Unit::Bytes,
    );
    case
}
