//! Decodes Ollama's `POST /api/generate`: one JSON object per line, the last one with `done: true`.

use serde::Deserialize;
use serde_json::Value;

use super::{Text, error_text};
use crate::load::{Counts, Decode, Framing, StreamEvent};

#[derive(Debug, Default)]
pub(super) struct Ollama;

#[derive(Deserialize)]
struct Line<'a> {
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

    fn event(&mut self, _: &str, data: &str, mut text: Option<&mut String>) -> StreamEvent {
        let line = match serde_json::from_str::<Line<'_>>(data) {
            Ok(line) => line,
            Err(error) => return StreamEvent::error(format!("not an Ollama response: {error}")),
        };
        if let Some(error) = line.error {
            return StreamEvent::error(error_text(&error));
        }
        line.thinking.add_to(text.as_deref_mut());
        line.response.add_to(text);
        StreamEvent {
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
            error: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        assert!(
            Ollama
                .event("", r#"{"model":"m","response":" a","done":false}"#, None)
                .content
        );
        let last = Ollama.event(
            "",
            r#"{"response":"","done":true,"done_reason":"length","prompt_eval_count":26,"eval_count":259}"#,
            None,
        );
        assert_eq!((last.last, last.finish.as_deref()), (true, Some("length")));
        assert_eq!(
            last.counts,
            Counts {
                input: Some(26),
                output: Some(259)
            }
        );
        assert_eq!(Ollama.event("", r#"{"error":"no"}"#, None).error.as_deref(), Some("no"));
    }
}
