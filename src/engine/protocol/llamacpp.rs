//! Decodes llama.cpp's `POST /completion`: partial events with `content` and `tokens`, then one with `stop: true`.
//! There is no `[DONE]`.

use serde::Deserialize;
use serde_json::Value;

use super::{Items, Text, error_text};
use crate::load::{Counts, Decode, Framing, StreamEvent};

#[derive(Debug, Default)]
pub(super) struct LlamaCpp;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Event<'a> {
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

    fn event(&mut self, _: &str, data: &str, text: Option<&mut String>) -> StreamEvent {
        let event = match serde_json::from_str::<Event<'_>>(data) {
            Ok(event) => event,
            Err(error) => return StreamEvent::error(format!("not a llama.cpp event: {error}")),
        };
        if let Some(error) = event.error {
            return StreamEvent::error(error_text(&error));
        }
        let ids = event.tokens.0.filter(|ids| *ids > 0);
        let content = !event.stop && (event.content.filled() || ids.is_some());
        if content {
            event.content.add_to(text);
        }
        StreamEvent {
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
            error: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_and_last_events_are_read() {
        let partial = LlamaCpp.event("", r#"{"index":0,"content":" a","tokens":[7],"stop":false,"id_slot":-1,"tokens_predicted":1,"tokens_evaluated":4}"#, None);
        assert_eq!((partial.content, partial.tokens, partial.finish), (true, Some(1), None));
        let last = LlamaCpp.event("", r#"{"content":"","tokens":[],"stop":true,"stop_type":"limit","truncated":false,"tokens_predicted":8,"tokens_evaluated":4,"timings":{"prompt_n":4}}"#, None);
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
        let eos = LlamaCpp.event(
            "",
            r#"{"content":"","stop":true,"stop_type":"eos","tokens_predicted":3,"tokens_evaluated":4}"#,
            None,
        );
        assert_eq!(eos.finish.as_deref(), Some("eos"));
        let error = LlamaCpp.event(
            "",
            r#"{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}"#,
            None,
        );
        assert_eq!(error.error.as_deref(), Some("Context size has been exceeded."));
    }
}
