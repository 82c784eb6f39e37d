//! Peculiarities of TensorRT-LLM: JSON metrics that are cleared by each read, unknown fields that are refused, and
//! streams that just end.

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

use super::ApiError;
use crate::sim::engine_core::EngineCore;
use crate::sim::profile::Engine;
use crate::sim::start::{LinePrefix, LogLine};
use crate::sim::tokens::BLOCK;

/// Accepted fields of a completion.
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

pub(super) fn routes() -> Router<Arc<EngineCore>> {
    Router::new()
        .route("/health", get(|| async { StatusCode::OK }))
        .route("/metrics", get(metrics))
}

/// The last iteration's record, if there was an iteration since the last read.
async fn metrics(State(core): State<Arc<EngineCore>>) -> Response {
    let snapshot = core.snapshot();
    if !core.has_new_steps(snapshot.counters.steps) {
        return Json(json!([])).into_response();
    }
    let (blocks, tokens) = core.blocks.unwrap_or_default();
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

/// Refuses unknown fields. Invalid JSON is left to the caller.
pub(super) fn check_fields(body: &[u8]) -> Result<(), ApiError> {
    let fields: BTreeMap<String, IgnoredAny> = serde_json::from_slice(body).unwrap_or_default();
    let unknown = fields.keys().find(|name| !KNOWN.contains(&name.as_str()));
    unknown.map_or(Ok(()), |name| {
        let message = format!(
            "[{{'type': 'extra_forbidden', 'loc': ('body', '{name}'), 'msg': 'Extra inputs are not permitted'}}]"
        );
        Err(ApiError::bad_request(Engine::TensorrtLlm, message))
    })
}

/// If the cache cannot hold the whole request, the engine only logs it and ends the stream without an event.
pub(super) fn exceeds_cache(core: &EngineCore, input: u64, output: u64) -> Option<Response> {
    let (blocks, tokens) = core.blocks?;
    let needed = input.saturating_add(output).div_ceil(tokens);
    if needed <= blocks {
        return None;
    }
    core.log_line(&LogLine::new(
        LinePrefix::TensorrtLlm("E"),
        format!(
            "RequestError: Request 1 requires {needed} KV cache blocks to complete the request, which exceeds its GPU-primary capacity of \
             {blocks} blocks."
        ),
    ));
    Some(([(CONTENT_TYPE, "text/event-stream")], Body::empty()).into_response())
}
