//! SGLang's own routes: whether it is ready, and what it tells of its memory. Completions are OpenAI's.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

use super::metrics;
use crate::sim::service::Service;

/// SGLang's own routes.
pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/health", get(|| async { StatusCode::OK }))
        .route("/ready", get(|| async { StatusCode::OK }))
        .route("/server_info", get(server_info))
        .route("/get_server_info", get(server_info))
        .route(
            "/metrics",
            get(|State(service): State<Arc<Service>>| async move { metrics::page(&service) }),
        )
}

async fn server_info(State(service): State<Arc<Service>>) -> Response {
    let sizes = service.sizes.unwrap_or_default();
    let gib = |bytes: u64| (bytes as f64 / 1_073_741_824.0 * 1000.0).round() / 1000.0;
    Json(json!({
        "version": service.setup.version(),
        "model_path": service.setup.model,
        "context_length": service.max_total,
        "internal_states": [{
            "memory_usage": {
                "weight": gib(sizes.weights), "kvcache": gib(sizes.kv), "token_capacity": service.kv_tokens,
                "graph": { "decode": gib(sizes.graphs), "prefill": 0.0 },
            },
        }],
    }))
    .into_response()
}
