//! TGI's own routes: `/generate`, `/generate_stream`, `/info`, `/tokenize`, health and metrics. Shapes as the real 3.3.6 answered.

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

use super::reader::{Finish, Reader, whole};
use super::refusal::Refusal;
use super::sse::{Produced, Wire, text};
use super::{admit, metrics, sse};
use crate::sim::profile::Engine;
use crate::sim::service::Service;

/// TGI's own routes.
pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/generate", post(generate))
        .route("/generate_stream", post(generate_stream))
        .route("/info", get(info))
        .route("/tokenize", post(tokenize))
        .route("/health", get(|| async { StatusCode::OK }))
        .route(
            "/metrics",
            get(|State(service): State<Arc<Service>>| async move { metrics::page(&service) }),
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

async fn generate(State(service): State<Arc<Service>>, body: Result<Json<Body>, JsonRejection>) -> Response {
    match body {
        Ok(Json(body)) if body.stream => stream(&service, &body),
        Ok(Json(body)) => whole_answer(&service, &body).await,
        Err(rejection) => Refusal::bad(Engine::Tgi, rejection.body_text()).respond(Engine::Tgi),
    }
}

async fn generate_stream(State(service): State<Arc<Service>>, body: Result<Json<Body>, JsonRejection>) -> Response {
    match body {
        Ok(Json(body)) => stream(&service, &body),
        Err(rejection) => Refusal::bad(Engine::Tgi, rejection.body_text()).respond(Engine::Tgi),
    }
}

/// The request in the engine, with the tokens of its input.
fn admitted(service: &Arc<Service>, body: &Body) -> Result<(Reader, u64), Refusal> {
    if service.overloaded() {
        return Err(Refusal::overloaded(Engine::Tgi));
    }
    let counted = service.counter.count(&body.inputs, true);
    let mut input = counted.map_err(|fault| Refusal::bad(Engine::Tgi, fault.message))?;
    if let Some(truncate) = body.parameters.truncate {
        if truncate == 0 || truncate > service.max_input {
            return Err(Refusal::bad(
                Engine::Tgi,
                format!(
                    "Input validation error: `truncate` must be strictly positive and less than {}. Given: {truncate}",
                    service.max_input
                ),
            ));
        }
        input = input.min(truncate);
    }
    let output = admit::output(
        service,
        admit::Ask {
            rows: 1,
            input,
            output: body.parameters.max_new_tokens,
            least: 0,
        },
    )?;
    Ok((Reader::new(service.submit(1, input, output, 0)), input))
}

async fn whole_answer(service: &Arc<Service>, body: &Body) -> Response {
    let (mut reader, input) = match admitted(service, body) {
        Ok(admitted) => admitted,
        Err(refusal) => return refusal.respond(Engine::Tgi),
    };
    let answer = match whole(&mut reader).await {
        Ok(answer) => answer,
        Err(message) => return Refusal::broken(Engine::Tgi, message).respond(Engine::Tgi),
    };
    let mut json = json!({ "generated_text": text(reader.id(), answer.tokens) });
    if body.parameters.details == Some(true) {
        let tokens: Vec<Value> = (1..=answer.tokens)
            .map(|index| token(Produced::nth(reader.id(), index)))
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

fn stream(service: &Arc<Service>, body: &Body) -> Response {
    match admitted(service, body) {
        Ok((reader, input)) => {
            let events = Events {
                request: reader.id(),
                input,
                produced: 0,
            };
            sse::respond(reader, events)
        }
        // A proxy in front of it knows beforehand.
        Err(refusal) if refusal == Refusal::overloaded(Engine::Tgi) && service.setup.misbehave.refuse_429.is_some() => {
            refusal.respond(Engine::Tgi)
        }
        // The stream has begun when the router finds out, whatever is wrong: status 200 and one event.
        Err(refusal) => (
            [("content-type", "text/event-stream")],
            format!("data:{}\n\n", refusal.body(Engine::Tgi)),
        )
            .into_response(),
    }
}

/// Events of `/generate_stream`. No `[DONE]` at the end.
struct Events {
    request: u64,
    input: u64,
    produced: u64,
}

impl Wire for Events {
    fn tokens(&mut self, out: &mut String, tokens: &[Produced], finish: Option<Finish>) {
        for (at, one) in tokens.iter().enumerate() {
            self.produced += 1;
            let (mut generated, mut details) = (Value::Null, Value::Null);
            if let Some(finish) = finish.filter(|_| at + 1 == tokens.len()) {
                generated = text(self.request, self.produced).into();
                details = json!({
                    "finish_reason": reason(finish), "generated_tokens": self.produced, "seed": null, "input_length": self.input,
                });
            }
            // Writing to a string cannot fail.
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
            Refusal::broken(Engine::Tgi, message).body(Engine::Tgi)
        );
    }
}

fn token(produced: Produced) -> Value {
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

async fn info(State(service): State<Arc<Service>>) -> Response {
    Json(json!({
        "model_id": service.setup.model, "model_sha": null, "model_dtype": "bfloat16", "model_pipeline_tag": null,
        "max_concurrent_requests": service.setup.max_concurrent, "max_best_of": 2, "max_stop_sequences": 4,
        "max_input_tokens": service.max_input, "max_total_tokens": service.max_total, "validation_workers": 2,
        "max_client_batch_size": 4, "router": "SIMULATED", "version": service.setup.version(), "sha": null, "docker_label": null,
    }))
    .into_response()
}

async fn tokenize(State(service): State<Arc<Service>>, Json(body): Json<Body>) -> Response {
    match service.counter.tokens(&body.inputs, true) {
        Ok(tokens) => Json(
            tokens
                .iter()
                .map(|token| json!({ "id": token.id, "text": token.text, "start": token.start, "stop": token.stop }))
                .collect::<Vec<_>>(),
        )
        .into_response(),
        Err(fault) => Refusal::bad(Engine::Tgi, fault.message).respond(Engine::Tgi),
    }
}
