//! Decodes the protocols of single engines: TGI, llama.cpp and Ollama.

use serde::Deserialize;
use serde_json::Value;

use super::{Items, Text, error_text};
use crate::load::{Counts, Decode, Framing, StreamEvent};

/// TGI's `POST /generate_stream`: one token per event, `details` in the last one. There is no `[DONE]`.
#[derive(Debug)]
pub(super) struct Tgi;

#[derive(Deserialize)]
struct TgiEvent<'a> {
    #[serde(borrow, default)]
    token: Option<Token<'a>>,
    details: Option<Details>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Token<'a> {
    #[serde(borrow, default)]
    text: Text<'a>,
}

#[derive(Deserialize)]
struct Details {
    finish_reason: Option<String>,
    generated_tokens: Option<u64>,
    input_length: Option<u64>,
}

impl Decode for Tgi {
    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn event(&mut self, _: &str, data: &str, text: Option<&mut String>) -> Result<StreamEvent, String> {
        let event = serde_json::from_str::<TgiEvent<'_>>(data);
        let event = event.map_err(|error| format!("not a TGI event: {error}"))?;
        if let Some(error) = event.error {
            return Err(error_text(&error));
        }
        if let Some(token) = &event.token {
            token.text.add_to(text);
        }
        let details = event.details;
        Ok(StreamEvent {
            content: event.token.is_some(),
            tokens: event.token.as_ref().map(|_| 1),
            most_tokens: event.token.as_ref().map_or(0, |token| token.text.bytes().max(1)),
            last: details.is_some(),
            counts: Counts {
                input: details.as_ref().and_then(|details| details.input_length),
                output: details.as_ref().and_then(|details| details.generated_tokens),
            },
            finish: details.and_then(|details| details.finish_reason),
        })
    }
}

/// llama.cpp's `POST /completion`: partial events with `content` and `tokens`, then one with `stop: true`. There is no
/// `[DONE]`.
#[derive(Debug)]
pub(super) struct LlamaCpp;

#[derive(Default, Deserialize)]
#[serde(default)]
struct LlamaCppEvent<'a> {
    #[serde(borrow)]
    content: Text<'a>,
    tokens: Items,
    stop: bool,
    stop_type: Option<String>,
    truncated: bool,
    tokens_predicted: Option<u64>,
    tokens_evaluated: Option<u64>,
    error: Option<Value>,
}

impl Decode for LlamaCpp {
    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn event(&mut self, _: &str, data: &str, text: Option<&mut String>) -> Result<StreamEvent, String> {
        let event = serde_json::from_str::<LlamaCppEvent<'_>>(data);
        let event = event.map_err(|error| format!("not a llama.cpp event: {error}"))?;
        if let Some(error) = event.error {
            return Err(error_text(&error));
        }
        let ids = event.tokens.0.filter(|ids| *ids > 0);
        let content = !event.stop && (event.content.filled() || ids.is_some());
        if content {
            event.content.add_to(text);
        }
        Ok(StreamEvent {
            content,
            tokens: ids.filter(|_| content),
            most_tokens: event.content.bytes().max(ids.unwrap_or(u64::from(!event.stop))),
            last: event.stop,
            counts: Counts {
                input: event.tokens_evaluated.filter(|_| event.stop),
                output: event.tokens_predicted.filter(|_| event.stop),
            },
            // `truncated` is a limit too: the context was full before the requested length.
            finish: event.stop.then(|| match event.stop_type.as_deref() {
                Some("limit") | None => "length".to_owned(),
                Some(_) if event.truncated => "length".to_owned(),
                Some(other) => other.to_owned(),
            }),
        })
    }
}

/// Ollama's `POST /api/generate`: one JSON object per line, the last one with `done: true`.
#[derive(Debug)]
pub(super) struct Ollama;

#[derive(Deserialize)]
struct OllamaLine<'a> {
    #[serde(borrow, default)]
    response: Text<'a>,
    #[serde(borrow, default)]
    thinking: Text<'a>,
    #[serde(default)]
    done: bool,
    done_reason: Option<String>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<Value>,
}

impl Decode for Ollama {
    fn framing(&self) -> Framing {
        Framing::Ndjson
    }

    fn event(&mut self, _: &str, data: &str, mut text: Option<&mut String>) -> Result<StreamEvent, String> {
        let line = serde_json::from_str::<OllamaLine<'_>>(data);
        let line = line.map_err(|error| format!("not an Ollama response: {error}"))?;
        if let Some(error) = line.error {
            return Err(error_text(&error));
        }
        line.thinking.add_to(text.as_deref_mut());
        line.response.add_to(text);
        Ok(StreamEvent {
            content: line.response.filled() || line.thinking.filled(),
            tokens: None,
            most_tokens: (line.response.bytes() + line.thinking.bytes()).max(u64::from(!line.done)),
            last: line.done,
            counts: Counts {
                input: line.prompt_eval_count,
                output: line.eval_count,
            },
            // Old versions give no reason.
            finish: line.done.then(|| line.done_reason.unwrap_or_else(|| "stop".to_owned())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(decoder: &mut dyn Decode, data: &str) -> StreamEvent {
        decoder.event("", data, None).unwrap()
    }

    #[test]
    fn real_events_are_read() {
        let token = read(
            &mut Tgi,
            r#"{"index":4,"token":{"id":18979,"text":"x","logprob":-6.28125,"special":false},"generated_text":null,"details":null}"#,
        );
        assert_eq!((token.content, token.tokens, token.last), (true, Some(1), false));
        let last = read(
            &mut Tgi,
            r#"{"index":5,"token":{"id":26345,"text":"y","logprob":-7.34375,"special":false},"generated_text":"xy","details":{"finish_reason":"length","generated_tokens":5,"seed":null,"input_length":5}}"#,
        );
        assert!(last.content && last.last);
        assert_eq!(last.finish.as_deref(), Some("length"));
        assert_eq!(
            last.counts,
            Counts {
                input: Some(5),
                output: Some(5)
            }
        );
    }

    #[test]
    fn an_error_comes_with_status_200() {
        let error = Tgi.event("", r#"{"error":"Model is overloaded","error_type":"overloaded"}"#, None);
        assert_eq!(error, Err("Model is overloaded".to_owned()));
    }

    #[test]
    fn partial_and_last_events_are_read() {
        let partial = read(
            &mut LlamaCpp,
            r#"{"index":0,"content":" a","tokens":[7],"stop":false,"id_slot":-1,"tokens_predicted":1,"tokens_evaluated":4}"#,
        );
        assert_eq!((partial.content, partial.tokens, partial.finish), (true, Some(1), None));
        let last = read(
            &mut LlamaCpp,
            r#"{"content":"","tokens":[],"stop":true,"stop_type":"limit","truncated":false,"tokens_predicted":8,"tokens_evaluated":4,"timings":{"prompt_n":4}}"#,
        );
        assert_eq!(
            (last.content, last.last, last.finish.as_deref()),
            (false, true, Some("length"))
        );
        assert_eq!(
            last.counts,
            Counts {
                input: Some(4),
                output: Some(8)
            }
        );
    }

    #[test]
    fn the_end_of_text_and_errors_are_distinguished() {
        let eos = read(
            &mut LlamaCpp,
            r#"{"content":"","stop":true,"stop_type":"eos","tokens_predicted":3,"tokens_evaluated":4}"#,
        );
        assert_eq!(eos.finish.as_deref(), Some("eos"));
        let error = LlamaCpp.event(
            "",
            r#"{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}"#,
            None,
        );
        assert_eq!(error, Err("Context size has been exceeded.".to_owned()));
    }

    #[test]
    fn lines_are_read() {
        assert!(read(&mut Ollama, r#"{"model":"m","response":" a","done":false}"#).content);
        let last = read(
            &mut Ollama,
            r#"{"response":"","done":true,"done_reason":"length","prompt_eval_count":26,"eval_count":259}"#,
        );
        assert_eq!((last.last, last.finish.as_deref()), (true, Some("length")));
        assert_eq!(
            last.counts,
            Counts {
                input: Some(26),
                output: Some(259)
            }
        );
        assert_eq!(Ollama.event("", r#"{"error":"no"}"#, None), Err("no".to_owned()));
    }
}
