//! Reads files of other tools into a [`ComparisonInput`], to show them and compare them with runs.
//!
//! A format is recognised by content, never by file name. It is mostly a table that maps keys to metrics and their
//! actual units (bytes, MiB, GiB or 10^9 bytes, regardless of the tool's labels). `document` opens a file and handles
//! loosely typed values. Remaining uncertainty becomes a note.

mod batch;
mod document;
mod hpml;
mod llm_sizer;
mod sizer_validation;
mod statistics;
mod sweep_folder;
mod tensorrt_graphs;
mod tgi_profiler;
mod vllm_bench;

use std::path::Path;

use document::{Document, Node};

use crate::compare::{Case, ComparisonInput, Unit};
use crate::fault::{Fault, Result};
use crate::run::{JOURNAL, MANIFEST, is_pack};

/// A format of another tool.
struct Format {
    /// The name in JSON and in messages.
    name: &'static str,
    /// A description for people.
    holds: &'static str,
    /// The form of the file.
    form: Form,
    /// The file has all keys, or columns, of one of these lists.
    keys: &'static [&'static [&'static str]],
    /// Reads the file. An error says what is wrong with it.
    read: fn(&Node) -> Result<ComparisonInput, String>,
}

/// The form of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Object,
    /// A list of objects, or a table.
    Rows,
    /// An object on each of several lines, as a tool appends results to a file.
    Lines,
}

const FORMATS: &[Format] = &[
    Format {
        name: "tgi-profiler",
        holds: "input and output lengths that tgi-profiler tried, each in a fresh TGI container, and whether they passed; no memory",
        form: Form::Object,
        keys: &[&["config", "results"]],
        read: tgi_profiler::read,
    },
    Format {
        name: "profiler batch",
        holds: "one configuration of a batch of this program: memory by component, and a load",
        form: Form::Object,
        // Before LLM-sizer's, whose keys it has too.
        keys: &[&["point", "asked", "verdict", "memory"]],
        read: batch::read,
    },
    Format {
        name: "profiler batch table",
        holds: "the configurations of a batch of this program",
        form: Form::Rows,
        keys: &[&["model_id", "input_len", "batch_size", "memory_since_start"]],
        read: batch::read_table,
    },
    Format {
        name: "llm-sizer profile",
        holds: "GPU memory of one `vllm bench latency` by component, mostly computed from formulas, with latencies (LLM-sizer schema 2 or 3)",
        form: Form::Object,
        keys: &[&["memory_breakdown", "schema_version"]],
        read: llm_sizer::read,
    },
    Format {
        name: "llm-sizer transformers profile",
        holds: "torch's memory during one `generate` of transformers, on one device (LLM-sizer's first script)",
        form: Form::Object,
        keys: &[&["memory_breakdown", "model_info", "gpu_info"]],
        read: llm_sizer::read_transformers,
    },
    Format {
        name: "llm-sizer batch CSV",
        holds: "one row for each configuration that LLM-sizer's batch driver profiled (schema 2 or 3)",
        form: Form::Rows,
        keys: &[
            &["kv_cache_allocated_gb", "model_id", "batch_size", "total_memory_gb"],
            &["kv_cache_gb", "model_id", "batch_size", "total_memory_gb"],
        ],
        read: llm_sizer::read_batch,
    },
    Format {
        name: "llm-sizer validation CSV",
        holds: "profiles of LLM-sizer beside its calculator's estimates, a row each",
        form: Form::Rows,
        keys: &[&["profile_file", "profiled_total_gb", "calculator_total_gb"]],
        read: sizer_validation::read,
    },
    Format {
        name: "hpml GPU memory",
        holds: "GPU memory over time while an engine served requests (`gpu_memory_data.json`)",
        form: Form::Object,
        keys: &[&["history_times", "history_memory_mb"]],
        read: hpml::read_memory,
    },
    Format {
        name: "hpml KV cache",
        holds: "KV cache usage over time while an engine served requests (`kv_cache_data.json`)",
        form: Form::Object,
        keys: &[&["history_times", "history_values"]],
        read: hpml::read_kv_cache,
    },
    Format {
        name: "hpml requests",
        holds: "latency and tokens of single requests, by concurrency",
        form: Form::Rows,
        keys: &[
            &["ttft_ms", "latency_ms", "throughput_tok_per_sec"],
            &["ttft_ms", "latency_ms", "aggregate_throughput_tok_per_sec"],
        ],
        read: hpml::read_requests,
    },
    Format {
        name: SGLANG,
        holds: "throughput and latency of one run of SGLang's `bench_serving`",
        form: Form::Object,
        keys: SGLANG_KEYS,
        read: vllm_bench::read,
    },
    Format {
        name: SGLANG,
        holds: "throughput and latency of runs of SGLang's `bench_serving`, a line each",
        form: Form::Lines,
        keys: SGLANG_KEYS,
        read: vllm_bench::read_appended,
    },
    Format {
        name: "vllm bench",
        holds: "throughput and latency of runs of `vllm bench serve`, a line each (`--append-result`)",
        form: Form::Lines,
        keys: &[&["request_throughput", "duration"]],
        read: vllm_bench::read_appended,
    },
    Format {
        name: "vllm bench",
        holds: "throughput and latency of one `vllm bench` run",
        form: Form::Object,
        keys: &[
            &["request_throughput", "duration"],
            &["avg_latency", "percentiles"],
            &["requests_per_second", "elapsed_time"],
        ],
        read: vllm_bench::read,
    },
    Format {
        name: SWEEP,
        holds: SWEEP_HOLDS,
        form: Form::Rows,
        keys: &[&["request_throughput", "duration"]],
        read: vllm_bench::read_sweep,
    },
    Format {
        name: AIPERF,
        holds: "throughput and latency of one run of AIPerf, or of genai-perf, which it follows",
        form: Form::Object,
        keys: &[&["request_throughput", "request_latency"]],
        read: statistics::read_aiperf,
    },
    Format {
        name: AIPERF,
        holds: "throughput and latency of one run of AIPerf or genai-perf, from its tables",
        form: Form::Rows,
        keys: &[&["Metric", "avg"]],
        read: statistics::read_aiperf_tables,
    },
    Format {
        name: "GuideLLM",
        holds: "throughput and latency of the benchmarks of a GuideLLM report",
        form: Form::Object,
        // 0.2 wrote nothing beside them.
        keys: &[&["benchmarks"]],
        read: statistics::read_guidellm,
    },
    Format {
        name: "inference-perf",
        holds: "throughput and latency of a stage, or of all, of inference-perf",
        form: Form::Object,
        keys: &[&["load_summary", "successes"]],
        read: statistics::read_inference_perf,
    },
    Format {
        name: "trtllm-bench",
        holds: "throughput and latency of one report of `trtllm-bench`",
        form: Form::Object,
        keys: &[&["engine", "performance", "request_info"]],
        read: statistics::read_trtllm,
    },
    Format {
        name: "llama-bench",
        holds: "tokens per second of prompts and of generation, by llama-bench",
        form: Form::Rows,
        keys: LLAMA_BENCH,
        read: statistics::read_llama_bench,
    },
    Format {
        name: "llama-bench",
        holds: "tokens per second of prompts and of generation, by llama-bench",
        form: Form::Lines,
        keys: LLAMA_BENCH,
        read: statistics::read_llama_bench,
    },
    Format {
        name: "TensorRT-LLM CUDA graph memory",
        holds: "torch's memory and the CUDA graphs of a TensorRT-LLM engine after its construction",
        form: Form::Object,
        keys: &[&["model_name", "experiments"], &["experiment_name", "max_concurrency"]],
        read: tensorrt_graphs::read,
    },
];

const AIPERF: &str = "AIPerf or genai-perf";
const LLAMA_BENCH: &[&[&str]] = &[&["build_commit", "n_prompt", "n_gen", "avg_ts"]];
const SGLANG: &str = "SGLang bench_serving";
/// Keys that only SGLang writes: its name of the E2E latency, and a second count of the output. The rate of input is in
/// vLLM's oldest files too.
const SGLANG_KEYS: &[&[&str]] = &[
    &["request_throughput", "duration", "mean_e2e_latency_ms"],
    &["request_throughput", "duration", "total_output_tokens_retokenized"],
];

const SWEEP: &str = "vllm bench sweep";
const SWEEP_HOLDS: &str = "throughput and latency of the runs of a `vllm bench sweep`";

/// Whether another tool wrote this file or folder: it is not a run's folder.
pub fn is_foreign(path: &Path) -> bool {
    match path.is_dir() {
        true => !path.join(MANIFEST).exists() && !path.join(JOURNAL).exists() && !sweep_folder::runs(path).is_empty(),
        false => path.is_file() && !is_pack(path),
    }
}

/// Reads a file of another tool, or the folder of a `vllm bench sweep`.
///
/// # Errors
///
/// `usage` if the format is unknown or the file is broken; the message names the place.
pub fn read(path: &Path) -> Result<ComparisonInput> {
    if path.is_dir() {
        let runs = sweep_folder::runs(path);
        let mut input = sweep_folder::read(path, &runs)?;
        input.format = SWEEP;
        input.holds = SWEEP_HOLDS;
        input.serving = input.serving_of_cases();
        return Ok(input);
    }
    let document = Document::open(path)?;
    let has = |keys: &&[&str]| keys.iter().all(|key| document.keys.iter().any(|known| known == key));
    let form = match (document.lines, document.is_object()) {
        (true, _) => Form::Lines,
        (_, true) => Form::Object,
        _ => Form::Rows,
    };
    let fits = |format: &&Format| format.form == form && format.keys.iter().any(&has);
    let format = FORMATS.iter().find(fits).ok_or_else(|| {
        let mut names: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
        names.dedup();
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
    input.serving = input.serving_of_cases();
    if document.repaired {
        input
            .notes
            .push("the file has NaN or Infinity, which JSON does not know: these values are left out".to_owned());
    }
    Ok(input)
}

/// The unit of `nvidia-smi`, and of torch's counters divided by 1024^2.
pub(super) const MIB: f64 = 1024.0 * 1024.0;
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
