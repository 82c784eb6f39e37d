//! Reads files of other tools into a [`ComparisonInput`], to show them and compare them with runs.
//!
//! A format is recognised by content, never by file name. `source` opens a file, `values` copes with loosely typed
//! JSON, and the other files know the units of each format: bytes, MiB, GiB or 10^9 bytes, whatever the tool calls
//! them. What remains uncertain becomes a note.

mod hpml_tgi;
mod llm_sizer;
mod llm_sizer_first;
mod source;
mod tensorrt_graphs;
mod tgi_profiler;
mod values;
mod vllm_bench;

use std::path::Path;

use source::{Shape, Source};

use crate::compare::ComparisonInput;
use crate::fault::{Fault, Result};

/// Reads a file of another tool.
///
/// # Errors
///
/// `usage` if the format is unknown or the file is broken; the message names the place.
pub fn read(path: &Path) -> Result<ComparisonInput> {
    let source = Source::open(path)?;
    let format = Format::detect(&source)?;
    let mut input = match format {
        Format::TgiProfiler => tgi_profiler::read(&source),
        Format::Sizer => llm_sizer::read(&source),
        Format::SizerFirst => llm_sizer_first::read(&source),
        Format::SizerBatch => llm_sizer::read_batch(&source),
        Format::VllmBench => vllm_bench::read(&source),
        Format::VllmSweep => vllm_bench::read_sweep(&source),
        Format::TensorrtGraphs => tensorrt_graphs::read(&source),
        Format::GpuMemory => hpml_tgi::read_gpu_memory(&source),
        Format::KvCache => hpml_tgi::read_kv_cache(&source),
    }?;
    input.title = path.display().to_string();
    input.format = format.name();
    input.holds = format.holds();
    if source.repaired {
        input
            .notes
            .push("the file has NaN or Infinity, which JSON does not know: these values are left out".to_owned());
    }
    Ok(input)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    TgiProfiler,
    Sizer,
    SizerFirst,
    SizerBatch,
    VllmBench,
    VllmSweep,
    TensorrtGraphs,
    GpuMemory,
    KvCache,
}

impl Format {
    const ALL: [Format; 9] = [
        Format::TgiProfiler,
        Format::Sizer,
        Format::SizerFirst,
        Format::SizerBatch,
        Format::VllmBench,
        Format::VllmSweep,
        Format::TensorrtGraphs,
        Format::GpuMemory,
        Format::KvCache,
    ];

    /// Detects the format by keys or columns.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown format.
    fn detect(source: &Source) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|format| format.fits(&source.shape));
        known.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|format| format.name()).collect();
            Fault::usage(format!(
                "the format of `{}` is unknown: {}",
                source.path.display(),
                source.shape
            ))
            .hint(format!(
                "what can be read: a run's folder, and files of {}",
                names.join(", ")
            ))
        })
    }

    /// The name in JSON.
    fn name(self) -> &'static str {
        match self {
            Format::TgiProfiler => "tgi-profiler",
            Format::Sizer => "llm-sizer profile",
            Format::SizerFirst => "llm-sizer first profile",
            Format::SizerBatch => "llm-sizer batch CSV",
            Format::VllmBench => "vllm bench",
            Format::VllmSweep => "vllm bench sweep summary",
            Format::TensorrtGraphs => "TensorRT-LLM CUDA graph memory",
            Format::GpuMemory => "gpu_memory_data",
            Format::KvCache => "kv_cache_data",
        }
    }

    /// A description for people.
    fn holds(self) -> &'static str {
        match self {
            Format::TgiProfiler => {
                "input and output lengths that tgi-profiler tried, each in a fresh TGI container, and whether they passed; no memory"
            }
            Format::Sizer => {
                "GPU memory of one `vllm bench latency` by component, mostly computed from formulas, with latencies (LLM-sizer schema 2 and 3)"
            }
            Format::SizerFirst => {
                "memory of one request by component, from torch's counters or from before and after (LLM-sizer, before its schema had a version)"
            }
            Format::SizerBatch => "one row for each configuration that LLM-sizer's batch driver profiled",
            Format::VllmBench => "throughput and latency of one `vllm bench` run",
            Format::VllmSweep => "throughput and latency of the runs of a `vllm bench sweep`",
            Format::TensorrtGraphs => {
                "torch's memory and the CUDA graphs of a TensorRT-LLM engine after its construction"
            }
            Format::GpuMemory => "GPU memory over time while TGI answered requests",
            Format::KvCache => "KV cache usage of vLLM over time",
        }
    }

    fn fits(self, shape: &Shape) -> bool {
        let all = |keys: &[&str]| keys.iter().all(|key| shape.has(key));
        match (self, shape) {
            (Format::TgiProfiler, Shape::Object(_)) => all(&["config", "results"]),
            (Format::Sizer, Shape::Object(_)) => all(&["memory_breakdown", "schema_version"]),
            (Format::SizerFirst, Shape::Object(_)) => all(&["memory_breakdown", "model_info"]),
            (Format::SizerBatch, Shape::Table(_)) => all(&["model_id", "batch_size", "total_memory_gb"]),
            (Format::VllmBench, Shape::Object(_)) => {
                all(&["request_throughput", "duration"])
                    || all(&["avg_latency", "percentiles"])
                    || all(&["requests_per_second", "elapsed_time"])
            }
            (Format::VllmSweep, Shape::Objects(_) | Shape::Table(_)) => all(&["request_throughput", "duration"]),
            (Format::TensorrtGraphs, Shape::Object(_)) => {
                all(&["model_name", "experiments"]) || all(&["experiment_name", "max_concurrency"])
            }
            (Format::GpuMemory, Shape::Object(_)) => all(&["baseline_memory_mb", "peak_memory_mb"]),
            (Format::KvCache, Shape::Object(_)) => all(&["peak_usage_percent", "history_values"]),
            _ => false,
        }
    }
}
