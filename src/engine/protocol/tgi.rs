//! Decodes TGI's `POST /generate_stream`: one token per event, `details` in the last one. There is no `[DONE]`.

use serde::Deserialize;
use serde_json::Value;

use super::{Text, error_text};
use crate::load::{Counts, Decode, Framing, StreamEvent};

#[derive(Debug, Default)]
pub(super) struct Tgi;

#[derive(Deserialize)]
struct Event<'a> {
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

    fn event(&mut self, _: &str, data: &str, text: Option<&mut String>) -> StreamEvent {
        let event = match serde_json::from_str::<Event<'_>>(data) {
            Ok(event) => event,
            Err(error) => return StreamEvent::error(format!("not a TGI event: {error}")),
        };
        if let Some(error) = event.error {
            return StreamEvent::error(error_text(&error));
        }
        if let Some(token) = &event.token {
            token.text.add_to(text);
        }
        let details = event.details;
        StreamEvent {
            content: event.token.is_some(),
            tokens: event.token.as_ref().map(|_| 1),
            most_tokens: event.token.as_ref().map_or(0, |token| token.text.bytes().max(1)),
            last: details.is_some(),
            counts: Counts {
                input: details.as_ref().and_then(|details| details.input_length),
                output: details.as_ref().and_then(|details| details.generated_tokens),
            },
            finish: details.and_then(|details| details.finish_reason),
            error: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_events_are_read() {
        let token = Tgi.event("", r#"{"index":4,"token":{"id":18979,"text":"x","logprob":-6.28125,"special":false},"generated_text":null,"details":null}"#, None);
        assert_eq!((token.content, token.tokens, token.last), (true, Some(1), false));
        let last = Tgi.event("", r#"{"index":5,"token":{"id":26345,"text":"y","logprob":-7.34375,"special":false},"generated_text":"xy","details":{"finish_reason":"length","generated_tokens":5,"seed":null,"input_length":5}}"#, None);
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
        assert_eq!(error.error.as_deref(), Some("Model is overloaded"));
    }
}
