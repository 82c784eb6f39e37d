//! Answers of the OpenAI routes: complete bodies and stream events, in each engine's order.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::request::Body;
use crate::sim::engine_core::EngineCore;
use crate::sim::http::api_error::ApiError;
use crate::sim::http::reader::{CompleteAnswer, Finish};
use crate::sim::http::stream::{OutputToken, StreamFormat, text};
use crate::sim::profile::Engine;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    Chat,
}

pub(super) struct Answer {
    engine: Engine,
    shape: Shape,
    id: u64,
    rows: u64,
    input: u64,
    produced: u64,
    usage: bool,
    usage_always: bool,
    ids: bool,
    /// Start of every event, up to the choices.
    event_start: String,
}

impl Answer {
    pub(super) fn new(core: &EngineCore, shape: Shape, id: u64, rows: u64, input: u64, body: &Body) -> Self {
        let engine = core.setup.profile.engine;
        let (name, prefix) = match shape {
            Shape::Text => ("text_completion", "cmpl-"),
            Shape::Chat => ("chat.completion.chunk", "chatcmpl-"),
        };
        let model = Value::from(core.setup.model.as_str());
        let options = body.stream_options.as_ref();
        Self {
            engine,
            shape,
            id,
            rows,
            input,
            produced: 0,
            usage: options.is_some_and(|options| options.include_usage) || engine == Engine::Transformers,
            usage_always: options.is_some_and(|options| options.continuous_usage_stats),
            ids: body.return_token_ids == Some(true) && engine == Engine::Vllm,
            event_start: format!(
                "{{\"id\":\"{prefix}{id}\",\"object\":\"{name}\",\"created\":0,\"model\":{model},\"system_fingerprint\":\"SIMULATED\",\"choices\":"
            ),
        }
    }

    pub(super) fn whole(&self, whole: &CompleteAnswer) -> Value {
        let text = text(self.id, whole.tokens);
        let (object, mut choice) = match self.shape {
            Shape::Text => ("text_completion", json!({ "index": 0, "text": text, "logprobs": null })),
            Shape::Chat => (
                "chat.completion",
                json!({ "index": 0, "message": { "role": "assistant", "content": text }, "logprobs": null }),
            ),
        };
        choice["finish_reason"] = reason(whole.finish).into();
        let usage = self.usage(whole.tokens);
        let event_start: String = format!("{}[]}}", self.event_start);
        let mut body: Value = serde_json::from_str(&event_start).unwrap_or_default();
        body["object"] = object.into();
        body["choices"] = json!([choice]);
        body["usage"] = usage;
        body
    }

    fn usage(&self, tokens: u64) -> Value {
        let (input, output) = (self.rows * self.input, self.rows * tokens);
        json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output })
    }

    /// transformers sends usage with the last token, the others in a separate event.
    fn usage_in_last(&self) -> bool {
        self.engine == Engine::Transformers
    }
}

impl StreamFormat for Answer {
    fn open(&mut self, out: &mut String) {
        if self.shape == Shape::Chat && self.engine != Engine::Tgi {
            out.push_str("data: ");
            out.push_str(&self.event_start);
            out.push_str("[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n");
        }
    }

    fn tokens(&mut self, out: &mut String, tokens: &[OutputToken], finish: Option<Finish>) {
        self.produced += tokens.len() as u64;
        out.push_str("data: ");
        out.push_str(&self.event_start);
        out.push_str(match self.shape {
            Shape::Text => "[{\"index\":0,\"text\":\"",
            Shape::Chat => "[{\"index\":0,\"delta\":{\"content\":\"",
        });
        for token in tokens {
            token.text(out);
        }
        out.push('"');
        if self.shape == Shape::Chat {
            out.push('}');
        }
        let _ = match finish {
            Some(finish) => write!(out, ",\"logprobs\":null,\"finish_reason\":\"{}\"", reason(finish)),
            None => write!(out, ",\"logprobs\":null,\"finish_reason\":null"),
        };
        if self.ids {
            let ids: Vec<_> = tokens.iter().map(|token| token.id).collect();
            let _ = write!(out, ",\"token_ids\":{ids:?}");
        }
        out.push_str("}]");
        if self.usage_always || (self.usage_in_last() && finish.is_some()) {
            let _ = write!(out, ",\"usage\":{}", self.usage(self.produced));
        }
        out.push_str("}\n\n");
    }

    fn close(&mut self, out: &mut String) {
        if self.usage && !self.usage_in_last() {
            let _ = write!(
                out,
                "data: {}[],\"usage\":{}}}\n\n",
                self.event_start,
                self.usage(self.produced)
            );
        }
        if self.engine != Engine::Transformers {
            out.push_str("data: [DONE]\n\n");
        }
    }

    fn failed(&mut self, out: &mut String, message: &str) {
        let body = match self.engine {
            // transformers does not escape the message, so one with quotes is not valid JSON.
            Engine::Transformers => format!("{{\"error\": \"{message}\"}}"),
            // Up to 1.2 the stream just ends.
            Engine::TensorrtLlm => return,
            engine => ApiError::generation_failed(engine, message).body(engine).to_string(),
        };
        let _ = write!(out, "data: {body}\n\n");
        if matches!(self.engine, Engine::Vllm | Engine::Sglang) {
            out.push_str("data: [DONE]\n\n");
        }
    }
}

fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Length => "length",
        Finish::Stop => "stop",
    }
}
