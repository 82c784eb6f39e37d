//! SGLang's own routes: readiness and memory information. Completions use the OpenAI routes.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

use super::metrics;
use crate::sim::engine_core::EngineCore;

pub(super) fn routes() -> Router<Arc<EngineCore>> {
    Router::new()
        .route("/health", get(|| async { StatusCode::OK }))
        .route("/ready", get(|| async { StatusCode::OK }))
        .route("/server_info", get(server_info))
        .route("/get_server_info", get(server_info))
        .route(
            "/metrics",
            get(|State(core): State<Arc<EngineCore>>| async move { metrics::page(&core) }),
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
