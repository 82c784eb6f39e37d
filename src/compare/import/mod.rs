//! Reads files of other tools into a [`ComparisonInput`], to show them and compare them with runs.
//!
//! A format is recognised by content, never by file name. It is mostly a table that maps keys to metrics and their
//! actual units (bytes, MiB, GiB or 10^9 bytes, regardless of the tool's labels). `document` opens a file and handles
//! loosely typed values. Remaining uncertainty becomes a note.

mod document;
mod llm_sizer;
mod tensorrt_graphs;
mod tgi_profiler;
mod vllm_bench;

use std::path::Path;

use document::{Document, Node};

use crate::compare::{Case, ComparisonInput, Unit};
use crate::fault::{Fault, Result};

/// A format of another tool.
struct Format {
    /// The name in JSON and in messages.
    name: &'static str,
    /// A description for people.
    holds: &'static str,
    /// Whether the file is a list of objects or a table, not one object.
    rows: bool,
    /// The file has all keys, or columns, of one of these lists.
    keys: &'static [&'static [&'static str]],
    /// Reads the file. An error says what is wrong with it.
    read: fn(&Node) -> Result<ComparisonInput, String>,
}

const FORMATS: &[Format] = &[
    Format {
        name: "tgi-profiler",
        holds: "input and output lengths that tgi-profiler tried, each in a fresh TGI container, and whether they passed; no memory",
        rows: false,
        keys: &[&["config", "results"]],
        read: tgi_profiler::read,
    },
    Format {
        name: "llm-sizer profile (schema 3)",
        holds: "GPU memory of one `vllm bench latency` by component, mostly computed from formulas, with latencies (LLM-sizer schema 3)",
        rows: false,
        keys: &[&["memory_breakdown", "schema_version"]],
        read: llm_sizer::read,
    },
    Format {
        name: "llm-sizer batch CSV (schema 3)",
        holds: "one row for each configuration that LLM-sizer's batch driver profiled",
        rows: true,
        // The first key is missing from schema 2, where other keys have other meanings.
        keys: &[&["kv_cache_allocated_gb", "model_id", "batch_size", "total_memory_gb"]],
        read: llm_sizer::read_batch,
    },
    Format {
        name: "vllm bench",
        holds: "throughput and latency of one `vllm bench` run",
        rows: false,
        keys: &[
            &["request_throughput", "duration"],
            &["avg_latency", "percentiles"],
            &["requests_per_second", "elapsed_time"],
        ],
        read: vllm_bench::read,
    },
    Format {
        name: "vllm bench sweep summary",
        holds: "throughput and latency of the runs of a `vllm bench sweep`",
        rows: true,
        keys: &[&["request_throughput", "duration"]],
        read: vllm_bench::read_sweep,
    },
    Format {
        name: "TensorRT-LLM CUDA graph memory",
        holds: "torch's memory and the CUDA graphs of a TensorRT-LLM engine after its construction",
        rows: false,
        keys: &[&["model_name", "experiments"], &["experiment_name", "max_concurrency"]],
        read: tensorrt_graphs::read,
    },
];

/// Reads a file of another tool.
///
/// # Errors
///
/// `usage` if the format is unknown or the file is broken; the message names the place.
pub fn read(path: &Path) -> Result<ComparisonInput> {
    let document = Document::open(path)?;
    let has = |keys: &&[&str]| keys.iter().all(|key| document.keys.iter().any(|known| known == key));
    let fits = |format: &&Format| format.rows != document.is_object() && format.keys.iter().any(&has);
    let format = FORMATS.iter().find(fits).ok_or_else(|| {
        let names: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
        Fault::usage(format!(
            "the format of `{}` is unknown: {document}",
            document.path.display()
        ))
        .hint(format!(
            "what can be read: a run's folder, and files of {}",
            names.join(", ")
        ))
    })?;
    let root = document.root.as_ref().map_err(Clone::clone);
    let mut input = root.and_then(|root| (format.read)(&Node(root))).map_err(|what| {
        let (path, name) = (document.path.display(), format.name);
        Fault::usage(format!("`{path}` looks like a file of {name}, but {what}"))
            .hint("it was edited or cut off: write it again with the tool that it is from, or take that entry out")
    })?;
    input.title = path.display().to_string();
    input.format = format.name;
    input.holds = format.holds;
    if document.repaired {
        input
            .notes
            .push("the file has NaN or Infinity, which JSON does not know: these values are left out".to_owned());
    }
    Ok(input)
}

/// The unit of `nvidia-smi`, and of torch's counters divided by 1024^2.
const MIB: f64 = 1024.0 * 1024.0;
const GB: f64 = 1e9;

/// A metric: its name, the path of its number in the file, and the factor that converts it to the unit.
type Pick = (&'static str, &'static str, f64, Unit);

/// Adds the metrics that the file has.
fn pick(case: &mut Case, node: &Node, picks: &[Pick]) -> Result<(), String> {
    for (name, path, factor, unit) in picks {
        case.metric(name, node.number(path)?.map(|value| value * factor), *unit);
    }
    Ok(())
}

/// The settings that name a case: `input=256 batch=8`. Each is a name and the path of its number.
fn case_name(node: &Node, settings: &[(&str, &str)]) -> Result<String, String> {
    let mut parts = Vec::new();
    for (name, path) in settings {
        parts.extend(node.count(path)?.map(|value| format!("{name}={value}")));
    }
    Ok(parts.join(" "))
}
