//! TensorRT-LLM's CUDA graph memory: torch's counters before and after an engine was built, with and without graphs for requests that
//! do not speculate. One file of a matrix (`experiments`, whose last element is the summary), or one file for each experiment.
//!
//! Its megabytes are MiB. Torch sees neither what the driver keeps for instantiated graphs nor the KV pool, which is not torch's.

use serde::Deserialize;
use serde_json::Value;

use super::loose::{Loose, few};
use super::source::{Shape, Source};
use super::units::MIB;
use crate::compare::ComparisonInput;
use crate::compare::{Case, Unit};
use crate::fault::Result;

const TOOL: &str = "the TensorRT-LLM graph profiler";

#[derive(Deserialize, Default)]
#[serde(default)]
struct Matrix {
    model_name: Option<String>,
    #[serde(deserialize_with = "few")]
    experiments: Vec<Experiment>,
    summary: Option<Summary>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Experiment {
    model_name: Option<String>,
    experiment_name: Option<String>,
    max_concurrency: Loose,
    max_batch_size: Loose,
    max_draft_len: Loose,
    force_separate_pools: Option<bool>,
    memory_before: Counters,
    memory_after: Counters,
    memory_diff: Counters,
    creation_time_seconds: Loose,
    num_cuda_graphs: Loose,
    error: Option<Value>,
    /// The third element of a matrix is this alone.
    summary: Option<Summary>,
}

/// Torch's counters of the current device. The names without a unit stand where there was no CUDA.
#[derive(Clone, Copy, Deserialize, Default)]
#[serde(default)]
struct Counters {
    allocated_mb: Loose,
    reserved_mb: Loose,
    max_allocated_mb: Loose,
}

#[derive(Clone, Copy, Deserialize, Default)]
#[serde(default)]
struct Summary {
    allocated_overhead_mb: Loose,
    allocated_overhead_pct: Loose,
    reserved_overhead_mb: Loose,
    reserved_overhead_pct: Loose,
    additional_cuda_graphs: Loose,
    reserved_memory_per_graph_mb: Loose,
}

/// Reads it.
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
    let mut subject = ComparisonInput {
        model: file.model_name,
        engine: Some("tensorrt_llm".to_owned()),
        notes: vec![
            "its MB are MiB of torch's allocator on one device: what the driver keeps for graphs and the KV pool are not in them".to_owned(),
        ],
        ..ComparisonInput::default()
    };
    if matrix && file.experiments.iter().filter(|one| one.summary.is_none()).count() > 1 {
        subject.notes.push(
            "unless its experiments were isolated, both ran in one process: the second begins with what the first left"
                .to_owned(),
        );
    }
    let mut summary = file.summary;
    for experiment in &file.experiments {
        if experiment.summary.is_some() {
            // Repeated as the last experiment.
            summary = summary.or(experiment.summary);
        } else if let Some(error) = &experiment.error {
            let name = experiment.experiment_name.as_deref().unwrap_or("an experiment");
            subject.notes.push(format!("`{name}` failed: {error}"));
        } else {
            subject.cases.push(case(experiment));
            if experiment.num_cuda_graphs.0 == Some(0.0) {
                subject
                    .notes
                    .push("no CUDA graphs were counted: the tool says 0 also where it could not look".to_owned());
            }
        }
    }
    subject.cases.extend(summary.as_ref().map(differences));
    Ok(subject)
}

fn case(experiment: &Experiment) -> Case {
    let mut case = Case::named(name(experiment));
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
            case.figure(
                &format!("{counter}_{stage}"),
                value.0.map(|value| value * MIB),
                Unit::Bytes,
            );
        }
    }
    case.figure("cuda_graphs", experiment.num_cuda_graphs.0, Unit::Count);
    case.figure("start_time", experiment.creation_time_seconds.0, Unit::Seconds);
    case
}

/// The settings that tell the experiments of all files apart.
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
    let mut case = Case::named("summary");
    let mebibytes = |figure: Loose| figure.0.map(|figure| figure * MIB);
    case.figure(
        "allocated_overhead",
        mebibytes(summary.allocated_overhead_mb),
        Unit::Bytes,
    );
    case.figure(
        "allocated_overhead_share",
        summary.allocated_overhead_pct.0,
        Unit::Percent,
    );
    case.figure(
        "reserved_overhead",
        mebibytes(summary.reserved_overhead_mb),
        Unit::Bytes,
    );
    case.figure(
        "reserved_overhead_share",
        summary.reserved_overhead_pct.0,
        Unit::Percent,
    );
    case.figure("additional_cuda_graphs", summary.additional_cuda_graphs.0, Unit::Count);
    case.figure(
        "reserved_for_each_graph",
        mebibytes(summary.reserved_memory_per_graph_mb),
        Unit::Bytes,
    );
    case
}
