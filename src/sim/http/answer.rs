//! Answers in the form of each API: events of a stream, or one body.

use std::fmt::Write as _;

use axum::Json;
use axum::response::{IntoResponse, Response};
use minijinja::context;
use serde_json::{Value, json};

use super::request::Request;
use super::{Api, ApiError, Problem};
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
            Api::Tgi | Api::Llamacpp | Api::Ollama => self.own_tokens(out, count, finish),
        }
    }

    /// Tokens of an engine's own API, in the form of the section `event` of its file: llama-server sends all that come
    /// together in one event, the others one by one.
    fn own_tokens(&mut self, out: &mut String, count: u64, finish: Option<Finish>) {
        let at_once = if self.api == Api::Llamacpp { count } else { 1 };
        let is_dropped = |answer: &Self| answer.repeats && answer.produced > REPEATS;
        for sent in (at_once..=count).step_by(at_once as usize) {
            if is_dropped(self) {
                return;
            }
            let tokens: Vec<u32> = self.next_tokens(at_once).collect();
            self.produced += at_once;
            let last = finish.filter(|_| sent == count && !is_dropped(self));
            self.finish = last.unwrap_or(self.finish);
            let values = context! {
                model => self.model.as_str(),
                input => self.input,
                produced => self.produced,
                text => if self.repeats { " w".to_owned() } else { text(tokens.iter().copied()) },
                tokens,
                ids => self.ids,
                reason => last.map(|_| self.reason()),
                all => last.map(|_| text((1..=self.produced).map(|index| output_token_id(self.id, index)))),
                clipped => self.clipped,
            };
            *out += &self.engine.text("event", &values).unwrap_or_default();
            if self.api != Api::Ollama {
                out.push('\n');
            }
        }
    }

    /// Appends a failure, and what this API sends after one.
    pub(super) fn failed(&self, out: &mut String, message: &str) {
        let (_, error) = ApiError::new(Problem::GenerationFailed, message).answer(self.engine);
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
