//! Reads TensorRT-LLM's CUDA graph memory: torch's counters before and after an engine was built, with and without
//! graphs for requests without speculation. The file holds a matrix (`experiments`, whose last element is the summary)
//! or one experiment.
//!
//! Its megabytes are MiB. Torch sees neither the driver's memory for instantiated graphs nor the KV pool, which torch
//! does not allocate.
//!
//! The script `cuda_graphs` writes the layout too: its keys `device_*` are the device's memory beside the KV cache, and
//! torch's counters are null.

use super::document::Node;
use super::{MIB, Pick, case_name, pick};
use crate::compare::{Case, ComparisonInput, Unit};

/// Torch's counters of the current device, at each of [`MOMENTS`]. Without CUDA, their names in the file have no unit.
const COUNTERS: [&str; 3] = ["allocated", "reserved", "max_allocated"];

/// Suffixes of our names, and the objects of the file.
const MOMENTS: [(&str, &str); 3] = [
    ("before", "memory_before"),
    ("after", "memory_after"),
    ("added", "memory_diff"),
];

const EXPERIMENT: &[Pick] = &[
    ("cuda_graphs", "num_cuda_graphs", 1.0, Unit::Count),
    ("start_time", "creation_time_seconds", 1.0, Unit::Seconds),
    ("memory_beside_kv", DEVICE, MIB, Unit::Bytes),
];

/// The device's memory beside the KV cache, MiB.
const DEVICE: &str = "memory_diff.device_mb";

const SUMMARY: &[Pick] = &[
    ("overhead", "device_overhead_mb", MIB, Unit::Bytes),
    ("overhead_share", "device_overhead_pct", 1.0, Unit::Percent),
    ("allocated_overhead", "allocated_overhead_mb", MIB, Unit::Bytes),
    ("allocated_overhead_share", "allocated_overhead_pct", 1.0, Unit::Percent),
    ("reserved_overhead", "reserved_overhead_mb", MIB, Unit::Bytes),
    ("reserved_overhead_share", "reserved_overhead_pct", 1.0, Unit::Percent),
    ("additional_cuda_graphs", "additional_cuda_graphs", 1.0, Unit::Count),
    (
        "reserved_for_each_graph",
        "reserved_memory_per_graph_mb",
        MIB,
        Unit::Bytes,
    ),
];

pub(super) fn read(file: &Node) -> Result<ComparisonInput, String> {
    let experiments = match file.at("experiments") {
        matrix if matrix.is_null() => vec![*file],
        matrix => matrix.objects()?,
    };
    let mut input = ComparisonInput {
        model: file.text("model_name"),
        engine: Some("tensorrt_llm".to_owned()),
        ..ComparisonInput::default()
    };
    let summarizes = |node: &Node| node.at("summary").0.is_object();
    // A file of this program: each setting was started several times.
    let ours = experiments.iter().any(|one| !one.at(DEVICE).is_null());
    input.notes.push(
        if ours {
            "its MB are MiB of the device, of the starts' means, beside the KV cache; torch's counters were not measured"
        } else {
            "its MB are MiB of torch's allocator on one device: what the driver keeps for graphs and the KV pool are not in them"
        }
        .to_owned(),
    );
    if !ours && experiments.iter().filter(|one| !summarizes(one)).count() > 1 {
        let note =
            "unless its experiments were isolated, both ran in one process: the second begins with what the first left";
        input.notes.push(note.to_owned());
    }
    // A matrix repeats its summary as its last experiment.
    let summary = std::iter::once(file).chain(&experiments).find(|node| summarizes(node));
    for experiment in experiments.iter().filter(|one| !summarizes(one)) {
        if !experiment.at("error").is_null() {
            let name = experiment
                .text("experiment_name")
                .unwrap_or_else(|| "an experiment".to_owned());
            let error = experiment
                .text("error")
                .unwrap_or_else(|| "without a message".to_owned());
            input.notes.push(format!("`{name}` failed: \"{error}\""));
            continue;
        }
        let mut case = Case::new(name(experiment)?);
        for (end, object) in MOMENTS {
            for counter in COUNTERS {
                let bytes = experiment
                    .number(&format!("{object}.{counter}_mb"))?
                    .map(|value| value * MIB);
                case.metric(&format!("{counter}_{end}"), bytes, Unit::Bytes);
            }
        }
        pick(&mut case, experiment, EXPERIMENT)?;
        input.cases.push(case);
        if !ours && experiment.number("num_cuda_graphs")? == Some(0.0) {
            let doubt = "no CUDA graphs were counted: the tool says 0 also where it could not look";
            input.notes.push(doubt.to_owned());
        }
    }
    if let Some(node) = summary {
        let mut case = Case::new("summary");
        pick(&mut case, &node.at("summary"), SUMMARY)?;
        input.cases.push(case);
    }
    Ok(input)
}

/// The settings that distinguish experiments across files.
fn name(experiment: &Node) -> Result<String, String> {
    let settings = [
        ("batch", "max_batch_size"),
        ("draft", "max_draft_len"),
        ("max_concurrency", "max_concurrency"),
    ];
    let mut name = case_name(experiment, &settings)?;
    if experiment.count("max_concurrency")?.is_none() {
        name.push_str(" max_concurrency=none");
    }
    if let Some(separate) = experiment.at("force_separate_pools").0.as_bool() {
        name.push_str(if separate { " pools=separate" } else { " pools=shared" });
    }
    Ok(name.trim_start().to_owned())
}
