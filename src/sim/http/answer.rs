//! Answers in the form of each API: events of a stream, or one body. [`AnswerReader`] reads one from the scheduler and
//! applies the configured misbehaviour.

use std::fmt::Write as _;
use std::{future, io};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use minijinja::context;
use serde_json::{Value, json};

use super::request::Request;
use super::scores::Scores;
use super::{Api, ApiError, Problem};
use crate::sim::engine_core::{EngineCore, QueuedRequest};
use crate::sim::exit::Exit;
use crate::sim::options::{FailedRequest, Misbehave};
use crate::sim::profile::Engine;
use crate::sim::scheduler::SequenceEvent;
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
pub(super) struct Reply {
    api: Api,
    engine: Engine,
    model: String,
    id: u64,
    rows: u64,
    input: u64,
    produced: u64,
    finish: Finish,
    /// llama.cpp: the output is shorter than requested.
    clipped: bool,
    /// Ollama: greedy decoding with random weights repeats itself.
    repeats: bool,
    /// Token ids with each event (vLLM, llama.cpp).
    ids: bool,
    usage: bool,
    usage_always: bool,
    /// vLLM: log-probabilities were asked for.
    scores: Option<Scores>,
    /// OpenAI: start of every event, up to the choices.
    event_start: String,
}

impl Reply {
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
            scores: request.scores(core, api),
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

    fn content_type(&self) -> &'static str {
        match self.api {
            Api::Ollama => "application/x-ndjson",
            _ => "text/event-stream; charset=utf-8",
        }
    }

    /// The start of a stream before its first token.
    fn opening(&self) -> String {
        if self.api != Api::Chat || self.engine == Engine::Tgi {
            return String::new();
        }
        let choice = r#"{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}"#;
        format!("data: {}[{choice}]}}\n\n", self.event_start)
    }

    /// Appends the events of further tokens, and the end if there is a finish reason.
    fn tokens(&mut self, out: &mut String, count: u64, finish: Option<Finish>) {
        match self.api {
            Api::Completions | Api::Chat => self.openai_tokens(out, count, finish),
            Api::Tgi | Api::Llamacpp | Api::Ollama => self.own_tokens(out, count, finish),
        }
    }

    /// Appends tokens in an engine's own API, in the form of the section `event` of its file. llama-server sends all
    /// available tokens in one event, the others one by one.
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

    /// Appends a failure and the end of the stream after it, if this API has one.
    fn failed(&self, out: &mut String, message: &str) {
        let (_, error) = ApiError::new(Problem::GenerationFailed, message).answer(self.engine);
        let _ = match (self.api, self.engine) {
            (Api::Ollama, _) => writeln!(out, "{error}"),
            (Api::Tgi, _) => write!(out, "data:{error}\n\n"),
            // transformers does not escape the message, so a message with quotes is not valid JSON.
            (_, Engine::Transformers) => write!(out, "data: {{\"error\": \"{message}\"}}\n\n"),
            // Versions up to 1.2 send no error: after a failure the stream just ends.
            (_, Engine::TensorrtLlm) => Ok(()),
            (Api::Completions | Api::Chat, Engine::Vllm | Engine::Sglang) => {
                write!(out, "data: {error}\n\ndata: [DONE]\n\n")
            }
            _ => write!(out, "data: {error}\n\n"),
        };
    }

    /// The whole answer as one body; only OpenAI's APIs support it.
    pub(super) fn whole(mut self, tokens: u64, finish: Finish) -> Response {
        let text = text(self.next_tokens(tokens));
        (self.finish, self.produced) = (finish, tokens);
        let mut choice = json!({ "index": 0, "logprobs": null, "finish_reason": self.reason() });
        let (object, prefix) = if self.api == Api::Chat {
            choice["message"] = json!({ "role": "assistant", "content": text });
            ("chat.completion", "chatcmpl")
        } else {
            choice["text"] = text.into();
            if let Some(scores) = &self.scores {
                scores.add_to(&mut choice, tokens);
            }
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

    /// Written by hand, because this is the main cost of a stream.
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

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Number of tokens, and the finish reason with the last ones.
    Tokens(u64, Option<Finish>),
    /// Generation failed.
    Failed(String),
    /// The stream ends without a reason.
    Ended,
    /// The connection is closed.
    ConnectionClosed,
}

pub(super) struct AnswerReader {
    request: QueuedRequest,
    /// The configured misbehaviour, if it applies to this request.
    misbehave: Option<Misbehave>,
    produced: u64,
    buffered: u64,
}

/// The next misbehaviour of an answer.
enum Misdeed {
    FailRequest(FailedRequest),
    Die,
    Hang,
    Answer(Part),
}

impl AnswerReader {
    pub(super) fn new(request: QueuedRequest) -> Self {
        let misbehave = &request.core.setup.options.misbehave;
        Self {
            misbehave: misbehave.applies_to(request.id).then(|| misbehave.clone()),
            request,
            produced: 0,
            buffered: 0,
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.request.id
    }

    /// Waits for the next part. Must not be called again after a part that ends the answer.
    async fn next(&mut self) -> Part {
        match self.due() {
            None => {
                let event = self.request.events.recv().await;
                self.part(event)
            }
            Some(Misdeed::Answer(part)) => part,
            Some(Misdeed::FailRequest(failed)) => {
                self.request.core.apply_failure(&failed);
                match failed.message {
                    Some(message) => Part::Failed(message),
                    None => future::pending().await,
                }
            }
            Some(Misdeed::Die) => {
                self.request.core.exit_process(Exit::FAILED);
                future::pending().await
            }
            Some(Misdeed::Hang) => future::pending().await,
        }
    }

    /// The next part, if it is available.
    fn try_next(&mut self) -> Option<Part> {
        if self.due().is_some() {
            return None;
        }
        let event = self.request.events.try_recv().ok()?;
        Some(self.part(Some(event)))
    }

    fn part(&mut self, event: Option<SequenceEvent>) -> Part {
        let last = match event {
            None => return Part::Ended,
            Some(SequenceEvent::Oom(oom)) => return Part::Failed(oom.to_string()),
            Some(SequenceEvent::Token) => None,
            Some(SequenceEvent::Last) => Some(Finish::Length),
        };
        self.produced += 1;
        let ends = |at: Option<u64>| at == Some(self.produced);
        let finish = last.or(match &self.misbehave {
            Some(misbehave) if ends(misbehave.end_early) => Some(Finish::Stop),
            Some(misbehave) if ends(misbehave.clip) => Some(Finish::Length),
            _ => None,
        });
        if self.request.core.setup.options.misbehave.two_tokens && finish.is_none() && self.buffered == 0 {
            self.buffered = 1;
            return Part::Tokens(0, None);
        }
        Part::Tokens(1 + std::mem::take(&mut self.buffered), finish)
    }

    /// The misbehaviour due before the next token.
    fn due(&self) -> Option<Misdeed> {
        let misbehave = self.misbehave.as_ref()?;
        if let Some(failed) = &misbehave.fail_request
            && failed.status.is_none()
            && failed.after == self.produced
            && self.request.total > failed.longer_than
        {
            return Some(Misdeed::FailRequest(failed.clone()));
        }
        let failure = Part::Failed("SIMULATED failure of the engine".to_owned());
        let misdeeds = [
            (misbehave.die_mid_stream, Misdeed::Die),
            (misbehave.hang, Misdeed::Hang),
            (misbehave.break_off, Misdeed::Answer(Part::ConnectionClosed)),
            (misbehave.end_silently, Misdeed::Answer(Part::Ended)),
            (misbehave.error_then_done, Misdeed::Answer(failure)),
        ];
        let mut due = misdeeds.into_iter().filter(|(at, _)| *at == Some(self.produced));
        due.next().map(|(_, misdeed)| misdeed)
    }
}

/// The tokens of each prompt and the finish reason, once the answer is complete; or the error.
pub(super) async fn read_all(reader: &mut AnswerReader) -> Result<(u64, Finish), String> {
    let mut tokens = 0;
    loop {
        match reader.next().await {
            Part::Tokens(more, None) => tokens += more,
            Part::Tokens(more, Some(finish)) => return Ok((tokens + more, finish)),
            Part::Failed(message) => return Err(message),
            Part::Ended | Part::ConnectionClosed => return Err("the engine is gone".to_owned()),
        }
    }
}

pub(super) fn respond(reader: AnswerReader, answer: Reply) -> Response {
    let headers = [(CONTENT_TYPE, answer.content_type()), (CACHE_CONTROL, "no-cache")];
    let state = AnswerStream {
        unsent: answer.opening(),
        reader,
        answer,
        end: None,
    };
    let body = Body::from_stream(stream::unfold(state, |mut state| async move {
        let bytes = state.next().await?;
        Some((bytes, state))
    }));
    (headers, body).into_response()
}

/// How a stream ends once all events are sent.
#[derive(Clone, Copy)]
enum End {
    Complete,
    /// The connection is closed.
    Aborted,
}

struct AnswerStream {
    reader: AnswerReader,
    answer: Reply,
    unsent: String,
    end: Option<End>,
}

impl AnswerStream {
    /// All available events, at least one; `None` at the end. An error closes the connection.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        while self.unsent.is_empty() && self.end.is_none() {
            let part = self.reader.next().await;
            self.add(part);
        }
        while self.end.is_none()
            && let Some(part) = self.reader.try_next()
        {
            self.add(part);
        }
        if !self.unsent.is_empty() {
            return Some(Ok(Bytes::from(std::mem::take(&mut self.unsent))));
        }
        match self.end.replace(End::Complete) {
            Some(End::Aborted) => {
                // hyper writes out what it holds only when the body has nothing for it, and drops it at an error.
                tokio::task::yield_now().await;
                Some(Err(io::ErrorKind::ConnectionAborted.into()))
            }
            _ => None,
        }
    }

    fn add(&mut self, part: Part) {
        match part {
            Part::Tokens(0, None) => {}
            Part::Tokens(count, finish) => {
                self.answer.tokens(&mut self.unsent, count, finish);
                self.end = finish.map(|_| End::Complete);
            }
            Part::Failed(message) => {
                self.answer.failed(&mut self.unsent, &message);
                self.end = Some(End::Complete);
            }
            Part::Ended => self.end = Some(End::Complete),
            Part::ConnectionClosed => self.end = Some(End::Aborted),
        }
    }
}
