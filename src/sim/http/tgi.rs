//! TGI's own routes: `/generate`, `/generate_stream`, `/info`, `/tokenize`, health and metrics, as answered by 3.3.6.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Json, State};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stream::{AnswerReader, Finish, OutputToken, StreamFormat, read_all, text};
use super::{ApiError, limits, metrics, stream};
use crate::sim::engine_core::EngineCore;
use crate::sim::profile::Engine;

pub(super) fn routes() -> Router<Arc<EngineCore>> {
    Router::new()
        .route("/generate", post(generate))
        .route("/generate_stream", post(generate_stream))
        .route("/info", get(info))
        .route("/tokenize", post(tokenize))
        .route("/health", get(|| async { StatusCode::OK }))
        .route(
            "/metrics",
            get(|State(core): State<Arc<EngineCore>>| async move { metrics::page(&core) }),
        )
}

#[derive(Debug, Deserialize)]
struct Body {
    inputs: String,
    #[serde(default)]
    parameters: Parameters,
    #[serde(default)]
    stream: bool,
}

#[derive(Debug, Default, Deserialize)]
struct Parameters {
    max_new_tokens: Option<u64>,
    truncate: Option<u64>,
    details: Option<bool>,
}

async fn generate(State(core): State<Arc<EngineCore>>, body: Result<Json<Body>, JsonRejection>) -> Response {
    match body {
        Ok(Json(body)) if body.stream => stream(&core, &body),
        Ok(Json(body)) => whole_answer(&core, &body).await,
        Err(rejection) => ApiError::bad_request(Engine::Tgi, rejection.body_text()).respond(Engine::Tgi),
    }
}

async fn generate_stream(State(core): State<Arc<EngineCore>>, body: Result<Json<Body>, JsonRejection>) -> Response {
    match body {
        Ok(Json(body)) => stream(&core, &body),
        Err(rejection) => ApiError::bad_request(Engine::Tgi, rejection.body_text()).respond(Engine::Tgi),
    }
}

/// The queued request and its number of input tokens.
fn admitted(core: &Arc<EngineCore>, body: &Body) -> Result<(AnswerReader, u64), ApiError> {
    if core.overloaded() {
        return Err(ApiError::overloaded(Engine::Tgi));
    }
    let counted = core.counter.count(&body.inputs, true);
    let mut input = counted.map_err(|fault| ApiError::bad_request(Engine::Tgi, fault.message))?;
    if let Some(truncate) = body.parameters.truncate {
        if truncate == 0 || truncate > core.max_input {
            return Err(ApiError::bad_request(
                Engine::Tgi,
                format!(
                    "Input validation error: `truncate` must be strictly positive and less than {}. Given: {truncate}",
                    core.max_input
                ),
            ));
        }
        input = input.min(truncate);
    }
    let output = limits::output_tokens(
        core,
        limits::RequestSize {
            rows: 1,
            input,
            output: body.parameters.max_new_tokens,
            min_tokens: 0,
        },
    )?;
    Ok((AnswerReader::new(core.submit(1, input, output, 0)), input))
}

async fn whole_answer(core: &Arc<EngineCore>, body: &Body) -> Response {
    let (mut reader, input) = match admitted(core, body) {
        Ok(admitted) => admitted,
        Err(error) => return error.respond(Engine::Tgi),
    };
    let answer = match read_all(&mut reader).await {
        Ok(answer) => answer,
        Err(message) => return ApiError::generation_failed(Engine::Tgi, message).respond(Engine::Tgi),
    };
    let mut json = json!({ "generated_text": text(reader.id(), answer.tokens) });
    if body.parameters.details == Some(true) {
        let tokens: Vec<Value> = (1..=answer.tokens)
            .map(|index| token(OutputToken::nth(reader.id(), index)))
            .collect();
        json["details"] = json!({
            "finish_reason": reason(answer.finish), "generated_tokens": answer.tokens, "seed": null, "prefill": [], "tokens": tokens,
        });
    }
    let headers = [
        (HeaderName::from_static("x-compute-type"), "SIMULATED".to_owned()),
        (HeaderName::from_static("x-prompt-tokens"), input.to_string()),
        (HeaderName::from_static("x-generated-tokens"), answer.tokens.to_string()),
    ];
    (headers, Json(json)).into_response()
}

fn stream(core: &Arc<EngineCore>, body: &Body) -> Response {
    match admitted(core, body) {
        Ok((reader, input)) => {
            let events = Events {
                request: reader.id(),
                input,
                produced: 0,
            };
            stream::respond(reader, events)
        }
        // A proxy in front of TGI refuses before the stream begins.
        Err(error) if error == ApiError::overloaded(Engine::Tgi) && core.setup.misbehave.refuse_429.is_some() => {
            error.respond(Engine::Tgi)
        }
        // TGI's router validates after the stream has begun: status 200 and one event.
        Err(error) => (
            [("content-type", "text/event-stream")],
            format!("data:{}\n\n", error.body(Engine::Tgi)),
        )
            .into_response(),
    }
}

/// Stream events of `/generate_stream`. There is no final `[DONE]`.
struct Events {
    request: u64,
    input: u64,
    produced: u64,
}

impl StreamFormat for Events {
    fn tokens(&mut self, out: &mut String, tokens: &[OutputToken], finish: Option<Finish>) {
        for (at, one) in tokens.iter().enumerate() {
            self.produced += 1;
            let (mut generated, mut details) = (Value::Null, Value::Null);
            if let Some(finish) = finish.filter(|_| at + 1 == tokens.len()) {
                generated = text(self.request, self.produced).into();
                details = json!({
                    "finish_reason": reason(finish), "generated_tokens": self.produced, "seed": null, "input_length": self.input,
                });
            }
            let _ = write!(
                out,
                "data:{{\"index\":{},\"token\":{},\"generated_text\":{generated},\"details\":{details}}}\n\n",
                one.index,
                token(*one)
            );
        }
    }

    fn close(&mut self, _out: &mut String) {}

    fn failed(&mut self, out: &mut String, message: &str) {
        let _ = write!(
            out,
            "data:{}\n\n",
            ApiError::generation_failed(Engine::Tgi, message).body(Engine::Tgi)
        );
    }
}

fn token(produced: OutputToken) -> Value {
    let mut text = String::new();
    produced.text(&mut text);
    json!({ "id": produced.id, "text": text, "logprob": -1.0, "special": false })
}

fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Length => "length",
        Finish::Stop => "eos_token",
    }
}

async fn info(State(core): State<Arc<EngineCore>>) -> Response {
    Json(json!({
        "model_id": core.setup.model, "model_sha": null, "model_dtype": "bfloat16", "model_pipeline_tag": null,
        "max_concurrent_requests": core.setup.max_concurrent, "max_best_of": 2, "max_stop_sequences": 4,
        "max_input_tokens": core.max_input, "max_total_tokens": core.max_total, "validation_workers": 2,
        "max_client_batch_size": 4, "router": "SIMULATED", "version": core.setup.version(), "sha": null, "docker_label": null,
    }))
    .into_response()
}

async fn tokenize(State(core): State<Arc<EngineCore>>, Json(body): Json<Body>) -> Response {
    match core.counter.tokens(&body.inputs, true) {
        Ok(tokens) => Json(
            tokens
                .iter()
                .map(|token| json!({ "id": token.id, "text": token.text, "start": token.start, "stop": token.stop }))
                .collect::<Vec<_>>(),
        )
        .into_response(),
        Err(fault) => ApiError::bad_request(Engine::Tgi, fault.message).respond(Engine::Tgi),
    }
}
