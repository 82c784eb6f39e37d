//! Prometheus metrics, with each engine's own names.

use std::fmt::Write as _;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::sim::engine_core::{EngineCore, Snapshot};
use crate::sim::profile::Engine;

/// Name, type, labels, value.
type Sample = (&'static str, &'static str, String, f64);

pub(super) fn page(core: &EngineCore) -> Response {
    let snapshot = core.snapshot();
    let samples = match core.setup.profile.engine {
        // TensorRT-LLM has no such page; no route leads here.
        Engine::Vllm | Engine::Transformers | Engine::TensorrtLlm => vllm(core, &snapshot),
        Engine::Sglang => sglang(core, &snapshot),
        Engine::Tgi => tgi(core, &snapshot),
        // Ollama has no such page; no route leads here.
        Engine::Llamacpp | Engine::Ollama => llamacpp(&snapshot),
    };
    let mut text = String::from("# SIMULATED\n");
    let mut named = "";
    for (name, kind, labels, value) in samples {
        if name != named {
            named = name;
            let _ = writeln!(text, "# TYPE {name} {kind}");
        }
        let _ = writeln!(text, "{name}{labels} {value:?}");
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

fn vllm(core: &EngineCore, snapshot: &Snapshot) -> Vec<Sample> {
    let model = core.setup.model.replace(['"', '\\', '\n'], "_");
    let labels = format!("{{engine=\"0\",model_name=\"{model}\"}}");
    let finished = |reason: &str| format!("{{engine=\"0\",finished_reason=\"{reason}\",model_name=\"{model}\"}}");
    let counters = snapshot.counters;
    let (blocks, block) = core.blocks.unwrap_or_default();
    let tokens = core.kv_tokens.unwrap_or_default();
    let config = format!(
        "{{block_size=\"{block}\",cache_dtype=\"{}\",engine=\"0\",gpu_memory_utilization=\"{}\",\
         kv_cache_size_tokens=\"{tokens}\",num_gpu_blocks=\"{blocks}\"}}",
        if core.setup.fp8 { "fp8" } else { "auto" },
        core.setup.utilization,
    );
    vec![
        (
            "vllm:num_requests_running",
            "gauge",
            labels.clone(),
            snapshot.running as f64,
        ),
        (
            "vllm:num_requests_waiting",
            "gauge",
            labels.clone(),
            snapshot.waiting as f64,
        ),
        (
            "vllm:kv_cache_usage_perc",
            "gauge",
            labels.clone(),
            snapshot.usage.unwrap_or(0.0),
        ),
        (
            "vllm:num_preemptions_total",
            "counter",
            labels.clone(),
            counters.preemptions as f64,
        ),
        (
            "vllm:prefix_cache_queries_total",
            "counter",
            labels.clone(),
            snapshot.prefixes.0 as f64,
        ),
        (
            "vllm:prefix_cache_hits_total",
            "counter",
            labels.clone(),
            snapshot.prefixes.1 as f64,
        ),
        (
            "vllm:prompt_tokens_total",
            "counter",
            labels.clone(),
            counters.prompt_tokens as f64,
        ),
        (
            "vllm:generation_tokens_total",
            "counter",
            labels,
            counters.generated_tokens as f64,
        ),
        (
            "vllm:request_success_total",
            "counter",
            finished("length"),
            counters.finished as f64,
        ),
        (
            "vllm:request_success_total",
            "counter",
            finished("abort"),
            counters.cancelled as f64,
        ),
        (
            "vllm:request_success_total",
            "counter",
            finished("error"),
            counters.failed as f64,
        ),
        ("vllm:cache_config_info", "gauge", config, 1.0),
    ]
}

fn sglang(core: &EngineCore, snapshot: &Snapshot) -> Vec<Sample> {
    let model = core.setup.model.replace(['"', '\\', '\n'], "_");
    let labels = || format!("{{model_name=\"{model}\",tp_rank=\"0\"}}");
    let counters = snapshot.counters;
    let used = snapshot.usage.unwrap_or_default();
    let tokens = core.kv_tokens.unwrap_or_default() as f64;
    vec![
        ("sglang:num_running_reqs", "gauge", labels(), snapshot.running as f64),
        ("sglang:num_queue_reqs", "gauge", labels(), snapshot.waiting as f64),
        ("sglang:token_usage", "gauge", labels(), used),
        ("sglang:num_used_tokens", "gauge", labels(), (used * tokens).round()),
        ("sglang:max_total_num_tokens", "gauge", labels(), tokens),
        (
            "sglang:num_retracted_requests_total",
            "counter",
            labels(),
            counters.preemptions as f64,
        ),
        (
            "sglang:prompt_tokens_total",
            "counter",
            labels(),
            counters.prompt_tokens as f64,
        ),
        (
            "sglang:cached_tokens_total",
            "counter",
            labels(),
            snapshot.prefixes.1 as f64,
        ),
        (
            "sglang:num_requests_total",
            "counter",
            labels(),
            (counters.finished + counters.cancelled + counters.failed) as f64,
        ),
        (
            "sglang:num_aborted_requests_total",
            "counter",
            labels(),
            counters.cancelled as f64,
        ),
        (
            "sglang:generation_tokens_total",
            "counter",
            labels(),
            counters.generated_tokens as f64,
        ),
    ]
}

fn tgi(core: &EngineCore, snapshot: &Snapshot) -> Vec<Sample> {
    let none = String::new;
    let counters = snapshot.counters;
    vec![
        ("tgi_queue_size", "gauge", none(), snapshot.waiting as f64),
        ("tgi_batch_current_size", "gauge", none(), snapshot.running as f64),
        (
            "tgi_batch_max_total_tokens",
            "gauge",
            none(),
            core.kv_tokens.unwrap_or_default() as f64,
        ),
        ("tgi_request_count", "counter", none(), counters.submitted as f64),
        ("tgi_request_success", "counter", none(), counters.finished as f64),
        ("tgi_request_failure", "counter", none(), counters.failed as f64),
        // Sums of its histograms.
        (
            "tgi_request_input_length_sum",
            "counter",
            none(),
            counters.finished_tokens.0 as f64,
        ),
        (
            "tgi_request_generated_tokens_sum",
            "counter",
            none(),
            counters.finished_tokens.1 as f64,
        ),
        ("tgi_request_skipped_tokens_sum", "counter", none(), 0.0),
    ]
}

fn llamacpp(snapshot: &Snapshot) -> Vec<Sample> {
    let none = String::new;
    let counters = snapshot.counters;
    vec![
        ("llamacpp:requests_processing", "gauge", none(), snapshot.running as f64),
        ("llamacpp:requests_deferred", "gauge", none(), snapshot.waiting as f64),
        (
            "llamacpp:prompt_tokens_total",
            "counter",
            none(),
            counters.prompt_tokens as f64,
        ),
        ("llamacpp:prompt_tokens_cached_total", "counter", none(), 0.0),
        (
            "llamacpp:tokens_predicted_total",
            "counter",
            none(),
            counters.generated_tokens as f64,
        ),
        ("llamacpp:n_decode_total", "counter", none(), counters.steps as f64),
    ]
}
