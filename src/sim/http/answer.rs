//! Answers in the form of each API: events of a stream, or one body.

use std::fmt::Write as _;

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::request::Request;
use super::{Api, ApiError};
use crate::sim::engine_core::EngineCore;
use crate::sim::profile::Engine;
use crate::sim::tokens::output_token_id;

/// After this many identical chunks Ollama drops a request silently.
const REPEATS: u64 = 30;

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// It has the requested length.
    Length,
    /// It ended earlier.
    Stop,
}

/// The answer to one request, in the form of its API.
pub(super) struct Answer {
    api: Api,
    engine: Engine,
    model: String,
    id: u64,
    rows: u64,
    input: u64,
    produced: u64,
    finish: Finish,
    /// llama.cpp: the output is shorter than asked for.
    clipped: bool,
    /// Ollama: greedy decoding with random weights repeats itself.
    repeats: bool,
    /// Token ids with each event (vLLM, llama.cpp).
    ids: bool,
    usage: bool,
    usage_always: bool,
    /// OpenAI: start of every event, up to the choices.
    event_start: String,
}

impl Answer {
    pub(super) fn new(
        core: &EngineCore,
        api: Api,
        id: u64,
        (rows, input): (u64, u64),
        clipped: bool,
        request: &Request,
    ) -> Self {
        let (engine, model) = (core.setup.profile.engine, core.setup.model.clone());
        let (prefix, object) = match api {
            Api::Chat => ("chatcmpl", "chat.completion.chunk"),
            _ => ("cmpl", "text_completion"),
        };
        let options = request.stream_options.as_ref();
        Self {
            event_start: format!(
                "{{\"id\":\"{prefix}-{id}\",\"object\":\"{object}\",\"created\":0,\"model\":{},\"system_fingerprint\":\"SIMULATED\",\"choices\":",
                Value::from(model.as_str())
            ),
            api,
            engine,
            model,
            id,
            rows,
            input,
            produced: 0,
            finish: Finish::Length,
            clipped,
            repeats: request.options.temperature == Some(0.0),
            ids: match api {
                Api::Llamacpp => request.return_tokens == Some(true),
                _ => request.return_token_ids == Some(true) && engine == Engine::Vllm,
            },
            usage: options.is_some_and(|options| options.include_usage),
            usage_always: options.is_some_and(|options| options.continuous_usage_stats),
        }
    }

    pub(super) fn content_type(&self) -> &'static str {
        match self.api {
            Api::Ollama => "application/x-ndjson",
            _ => "text/event-stream; charset=utf-8",
        }
    }

    /// What a stream sends before its first token.
    pub(super) fn opening(&self) -> String {
        if self.api != Api::Chat || self.engine == Engine::Tgi {
            return String::new();
        }
        let choice = r#"{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}"#;
        format!("data: {}[{choice}]}}\n\n", self.event_start)
    }

    /// Appends the events of further tokens, and of the end if there is a finish.
    pub(super) fn tokens(&mut self, out: &mut String, count: u64, finish: Option<Finish>) {
        match self.api {
            Api::Completions | Api::Chat => self.openai_tokens(out, count, finish),
            Api::Tgi => {
                for more in 1..=count {
                    self.tgi_token(out, finish.filter(|_| more == count));
                }
            }
            Api::Llamacpp => {
                let tokens: Vec<_> = self.next_tokens(count).collect();
                self.produced += count;
                let event = json!({
                    "index": 0, "content": text(tokens.iter().copied()), "tokens": if self.ids { tokens } else { Vec::new() },
                    "stop": false, "id_slot": 0, "tokens_predicted": self.produced, "tokens_evaluated": self.input,
                });
                let _ = write!(out, "data: {event}\n\n");
                if let Some(finish) = finish {
                    self.finish = finish;
                    let _ = write!(out, "data: {}\n\n", self.llamacpp_end());
                }
            }
            Api::Ollama => self.ollama_tokens(out, count, finish),
        }
    }

    /// Appends a failure, and what this API sends after one.
    pub(super) fn failed(&self, out: &mut String, message: &str) {
        let error = ApiError::generation_failed(self.engine, message).body(self.engine);
        let _ = match (self.api, self.engine) {
            (Api::Ollama, _) => writeln!(out, "{error}"),
            (Api::Tgi, _) => write!(out, "data:{error}\n\n"),
            // transformers does not escape the message, so one with quotes is not valid JSON.
            (_, Engine::Transformers) => write!(out, "data: {{\"error\": \"{message}\"}}\n\n"),
            // Up to 1.2 the stream just ends.
            (_, Engine::TensorrtLlm) => Ok(()),
            (Api::Completions | Api::Chat, Engine::Vllm | Engine::Sglang) => {
                write!(out, "data: {error}\n\ndata: [DONE]\n\n")
            }
            _ => write!(out, "data: {error}\n\n"),
        };
    }

    /// The whole answer as one body; only OpenAI's APIs give one.
    pub(super) fn whole(mut self, tokens: u64, finish: Finish) -> Response {
        let text = text(self.next_tokens(tokens));
        (self.finish, self.produced) = (finish, tokens);
        let mut choice = json!({ "index": 0, "logprobs": null, "finish_reason": self.reason() });
        let (object, prefix) = if self.api == Api::Chat {
            choice["message"] = json!({ "role": "assistant", "content": text });
            ("chat.completion", "chatcmpl")
        } else {
            choice["text"] = text.into();
            ("text_completion", "cmpl")
        };
        Json(json!({
            "id": format!("{prefix}-{}", self.id), "object": object, "created": 0, "model": self.model,
            "system_fingerprint": "SIMULATED", "choices": [choice], "usage": self.usage(),
        }))
        .into_response()
    }

    /// Ids of the tokens after those produced so far.
    fn next_tokens(&self, count: u64) -> impl Iterator<Item = u32> + use<> {
        let (id, produced) = (self.id, self.produced);
        (1..=count).map(move |more| output_token_id(id, produced + more))
    }

    /// The finish reason as this engine names it.
    fn reason(&self) -> &'static str {
        match (self.finish, self.api) {
            (Finish::Length, Api::Llamacpp) => "limit",
            (Finish::Length, _) => "length",
            (Finish::Stop, Api::Llamacpp) => "eos",
            (Finish::Stop, Api::Tgi) => "eos_token",
            (Finish::Stop, _) => "stop",
        }
    }

    fn usage(&self) -> Value {
        let (input, output) = (self.rows * self.input, self.rows * self.produced);
        json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output })
    }

    /// Written by hand: it is what a stream costs.
    fn openai_tokens(&mut self, out: &mut String, count: u64, finish: Option<Finish>) {
        let tokens = self.next_tokens(count);
        self.produced += count;
        out.push_str("data: ");
        out.push_str(&self.event_start);
        out.push_str(match self.api {
            Api::Chat => "[{\"index\":0,\"delta\":{\"content\":\"",
            _ => "[{\"index\":0,\"text\":\"",
        });
        append_text(out, tokens);
        out.push('"');
        if self.api == Api::Chat {
            out.push('}');
        }
        out.push_str(",\"logprobs\":null,\"finish_reason\":");
        match finish {
            Some(finish) => {
                self.finish = finish;
                let _ = write!(out, "\"{}\"", self.reason());
            }
            None => out.push_str("null"),
        }
        if self.ids {
            let before = self.produced - count;
            let ids: Vec<_> = (1..=count)
                .map(|more| output_token_id(self.id, before + more))
                .collect();
            let _ = write!(out, ",\"token_ids\":{ids:?}");
        }
        out.push_str("}]");
        // transformers sends usage with the last token, the others in a separate event.
        let in_last = self.engine == Engine::Transformers;
        if self.usage_always || (in_last && finish.is_some()) {
            let _ = write!(out, ",\"usage\":{}", self.usage());
        }
        out.push_str("}\n\n");
        if finish.is_some() && !in_last {
            if self.usage {
                let _ = write!(out, "data: {}[],\"usage\":{}}}\n\n", self.event_start, self.usage());
            }
            out.push_str("data: [DONE]\n\n");
        }
    }

    fn tgi_token(&mut self, out: &mut String, finish: Option<Finish>) {
        let token = output_token_id(self.id, self.produced + 1);
        self.produced += 1;
        let (mut generated, mut details) = (Value::Null, Value::Null);
        if let Some(finish) = finish {
            self.finish = finish;
            generated = text((1..=self.produced).map(|index| output_token_id(self.id, index))).into();
            details = json!({
                "finish_reason": self.reason(), "generated_tokens": self.produced, "seed": null, "input_length": self.input,
            });
        }
        let event = json!({
            "index": self.produced, "generated_text": generated, "details": details,
            "token": { "id": token, "text": format!(" w{token}"), "logprob": -1.0, "special": false },
        });
        let _ = write!(out, "data:{event}\n\n");
    }

    /// The last event.
    fn llamacpp_end(&self) -> Value {
        json!({
            "index": 0, "content": "", "tokens": [], "id_slot": 0, "stop": true, "model": self.model,
            "stop_type": self.reason(), "truncated": self.clipped && self.finish == Finish::Length,
            "tokens_predicted": self.produced, "tokens_evaluated": self.input, "tokens_cached": self.input + self.produced,
            "timings": { "cache_n": 0, "prompt_n": self.input, "predicted_n": self.produced },
        })
    }

    fn ollama_tokens(&mut self, out: &mut String, count: u64, finish: Option<Finish>) {
        let dropped = |answer: &Self| answer.repeats && answer.produced > REPEATS;
        for token in self.next_tokens(count) {
            if dropped(self) {
                return;
            }
            self.produced += 1;
            let response = if self.repeats {
                " w".to_owned()
            } else {
                text([token].into_iter())
            };
            let line = json!({ "model": self.model, "created_at": "SIMULATED", "response": response, "done": false });
            let _ = writeln!(out, "{line}");
        }
        if let Some(finish) = finish.filter(|_| !dropped(self)) {
            self.finish = finish;
            let _ = writeln!(out, "{}", self.ollama_end());
        }
    }

    fn ollama_end(&self) -> Value {
        json!({
            "model": self.model, "created_at": "SIMULATED", "response": "", "done": true, "done_reason": self.reason(),
            "total_duration": 1, "prompt_eval_count": self.input, "prompt_eval_duration": 1,
            "eval_count": self.produced, "eval_duration": 1,
        })
    }
}

/// Text of the tokens; it needs no JSON escaping.
fn text(tokens: impl Iterator<Item = u32>) -> String {
    let mut out = String::new();
    append_text(&mut out, tokens);
    out
}

fn append_text(out: &mut String, tokens: impl Iterator<Item = u32>) {
    for token in tokens {
        let _ = write!(out, " w{token}");
    }
}
