//! Prometheus metrics with each engine's own names, and SGLang's information pages.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

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
    let finished = |reason: &str, requests: u64| {
        let labels = format!("{{engine=\"0\",finished_reason=\"{reason}\",model_name=\"{model}\"}}");
        ("vllm:request_success_total", "counter", labels, requests as f64)
    };
    let counters = snapshot.counters;
    let (blocks, block) = core.blocks.unwrap_or_default();
    let tokens = core.kv_tokens.unwrap_or_default();
    let config = format!(
        "{{block_size=\"{block}\",cache_dtype=\"{}\",engine=\"0\",gpu_memory_utilization=\"{}\",\
         kv_cache_size_tokens=\"{tokens}\",num_gpu_blocks=\"{blocks}\"}}",
        if core.setup.fp8 { "fp8" } else { "auto" },
        core.setup.utilization,
    );
    let gauge = |name, value: f64| (name, "gauge", labels.clone(), value);
    let counter = |name, value: f64| (name, "counter", labels.clone(), value);
    vec![
        gauge("vllm:num_requests_running", snapshot.running as f64),
        gauge("vllm:num_requests_waiting", snapshot.waiting as f64),
        gauge("vllm:kv_cache_usage_perc", snapshot.usage.unwrap_or(0.0)),
        counter("vllm:num_preemptions_total", counters.preemptions as f64),
        counter("vllm:prefix_cache_queries_total", snapshot.prefixes.0 as f64),
        counter("vllm:prefix_cache_hits_total", snapshot.prefixes.1 as f64),
        counter("vllm:prompt_tokens_total", counters.prompt_tokens as f64),
        counter("vllm:generation_tokens_total", counters.generated_tokens as f64),
        finished("length", counters.finished),
        finished("abort", counters.cancelled),
        finished("error", counters.failed),
        ("vllm:cache_config_info", "gauge", config, 1.0),
    ]
}

fn sglang(core: &EngineCore, snapshot: &Snapshot) -> Vec<Sample> {
    let model = core.setup.model.replace(['"', '\\', '\n'], "_");
    let labels = format!("{{model_name=\"{model}\",tp_rank=\"0\"}}");
    let counters = snapshot.counters;
    let used = snapshot.usage.unwrap_or_default();
    let tokens = core.kv_tokens.unwrap_or_default() as f64;
    let gauge = |name, value: f64| (name, "gauge", labels.clone(), value);
    let counter = |name, value: f64| (name, "counter", labels.clone(), value);
    vec![
        gauge("sglang:num_running_reqs", snapshot.running as f64),
        gauge("sglang:num_queue_reqs", snapshot.waiting as f64),
        gauge("sglang:token_usage", used),
        gauge("sglang:num_used_tokens", (used * tokens).round()),
        gauge("sglang:max_total_num_tokens", tokens),
        counter("sglang:num_retracted_requests_total", counters.preemptions as f64),
        counter("sglang:prompt_tokens_total", counters.prompt_tokens as f64),
        counter("sglang:cached_tokens_total", snapshot.prefixes.1 as f64),
        counter(
            "sglang:num_requests_total",
            (counters.finished + counters.cancelled + counters.failed) as f64,
        ),
        counter("sglang:num_aborted_requests_total", counters.cancelled as f64),
        counter("sglang:generation_tokens_total", counters.generated_tokens as f64),
    ]
}

fn tgi(core: &EngineCore, snapshot: &Snapshot) -> Vec<Sample> {
    let counters = snapshot.counters;
    let gauge = |name, value: f64| (name, "gauge", String::new(), value);
    let counter = |name, value: f64| (name, "counter", String::new(), value);
    vec![
        gauge("tgi_queue_size", snapshot.waiting as f64),
        gauge("tgi_batch_current_size", snapshot.running as f64),
        gauge("tgi_batch_max_total_tokens", core.kv_tokens.unwrap_or_default() as f64),
        counter("tgi_request_count", counters.submitted as f64),
        counter("tgi_request_success", counters.finished as f64),
        counter("tgi_request_failure", counters.failed as f64),
        // Sums of its histograms.
        counter("tgi_request_input_length_sum", counters.finished_tokens.0 as f64),
        counter("tgi_request_generated_tokens_sum", counters.finished_tokens.1 as f64),
        counter("tgi_request_skipped_tokens_sum", 0.0),
    ]
}

fn llamacpp(snapshot: &Snapshot) -> Vec<Sample> {
    let counters = snapshot.counters;
    let gauge = |name, value: f64| (name, "gauge", String::new(), value);
    let counter = |name, value: f64| (name, "counter", String::new(), value);
    vec![
        gauge("llamacpp:requests_processing", snapshot.running as f64),
        gauge("llamacpp:requests_deferred", snapshot.waiting as f64),
        counter("llamacpp:prompt_tokens_total", counters.prompt_tokens as f64),
        counter("llamacpp:prompt_tokens_cached_total", 0.0),
        counter("llamacpp:tokens_predicted_total", counters.generated_tokens as f64),
        counter("llamacpp:n_decode_total", counters.steps as f64),
    ]
}

pub(super) fn sglang_routes() -> Router<Arc<EngineCore>> {
    Router::new()
        .route("/health", get(|| async { StatusCode::OK }))
        .route("/ready", get(|| async { StatusCode::OK }))
        .route("/server_info", get(server_info))
        .route("/get_server_info", get(server_info))
        .route(
            "/metrics",
            get(|State(core): State<Arc<EngineCore>>| async move { page(&core) }),
        )
}

async fn server_info(State(core): State<Arc<EngineCore>>) -> Response {
    let sizes = core.sizes.unwrap_or_default();
    let gib = |bytes: u64| (bytes as f64 / 1_073_741_824.0 * 1000.0).round() / 1000.0;
    Json(json!({
        "version": core.setup.version(),
        "model_path": core.setup.model,
        "context_length": core.max_total,
        "internal_states": [{
            "memory_usage": {
                "weight": gib(sizes.weights), "kvcache": gib(sizes.kv), "token_capacity": core.kv_tokens,
                "graph": { "decode": gib(sizes.graphs), "prefill": 0.0 },
            },
        }],
    }))
    .into_response()
}
