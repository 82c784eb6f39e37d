//! Answers of the OpenAI routes: whole bodies and stream events, in the order in which each engine sends them.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::request::Body;
use crate::sim::http::reader::{Finish, Whole};
use crate::sim::http::refusal::Refusal;
use crate::sim::http::sse::{Produced, Wire, text};
use crate::sim::profile::Engine;
use crate::sim::service::Service;

/// Completions or chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    Chat,
}

/// One answer.
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
    /// The beginning of every event, up to the choices.
    head: String,
}

impl Answer {
    pub(super) fn new(service: &Service, shape: Shape, id: u64, rows: u64, input: u64, body: &Body) -> Self {
        let engine = service.setup.profile.engine;
        let (name, prefix) = match shape {
            Shape::Text => ("text_completion", "cmpl-"),
            Shape::Chat => ("chat.completion.chunk", "chatcmpl-"),
        };
        let model = Value::from(service.setup.model.as_str());
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
            head: format!(
                "{{\"id\":\"{prefix}{id}\",\"object\":\"{name}\",\"created\":0,\"model\":{model},\"system_fingerprint\":\"SIMULATED\",\"choices\":"
            ),
        }
    }

    /// The whole answer in one body.
    pub(super) fn whole(&self, whole: &Whole) -> Value {
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
        let head: String = format!("{}[]}}", self.head);
        let mut body: Value = serde_json::from_str(&head).unwrap_or_default();
        body["object"] = object.into();
        body["choices"] = json!([choice]);
        body["usage"] = usage;
        body
    }

    fn usage(&self, tokens: u64) -> Value {
        let (input, output) = (self.rows * self.input, self.rows * tokens);
        json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output })
    }

    /// transformers tells usage with the last token; the others in an event of its own.
    fn usage_in_last(&self) -> bool {
        self.engine == Engine::Transformers
    }
}

impl Wire for Answer {
    fn open(&mut self, out: &mut String) {
        if self.shape == Shape::Chat && self.engine != Engine::Tgi {
            out.push_str("data: ");
            out.push_str(&self.head);
            out.push_str("[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n");
        }
    }

    fn tokens(&mut self, out: &mut String, tokens: &[Produced], finish: Option<Finish>) {
        self.produced += tokens.len() as u64;
        out.push_str("data: ");
        out.push_str(&self.head);
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
        // Writing to a string cannot fail.
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
            // Writing to a string cannot fail.
            let _ = write!(
                out,
                "data: {}[],\"usage\":{}}}\n\n",
                self.head,
                self.usage(self.produced)
            );
        }
        if self.engine != Engine::Transformers {
            out.push_str("data: [DONE]\n\n");
        }
    }

    fn failed(&mut self, out: &mut String, message: &str) {
        let body = match self.engine {
            // Written without escaping by the real one: a message with quotes is no JSON.
            Engine::Transformers => format!("{{\"error\": \"{message}\"}}"),
            // Up to 1.2 the stream just ends.
            Engine::TensorrtLlm => return,
            engine => Refusal::broken(engine, message).body(engine).to_string(),
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
