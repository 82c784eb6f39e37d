//! Events of the OpenAI protocols, completions and chat, in the shapes that servers give them. The tests have the table
//! of shapes.

use std::borrow::Cow;
use std::fmt;
use std::mem::take;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};

use super::fields::{Field, Given, Text, Usage, error_of, read_in_place};
use crate::fault::Result;
use crate::load::{Counts, StreamEvent};

#[derive(Default)]
struct OpenAiEvent<'a> {
    choices: Choices<'a>,
    usage: Usage,
    /// Groq's place for the usage.
    x_groq: Usage,
    error: Given,
    object: Field<'a>,
    message: Given,
}

read_in_place!(OpenAiEvent {
    "choices" => choices, "usage" => usage, "x_groq" => x_groq, "error" => error, "object" => object, "message" => message
});

/// Most choices of an event: OpenAI's own limit of `n`. Each takes a kilobyte, and may be sent in three bytes.
const MAX_CHOICES: usize = 128;

/// The items of `choices`, usually one. The first needs no allocation.
#[derive(Default)]
struct Choices<'a> {
    count: usize,
    first: Choice<'a>,
    others: Vec<Choice<'a>>,
}

impl<'de> DeserializeSeed<'de> for &mut Choices<'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Choices<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of choices")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        if self.count > 0 {
            *self = Choices::default();
        }
        while seq.next_element_seed(NextChoice(self))?.is_some() {}
        Ok(())
    }
}

struct NextChoice<'c, 'a>(&'c mut Choices<'a>);

impl<'de> DeserializeSeed<'de> for NextChoice<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Choices { count, first, others } = self.0;
        *count += 1;
        if *count > MAX_CHOICES {
            return Err(D::Error::custom(format!("more than {MAX_CHOICES} choices")));
        }
        if *count > 1 {
            others.push(Choice::default());
        }
        others.last_mut().unwrap_or(first).deserialize(deserializer)
    }
}

#[derive(Default)]
struct Choice<'a> {
    text: Text<'a>,
    delta: GivenDelta<'a>,
    /// The whole answer, from servers that do not cut it into deltas, or repeat it at the end.
    message: GivenDelta<'a>,
    token_ids: Field<'a>,
    finish_reason: Field<'a>,
    usage: Usage,
}

read_in_place!(Choice {
    "text" => text, "delta" => delta, "message" => message, "token_ids" => token_ids, "finish_reason" => finish_reason,
    "usage" => usage
});

/// A delta, if it is given and is not null.
#[derive(Default)]
struct GivenDelta<'a>(Option<Box<Delta<'a>>>);

impl<'de> DeserializeSeed<'de> for &mut GivenDelta<'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for &mut GivenDelta<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or null")
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.0 = None;
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.insert(Box::default()).deserialize(deserializer)
    }
}

#[derive(Default)]
struct Delta<'a> {
    content: Text<'a>,
    refusal: Text<'a>,
    reasoning: Text<'a>,
    reasoning_content: Text<'a>,
    thinking: Text<'a>,
    tool_calls: Text<'a>,
    function_call: Text<'a>,
}

read_in_place!(Delta {
    "content" => content, "refusal" => refusal, "reasoning" => reasoning, "reasoning_content" => reasoning_content,
    "thinking" => thinking, "tool_calls" => tool_calls, "function_call" => function_call
});

/// Decodes the events of one answer.
#[derive(Default)]
pub(super) struct OpenAi {
    counted: Counted,
    /// Events with text or tokens so far.
    events: u64,
}

impl OpenAi {
    pub(super) fn event(&mut self, name: &str, data: &str, text: Option<&mut String>) -> Result<StreamEvent, String> {
        let trimmed = data.trim();
        if trimmed == "[DONE]" {
            return Ok(StreamEvent {
                last: true,
                ..StreamEvent::default()
            });
        }
        if name == "error" {
            return Err(error_of(data, None));
        }
        // A keep-alive.
        if trimmed.is_empty() || name == "ping" {
            return Ok(StreamEvent::default());
        }
        let mut event = OpenAiEvent::default();
        let mut json = serde_json::Deserializer::from_str(data);
        match event.deserialize(&mut json).and_then(|()| json.end()) {
            Ok(()) => self.read(&mut event, data, text),
            // transformers writes its errors without JSON escapes.
            Err(error) => Err(match data.trim_start().strip_prefix("{\"error\":") {
                Some(rest) => rest
                    .trim_matches(|c: char| c.is_whitespace() || "\"}".contains(c))
                    .to_owned(),
                None if error.is_data() => format!("event is of another form: {error}: {}", begin(data)),
                None => format!("event is not JSON: {}", begin(data)),
            }),
        }
    }

    fn read(
        &mut self,
        event: &mut OpenAiEvent<'_>,
        data: &str,
        mut text: Option<&mut String>,
    ) -> Result<StreamEvent, String> {
        if event.error.0 {
            return Err(error_of(data, Some("error")));
        }
        if event.object.text == "error" {
            let message = event.message.0.then(|| error_of(data, Some("message")));
            return Err(message.unwrap_or_else(|| "error".to_owned()));
        }
        let mut piece = StreamEvent::default();
        let mut usage = event.usage.or(event.x_groq);
        let mut ids = None;
        let Choices { count, first, others } = &mut event.choices;
        let of_a_choice = *count > 0;
        for choice in std::iter::once(first).chain(others).take(*count) {
            // A message at the end repeats the deltas.
            let whole = choice
                .message
                .0
                .take()
                .filter(|_| choice.delta.0.is_none() && self.events == 0);
            let mut add = |part: &Text<'_>| {
                piece.visible |= !part.shown.is_empty();
                piece.bytes += part.bytes();
                part.add_to(text.as_deref_mut());
            };
            add(&choice.text);
            if let Some(mut delta) = choice.delta.0.take().or(whole) {
                // Servers that renamed the field send it under both names.
                let thoughts = [&mut delta.reasoning, &mut delta.reasoning_content, &mut delta.thinking];
                if let Some(thought) = thoughts.into_iter().find(|thought| !thought.is_empty()) {
                    add(&take(thought).unseen());
                }
                add(&delta.content);
                add(&delta.refusal);
                piece.content |= delta.tool_calls.parts > 0;
                for calls in [&mut delta.tool_calls, &mut delta.function_call] {
                    if !calls.is_empty() {
                        add(&take(calls).unseen());
                    }
                }
            }
            ids = choice.token_ids.items.or(ids);
            usage = usage.or(choice.usage);
            let finish = Some(take(&mut choice.finish_reason.text)).filter(|reason| !matches!(&**reason, "" | "null"));
            piece.finish = finish.map(Cow::into_owned).or(piece.finish.take());
        }
        let stands_for_one = of_a_choice && piece.finish.is_none();
        let most_tokens = piece.bytes.max(ids.unwrap_or_default());
        piece.most_tokens = most_tokens.max(u64::from(stands_for_one));
        // A token with incomplete text (half a UTF-8 character) has an id but no text.
        piece.content |= piece.bytes > 0 || ids.is_some_and(|ids| ids > 0);
        let counted = usage.output.filter(|count| *count > 0).map(|count| {
            // A token without text is visible only in the counts, if each event has one. A total at the end is none.
            piece.content |= stands_for_one && self.counted.grows(count, self.events);
            self.counted.add(count, piece.content, !stands_for_one, self.events)
        });
        piece.counts = Counts {
            input: usage.input,
            output: counted.map(|(total, _)| total).or(usage.output),
        };
        piece.reasoning = usage.reasoning;
        // Text without a token of its own has no count that can be trusted.
        let tokens = counted.map(|(_, tokens)| tokens).filter(|tokens| *tokens > 0);
        piece.tokens = ids.or(tokens).filter(|_| piece.content);
        self.events += u64::from(piece.content);
        Ok(piece)
    }
}

/// The first characters of an event.
fn begin(data: &str) -> String {
    data.chars().take(200).collect()
}

/// The output counts of an answer's events: so far (`continuous_usage_stats`), of the event alone, or once at the end.
#[derive(Default)]
struct Counted {
    /// Events with a count.
    stated: u64,
    /// The first and the newest count.
    first: u64,
    newest: u64,
    /// Tokens of the events so far.
    total: u64,
    /// Sum of all counts.
    sum: u64,
    /// Events in a row whose count did not change, although it was no more than one for each event.
    unchanged: u64,
    /// Each event states its own tokens.
    of_the_event: bool,
}

impl Counted {
    /// Whether an event without text that has this count, after `events` with text or tokens, stands for a token.
    fn grows(&self, count: u64, events: u64) -> bool {
        self.stated == events && (events > 0 || count == 1) && count > self.total && !self.of_the_event
    }

    /// Adds the count of an event that came after `events` others with text or tokens, and may be the last (`ends`).
    /// Returns the output tokens so far, and those of this event.
    fn add(&mut self, count: u64, content: bool, ends: bool, events: u64) -> (u64, u64) {
        if self.stated == 0 {
            self.first = count;
        }
        if content {
            // A count of all tokens grows with each event.
            let unchanged = count == self.newest && count <= events;
            self.unchanged = if unchanged { self.unchanged + 1 } else { 0 };
            self.of_the_event |= self.stated > 0 && (count < self.newest || self.unchanged > 1);
            self.stated += 1;
            self.newest = count;
        }
        let before = self.total;
        if !self.of_the_event {
            self.sum += if content { count } else { 0 };
            self.total = count;
        } else if (ends || !content) && count >= self.sum && count > self.first {
            // The total.
            self.total = count;
        } else {
            self.sum += if content { count } else { 0 };
            self.total = self.sum;
        }
        (self.total, self.total.saturating_sub(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(data: &str) -> StreamEvent {
        OpenAi::default().event("", data, None).unwrap()
    }

    /// An event as a row: its text, whether it counts as output, and whether a user sees it.
    #[test]
    fn text_is_read_in_every_shape() {
        for (data, text, content, visible) in [
            (r#"{"choices":[{"text":" a"}]}"#, " a", true, true),
            (r#"{"choices":[{"text":""}]}"#, "", false, false),
            (r#"{"choices":[{"text":null}]}"#, "", false, false),
            (r#"{"choices":[{"delta":{"content":" a"}}]}"#, " a", true, true),
            (
                r#"{"choices":[{"delta":{"content":[{"type":"text","text":" a"}]}}]}"#,
                " a",
                true,
                true,
            ),
            (
                r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
                "",
                false,
                false,
            ),
            (r#"{"choices":[{"delta":{}}]}"#, "", false, false),
            (r#"{"choices":[{"delta":[]}]}"#, "", false, false),
            (r#"{"choices":[{"delta":null}]}"#, "", false, false),
            // If a member comes twice, the last one counts.
            (
                r#"{"choices":[{"text":"a"},{"text":"b"}],"choices":[{"text":" a"}]}"#,
                " a",
                true,
                true,
            ),
            (
                r#"{"choices":[{"delta":{"content":["a"],"content":[" a"]}}]}"#,
                " a",
                true,
                true,
            ),
            (
                r#"{"choices":[{"delta":{"content":" a"},"delta":null}]}"#,
                "",
                false,
                false,
            ),
            (
                r#"{"choices":[{"delta":{"content":null,"reasoning_content":"hm"}}]}"#,
                "hm",
                true,
                false,
            ),
            (
                r#"{"choices":[{"delta":{"content":null,"reasoning":"hm"}}]}"#,
                "hm",
                true,
                false,
            ),
            (
                r#"{"choices":[{"delta":{"content":"","thinking":"hm"}}]}"#,
                "hm",
                true,
                false,
            ),
            (
                r#"{"choices":[{"delta":{"reasoning":"hm","reasoning_content":"hm"}}]}"#,
                "hm",
                true,
                false,
            ),
            (
                r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}}]}"#,
                "hm",
                true,
                false,
            ),
            (
                r#"{"choices":[{"delta":{"content":null,"tool_calls":[{"index":0,"function":{"arguments":"{\"x"}}]}}]}"#,
                "{\"x",
                true,
                false,
            ),
            (
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":""}}]}}]}"#,
                "",
                true,
                false,
            ),
            (r#"{"choices":[{"delta":{"tool_calls":[]}}]}"#, "", false, false),
            (
                r#"{"choices":[{"delta":{"function_call":{"name":"f","arguments":"1"}}}]}"#,
                "f1",
                true,
                false,
            ),
            (r#"{"choices":[{"delta":{"refusal":"no"}}]}"#, "no", true, true),
            (
                r#"{"choices":[{"message":{"role":"assistant","content":" a b"}}]}"#,
                " a b",
                true,
                true,
            ),
            (r#"{"choices":[]}"#, "", false, false),
            (r#"{"choices":null}"#, "", false, false),
            (r#"{"type":"ping"}"#, "", false, false),
            ("", "", false, false),
            (" ", "", false, false),
        ] {
            let mut kept = String::new();
            let event = OpenAi::default().event("", data, Some(&mut kept)).unwrap();
            assert_eq!(
                (&*kept, event.content, event.visible),
                (text, content, visible),
                "{data}"
            );
            assert_eq!(event.bytes, text.len() as u64, "{data}");
        }
    }

    /// Values are made of no event of unusual length, and of few choices.
    #[test]
    fn an_event_takes_little_more_than_its_text() {
        let said = |data: &str| OpenAi::default().event("", data, None).unwrap_err();
        assert!(said(&format!(r#"{{"choices":[{}{{}}]}}"#, "{},".repeat(128))).contains("128 choices"));
        assert!(
            OpenAi::default()
                .event("", &format!(r#"{{"choices":[{}{{}}]}}"#, "{},".repeat(127)), None)
                .is_ok()
        );
        let echoed = format!(
            r#"{{"error":{{"input":[{}1],"message":"out of memory"}}}}"#,
            "1,".repeat(200_000)
        );
        assert_eq!(said(&echoed), "out of memory");
        assert!(said(r#"[{"detail":"out of memory"}]"#).ends_with(r#"[{"detail":"out of memory"}]"#));
    }

    /// The last events of an answer of two tokens, ` a` and ` b`, by the place of its usage.
    #[test]
    fn usage_is_read_in_every_place_and_is_no_content() {
        let counts = r#""usage":{"prompt_tokens":9,"completion_tokens":2}"#;
        let none = r#""usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#;
        for (last, input, output, finish) in [
            (
                vec![format!(
                    r#"{{"choices":[{{"text":"","finish_reason":"length"}}],{counts}}}"#
                )],
                Some(9),
                Some(2),
                Some("length"),
            ),
            (
                vec![format!(
                    r#"{{"choices":[{{"delta":{{}},"finish_reason":"stop",{counts}}}]}}"#
                )],
                Some(9),
                Some(2),
                Some("stop"),
            ),
            (
                vec![
                    r#"{"choices":[{"text":"","finish_reason":"length"}]}"#.to_owned(),
                    format!(r#"{{"choices":[],{counts}}}"#),
                ],
                Some(9),
                Some(2),
                Some("length"),
            ),
            (
                vec![
                    format!(r#"{{"choices":[{{"delta":{{"content":""}},"finish_reason":null}}],{counts}}}"#),
                    r#"{"choices":[{"text":"","finish_reason":"length"}]}"#.to_owned(),
                ],
                Some(9),
                Some(2),
                Some("length"),
            ),
            (
                vec![format!(
                    r#"{{"choices":[{{"finish_reason":"stop"}}],"x_groq":{{"id":"r",{counts}}}}}"#
                )],
                Some(9),
                Some(2),
                Some("stop"),
            ),
            (vec![format!(r#"{{"choices":[],{none}}}"#)], None, Some(0), None),
            (
                vec![r#"{"choices":[{"finish_reason":""}],"usage":null}"#.to_owned()],
                None,
                None,
                None,
            ),
        ] {
            let mut decoder = OpenAi::default();
            let events = [r#"{"choices":[{"text":" a"}]}"#, r#"{"choices":[{"text":" b"}]}"#];
            let all: Vec<StreamEvent> = events
                .into_iter()
                .chain(last.iter().map(String::as_str))
                .map(|data| decoder.event("", data, None).unwrap())
                .collect();
            let content = all.iter().filter(|event| event.content).count();
            let newest = |value: fn(&StreamEvent) -> Option<u64>| all.iter().rev().find_map(value);
            assert_eq!(content, 2, "{last:?}");
            assert_eq!(
                (newest(|event| event.counts.input), newest(|event| event.counts.output)),
                (input, output),
                "{last:?}"
            );
            assert_eq!(
                all.iter().rev().find_map(|event| event.finish.as_deref()),
                finish,
                "{last:?}"
            );
            assert!(all.iter().take(2).all(|event| event.tokens.is_none()), "{last:?}");
        }
    }

    /// The counts of events, 0 for none; the tokens of each event, and the total.
    #[test]
    fn counts_of_events_are_told_apart() {
        let text = |count: u64| format!(r#"{{"choices":[{{"text":" a"}}],"usage":{{"completion_tokens":{count}}}}}"#);
        let end = |count: u64| format!(r#"{{"choices":[],"usage":{{"completion_tokens":{count}}}}}"#);
        for (counts, total, tokens, sum) in [
            // Counts so far.
            (vec![1, 2, 3, 4], Some(4), vec![1, 1, 1, 1], 4),
            (vec![3, 6, 9], None, vec![3, 3, 3], 9),
            (vec![81, 82, 83], Some(83), vec![81, 1, 1], 83),
            (vec![1, 3, 3, 6], None, vec![1, 2, 0, 3], 6),
            (vec![1, 1, 2, 2, 3, 3], Some(3), vec![1, 0, 1, 0, 1, 0], 3),
            // The final count from the start.
            (vec![4, 4, 4, 4], Some(4), vec![4, 0, 0, 0], 4),
            // Counts of each event alone.
            (vec![1, 1, 1, 1], Some(4), vec![1, 0, 2, 1], 4),
            (vec![1, 1, 1], None, vec![1, 0, 2], 3),
            (vec![2, 1, 3, 2], Some(8), vec![2, 1, 3, 2], 8),
            (vec![2, 2, 2, 2], Some(8), vec![2, 0, 0, 6], 8),
            (vec![1, 2, 2, 2], None, vec![1, 1, 0, 5], 7),
        ] {
            let mut decoder = OpenAi::default();
            let mut read = |data: String| decoder.event("", &data, None).unwrap();
            let events: Vec<StreamEvent> = counts.iter().map(|count| read(text(*count))).collect();
            let seen: Vec<u64> = events.iter().map(|event| event.tokens.unwrap_or(0)).collect();
            assert_eq!(seen, tokens, "{counts:?}");
            let last = total.map(|total| read(end(total))).or(events.last().cloned()).unwrap();
            assert_eq!(last.counts.output, Some(sum), "{counts:?}");
        }
    }

    #[test]
    fn a_token_without_text_is_seen_by_its_id_or_its_count() {
        let half = piece(r#"{"choices":[{"text":"","token_ids":[7]}]}"#);
        assert_eq!((half.content, half.visible, half.tokens), (true, false, Some(1)));
        let mut decoder = OpenAi::default();
        let mut counted = |count: u64, finish: &str| {
            let data = format!(
                r#"{{"choices":[{{"text":"","finish_reason":{finish}}}],"usage":{{"completion_tokens":{count}}}}}"#
            );
            let event = decoder.event("", &data, None).unwrap();
            (event.content, event.tokens)
        };
        assert_eq!(counted(1, "null"), (true, Some(1)));
        assert_eq!(counted(2, "null"), (true, Some(1)));
        assert_eq!(counted(2, "null"), (false, None));
        assert_eq!(counted(3, "\"stop\""), (false, None), "a total");
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
        assert_eq!(error(r#"{"error":"down","error":null}"#), "null");
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
