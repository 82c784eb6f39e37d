//! What TensorRT-LLM does in its own way: metrics as JSON that each read empties, fields that it refuses, and streams that just end.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::de::IgnoredAny;
use serde_json::json;

use super::refusal::Refusal;
use crate::sim::prefixes::BLOCK;
use crate::sim::profile::Engine;
use crate::sim::service::Service;
use crate::sim::start::{Head, Line};

/// Fields of a completion that it knows.
const KNOWN: [&str; 19] = [
    "model",
    "prompt",
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "ignore_eos",
    "detokenize",
    "add_special_tokens",
    "stop",
    "stop_token_ids",
    "temperature",
    "top_k",
    "top_p",
    "seed",
    "n",
    "stream",
    "stream_options",
    "logprobs",
];

/// TensorRT-LLM's own routes.
pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/health", get(|| async { StatusCode::OK }))
        .route("/metrics", get(metrics))
}

/// A record of the last iteration, where there was one since the last look.
async fn metrics(State(service): State<Arc<Service>>) -> Response {
    let snapshot = service.snapshot();
    if !service.moved(snapshot.counters.steps) {
        return Json(json!([])).into_response();
    }
    let (blocks, tokens) = service.blocks.unwrap_or_default();
    let blocks_of = |(queries, hits): (u64, u64)| (hits / BLOCK, (queries - hits).div_ceil(BLOCK));
    let (reused, missed) = blocks_of(snapshot.prefixes);
    let used = (snapshot.usage.unwrap_or_default() * blocks as f64).round() as u64;
    Json(json!([{
        "iter": snapshot.counters.steps,
        "numActiveRequests": snapshot.running,
        "numQueuedRequests": snapshot.waiting,
        "kvCacheStats": {
            "maxNumBlocks": blocks, "freeNumBlocks": blocks - used, "usedNumBlocks": used, "tokensPerBlock": tokens,
            "reusedBlocks": reused, "missedBlocks": missed,
        },
        "inflightBatchingStats": { "numScheduledRequests": snapshot.running, "numPausedRequests": 0 },
    }]))
    .into_response()
}

/// A field that it does not know is refused. What is no JSON is left to whoever reads it.
pub(super) fn check_fields(body: &[u8]) -> Result<(), Refusal> {
    let fields: BTreeMap<String, IgnoredAny> = serde_json::from_slice(body).unwrap_or_default();
    let unknown = fields.keys().find(|name| !KNOWN.contains(&name.as_str()));
    unknown.map_or(Ok(()), |name| {
        let message = format!(
            "[{{'type': 'extra_forbidden', 'loc': ('body', '{name}'), 'msg': 'Extra inputs are not permitted'}}]"
        );
        Err(Refusal::bad(Engine::TensorrtLlm, message))
    })
}

/// Where the cache cannot hold the request at its full length: only the log says so, and the stream ends without an event.
pub(super) fn without_room(service: &Service, input: u64, output: u64) -> Option<Response> {
    let (blocks, tokens) = service.blocks?;
    let needed = input.saturating_add(output).div_ceil(tokens);
    if needed <= blocks {
        return None;
    }
    service.say(&Line::new(
        Head::TensorrtLlm("E"),
        format!(
            "RequestError: Request 1 requires {needed} KV cache blocks to complete the request, which exceeds its GPU-primary capacity of \
             {blocks} blocks."
        ),
    ));
    Some(([(CONTENT_TYPE, "text/event-stream")], Body::empty()).into_response())
}
