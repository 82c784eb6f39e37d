//! Decodes the OpenAI protocols, completions and chat: `choices`, `usage`, and errors within a stream of status 200.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::Value;

use super::{Items, Text, error_text};
use crate::load::{Counts, Decode, Framing, StreamEvent};

#[derive(Debug, Default)]
pub(super) struct OpenAi {
    // Output tokens of the newest event that reported them (`continuous_usage_stats`). The difference is the event's
    // token count.
    counted: u64,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    choices: Choices<'a>,
    usage: Option<Usage>,
    error: Option<Value>,
    #[serde(borrow, default)]
    object: Text<'a>,
    message: Option<Value>,
}

/// The items of `choices`, usually one. The first needs no allocation.
#[derive(Default)]
struct Choices<'a> {
    first: Option<Choice<'a>>,
    others: Vec<Choice<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Choices<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Choices::default())
    }
}

impl<'de> Visitor<'de> for Choices<'de> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of choices")
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut choices: A) -> Result<Self, A::Error> {
        self.first = choices.next_element()?;
        while let Some(choice) = choices.next_element()? {
            self.others.push(choice);
        }
        Ok(self)
    }
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(default)]
    token_ids: Items,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Text<'a>,
    #[serde(borrow)]
    reasoning: Text<'a>,
    #[serde(borrow)]
    reasoning_content: Text<'a>,
    tool_calls: Items,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

impl Decode for OpenAi {
    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn event(&mut self, name: &str, data: &str, text: Option<&mut String>) -> Result<StreamEvent, String> {
        if data.trim() == "[DONE]" {
            return Ok(StreamEvent {
                last: true,
                ..StreamEvent::default()
            });
        }
        if name == "error" {
            return Err(serde_json::from_str(data).map_or_else(|_| data.to_owned(), |error| error_text(&error)));
        }
        match serde_json::from_str::<Event<'_>>(data) {
            Ok(event) => self.piece(event, text),
            // transformers writes its errors without JSON escapes.
            Err(_) => Err(match data.trim_start().strip_prefix("{\"error\":") {
                Some(rest) => rest
                    .trim_matches(|c: char| c.is_whitespace() || "\"}".contains(c))
                    .to_owned(),
                None => format!("event is not JSON: {}", data.chars().take(200).collect::<String>()),
            }),
        }
    }
}

impl OpenAi {
    fn piece(&mut self, event: Event<'_>, mut text: Option<&mut String>) -> Result<StreamEvent, String> {
        if let Some(error) = event.error.filter(|error| !error.is_null()) {
            return Err(error_text(&error));
        }
        if event.object.0 == "error" {
            return Err(event.message.as_ref().map_or_else(|| "error".to_owned(), error_text));
        }
        let mut piece = StreamEvent::default();
        let mut ids = None;
        let of_a_choice = event.choices.first.is_some();
        for choice in event.choices.first.into_iter().chain(event.choices.others) {
            let delta = choice.delta.unwrap_or_default();
            for part in [choice.text, delta.reasoning, delta.reasoning_content, delta.content] {
                piece.content |= part.filled();
                piece.most_tokens += part.bytes();
                part.add_to(text.as_deref_mut());
            }
            piece.content |= delta.tool_calls.0.is_some_and(|calls| calls > 0);
            ids = choice.token_ids.0.or(ids);
            piece.finish = choice.finish_reason.or(piece.finish);
        }
        let stands_for_one = of_a_choice && piece.finish.is_none();
        let most_tokens = piece.most_tokens.max(ids.unwrap_or_default());
        piece.most_tokens = most_tokens.max(u64::from(stands_for_one));
        // A token with incomplete text (half a UTF-8 character) has an id but no text.
        piece.content |= ids.is_some_and(|ids| ids > 0);
        if let Some(usage) = event.usage {
            piece.counts = Counts {
                input: usage.prompt_tokens,
                output: usage.completion_tokens,
            };
        }
        let counted = piece.counts.output.map(|output| {
            let more = output.saturating_sub(self.counted);
            self.counted = output;
            more
        });
        // A token may also be visible only in the counts.
        piece.content |= of_a_choice && counted.is_some_and(|counted| counted > 0);
        piece.tokens = ids.or(counted).filter(|_| piece.content);
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(data: &str) -> StreamEvent {
        OpenAi::default().event("", data, None).unwrap()
    }

    #[test]
    fn completions_have_text_ids_finish_and_usage() {
        let mut decoder = OpenAi::default();
        let first = decoder.event(
            "",
            r#"{"choices":[{"index":0,"text":"a b","token_ids":[5,6],"finish_reason":null}],"usage":{"prompt_tokens":9,"completion_tokens":2}}"#, None).unwrap();
        assert!(first.content && first.finish.is_none());
        assert_eq!((first.tokens, first.counts.input), (Some(2), Some(9)));
        let last = decoder
            .event("", r#"{"choices":[{"text":"","finish_reason":"length"}]}"#, None)
            .unwrap();
        assert_eq!(
            (last.content, last.finish.as_deref(), last.tokens),
            (false, Some("length"), None)
        );
        let usage = decoder
            .event(
                "",
                r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}"#,
                None,
            )
            .unwrap();
        assert_eq!((usage.content, usage.counts.output), (false, Some(2)));
        assert!(decoder.event("", "[DONE]", None).unwrap().last);
    }

    #[test]
    fn continuous_usage_gives_the_tokens_of_an_event() {
        let mut decoder = OpenAi::default();
        let tokens = |decoder: &mut OpenAi, total: u64| {
            let data = format!(r#"{{"choices":[{{"text":"x"}}],"usage":{{"completion_tokens":{total}}}}}"#);
            decoder.event("", &data, None).unwrap().tokens
        };
        assert_eq!(tokens(&mut decoder, 1), Some(1));
        assert_eq!(tokens(&mut decoder, 3), Some(2));
    }

    #[test]
    fn a_role_is_no_content_and_reasoning_is() {
        assert!(!piece(r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#).content);
        assert!(piece(r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#).content);
        assert!(piece(r#"{"choices":[{"delta":{"content":"x"}}]}"#).content);
    }

    #[test]
    fn an_id_without_text_is_a_token() {
        let half = piece(r#"{"choices":[{"text":"","token_ids":[7]}]}"#);
        assert_eq!((half.content, half.tokens), (true, Some(1)));
    }

    #[test]
    fn errors_are_read_in_every_form() {
        let error = |data: &str| OpenAi::default().event("", data, None).unwrap_err();
        assert_eq!(
            error(r#"{"error":{"message":"out of memory","code":500}}"#),
            "out of memory"
        );
        assert_eq!(
            error(r#"{"error":"Model is overloaded","error_type":"overloaded"}"#),
            "Model is overloaded"
        );
        assert_eq!(error(r#"{"object":"error","message":"bad"}"#), "bad");
        assert_eq!(error("{\"error\": \"CUDA \"oom\" at\nline\"}"), "CUDA \"oom\" at\nline");
        assert_eq!(OpenAi::default().event("error", "down", None).unwrap_err(), "down");
        assert!(error("<html>").contains("not JSON"));
    }

    #[test]
    fn real_events_of_tgi_are_read() {
        let chat = piece(
            r#"{"object":"chat.completion.chunk","id":"","created":1795186594,"model":"m","system_fingerprint":"3.3.6-dev0-native","choices":[{"index":0,"delta":{"role":"assistant","content":"gested"},"logprobs":null,"finish_reason":"length"}],"usage":null}"#,
        );
        assert_eq!((chat.content, chat.finish.as_deref()), (true, Some("length")));
    }
}
