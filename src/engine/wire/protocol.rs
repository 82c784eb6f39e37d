//! The wire protocols: inserting a prompt into a request body, and decoding the events of a response.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};

use crate::engine::adapter::{Protocol, RequestForm};
use crate::fault::{Fault, Result};
use crate::load::{Counts, Decode, Framing, StreamEvent};
use crate::prompt::Content;

/// A decoder for one response.
pub fn decoder(protocol: Protocol) -> Box<dyn Decode> {
    Box::new(Decoder { protocol, counted: 0 })
}

struct Decoder {
    protocol: Protocol,
    /// OpenAI: output tokens of the newest event that reported them (`continuous_usage_stats`). The difference is the
    /// event's token count.
    counted: u64,
}

impl Decode for Decoder {
    fn framing(&self) -> Framing {
        match self.protocol {
            Protocol::Ollama => Framing::Ndjson,
            _ => Framing::Sse,
        }
    }

    fn event(&mut self, name: &str, data: &str, text: Option<&mut String>) -> Result<StreamEvent, String> {
        match self.protocol {
            Protocol::OpenaiCompletions | Protocol::OpenaiChat => self.openai(name, data, text),
            Protocol::Tgi => tgi(data, text),
            Protocol::Llamacpp => llamacpp(data, text),
            Protocol::Ollama => ollama(data, text),
        }
    }
}

/// Builds the request body with its prompt. Adds `model` if the adapter's body has none: servers of a single model
/// ignore it.
pub(crate) fn body(form: &RequestForm, prompt: &Content, model: Option<&str>) -> Result<Bytes> {
    let Value::Object(mut body) = form.body.clone() else {
        return Err(Fault::usage(
            "`request(point)` of the adapter must give `body` as an object map",
        ));
    };
    let prompt = match (form.protocol, prompt) {
        (Protocol::OpenaiCompletions | Protocol::Llamacpp, Content::Tokens(ids)) => json!(ids),
        (_, Content::Text(text)) => json!(text),
        (protocol, Content::Tokens(_)) => {
            let protocol = json!(protocol);
            let wrong = format!(
                "protocol `{}` takes no token ids",
                protocol.as_str().unwrap_or_default()
            );
            return Err(Fault::usage(wrong)
                .hint("let `request(point)` of the adapter say `prompt: \"text\"`, and name a tokenizer"));
        }
    };
    match form.protocol {
        Protocol::OpenaiCompletions | Protocol::Llamacpp | Protocol::Ollama => body.insert("prompt".into(), prompt),
        Protocol::OpenaiChat => body.insert("messages".into(), json!([{ "role": "user", "content": prompt }])),
        Protocol::Tgi => body.insert("inputs".into(), prompt),
    };
    if let Some(model) = model {
        body.entry("model").or_insert_with(|| json!(model));
    }
    serde_json::to_vec(&body).map(Bytes::from).map_err(Fault::internal)
}

/// A field of any JSON type: its text if it is a string (borrowed if it has no escapes), or the number of its items if
/// it is an array.
#[derive(Default)]
struct Field<'a> {
    text: Cow<'a, str>,
    items: Option<u64>,
}

impl Field<'_> {
    /// Length of the text in bytes, an upper bound of its tokens.
    fn bytes(&self) -> u64 {
        self.text.len() as u64
    }

    /// Appends it to the response text, if that is kept.
    fn add_to(&self, text: Option<&mut String>) {
        if let Some(text) = text {
            text.push_str(&self.text);
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Field<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Field::default())
    }
}

impl<'de> Visitor<'de> for Field<'de> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E: Error>(mut self, text: &'de str) -> Result<Self, E> {
        self.text = Cow::Borrowed(text);
        Ok(self)
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<Self, E> {
        self.text = Cow::Owned(text.to_owned());
        Ok(self)
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Self, A::Error> {
        let mut items = 0;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            items += 1;
        }
        self.items = Some(items);
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(self)
    }
}

/// The error detail, without the request that the error may echo: a string, or the messages of an object together with
/// the fields that they name; otherwise the value as JSON.
pub(crate) fn error_text(error: &Value) -> String {
    fn gather<'a>(value: &'a Value, said: &mut Vec<&'a str>) {
        match value {
            Value::String(text) => said.push(text),
            Value::Array(items) => items.iter().for_each(|item| gather(item, said)),
            Value::Object(map) => ["error", "errors", "detail", "message", "msg", "loc", "param"]
                .iter()
                .filter_map(|key| map.get(*key))
                .for_each(|value| gather(value, said)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut said = Vec::new();
    gather(error, &mut said);
    if said.is_empty() {
        error.to_string()
    } else {
        said.join(": ")
    }
}

/// An event of the OpenAI protocols, completions and chat.
#[derive(Deserialize)]
struct OpenAiEvent<'a> {
    #[serde(borrow, default)]
    choices: Choices<'a>,
    usage: Option<Usage>,
    error: Option<Value>,
    #[serde(borrow, default)]
    object: Field<'a>,
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
    text: Field<'a>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    token_ids: Field<'a>,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Field<'a>,
    #[serde(borrow)]
    reasoning: Field<'a>,
    #[serde(borrow)]
    reasoning_content: Field<'a>,
    #[serde(borrow)]
    tool_calls: Field<'a>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

impl Decoder {
    fn openai(&mut self, name: &str, data: &str, text: Option<&mut String>) -> Result<StreamEvent, String> {
        if data.trim() == "[DONE]" {
            return Ok(StreamEvent {
                last: true,
                ..StreamEvent::default()
            });
        }
        if name == "error" {
            return Err(serde_json::from_str(data).map_or_else(|_| data.to_owned(), |error| error_text(&error)));
        }
        match serde_json::from_str::<OpenAiEvent<'_>>(data) {
            Ok(event) => self.openai_event(event, text),
            // transformers writes its errors without JSON escapes.
            Err(_) => Err(match data.trim_start().strip_prefix("{\"error\":") {
                Some(rest) => rest
                    .trim_matches(|c: char| c.is_whitespace() || "\"}".contains(c))
                    .to_owned(),
                None => format!("event is not JSON: {}", data.chars().take(200).collect::<String>()),
            }),
        }
    }

    fn openai_event(&mut self, event: OpenAiEvent<'_>, mut text: Option<&mut String>) -> Result<StreamEvent, String> {
        if let Some(error) = event.error {
            return Err(error_text(&error));
        }
        if event.object.text == "error" {
            return Err(event.message.as_ref().map_or_else(|| "error".to_owned(), error_text));
        }
        let mut piece = StreamEvent::default();
        let mut ids = None;
        let of_a_choice = event.choices.first.is_some();
        for choice in event.choices.first.into_iter().chain(event.choices.others) {
            let delta = choice.delta.unwrap_or_default();
            for part in [choice.text, delta.reasoning, delta.reasoning_content, delta.content] {
                piece.content |= !part.text.is_empty();
                piece.most_tokens += part.bytes();
                part.add_to(text.as_deref_mut());
            }
            piece.content |= delta.tool_calls.items.is_some_and(|calls| calls > 0);
            ids = choice.token_ids.items.or(ids);
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

/// An event as JSON.
fn parsed<'a, T: Deserialize<'a>>(what: &str, data: &'a str) -> Result<T, String> {
    serde_json::from_str(data).map_err(|error| format!("not {what}: {error}"))
}

/// TGI's `POST /generate_stream`: one token per event, `details` in the last one. There is no `[DONE]`.
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
    text: Field<'a>,
}

#[derive(Deserialize)]
struct Details {
    finish_reason: Option<String>,
    generated_tokens: Option<u64>,
    input_length: Option<u64>,
}

fn tgi(data: &str, text: Option<&mut String>) -> Result<StreamEvent, String> {
    let event: TgiEvent<'_> = parsed("a TGI event", data)?;
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

/// llama.cpp's `POST /completion`: partial events with `content` and `tokens`, then one with `stop: true`. There is no
/// `[DONE]`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct LlamaCppEvent<'a> {
    #[serde(borrow)]
    content: Field<'a>,
    #[serde(borrow)]
    tokens: Field<'a>,
    stop: bool,
    stop_type: Option<String>,
    truncated: bool,
    tokens_predicted: Option<u64>,
    tokens_evaluated: Option<u64>,
    error: Option<Value>,
}

fn llamacpp(data: &str, text: Option<&mut String>) -> Result<StreamEvent, String> {
    let event: LlamaCppEvent<'_> = parsed("a llama.cpp event", data)?;
    if let Some(error) = event.error {
        return Err(error_text(&error));
    }
    let ids = event.tokens.items.filter(|ids| *ids > 0);
    let content = !event.stop && (!event.content.text.is_empty() || ids.is_some());
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

/// Ollama's `POST /api/generate`: one JSON object per line, the last one with `done: true`.
#[derive(Deserialize)]
struct OllamaLine<'a> {
    #[serde(borrow, default)]
    response: Field<'a>,
    #[serde(borrow, default)]
    thinking: Field<'a>,
    #[serde(default)]
    done: bool,
    done_reason: Option<String>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<Value>,
}

fn ollama(data: &str, mut text: Option<&mut String>) -> Result<StreamEvent, String> {
    let line: OllamaLine<'_> = parsed("an Ollama response", data)?;
    if let Some(error) = line.error {
        return Err(error_text(&error));
    }
    line.thinking.add_to(text.as_deref_mut());
    line.response.add_to(text);
    Ok(StreamEvent {
        content: !(line.response.text.is_empty() && line.thinking.text.is_empty()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::PromptForm;

    fn sent(protocol: Protocol, prompt: &Content) -> Value {
        let form = RequestForm {
            protocol,
            path: "/x".into(),
            prompt: PromptForm::Text,
            body: json!({ "n": 1 }),
        };
        serde_json::from_slice(&body(&form, prompt, Some("m")).unwrap()).unwrap()
    }

    #[test]
    fn each_protocol_has_its_place_for_the_prompt() {
        let text = Content::Text("hi".into());
        let ids = Content::Tokens(vec![1, 2]);
        assert_eq!(
            sent(Protocol::OpenaiCompletions, &ids),
            json!({ "n": 1, "prompt": [1, 2], "model": "m" })
        );
        assert_eq!(
            sent(Protocol::Llamacpp, &ids),
            json!({ "model": "m", "n": 1, "prompt": [1, 2] })
        );
        assert_eq!(
            sent(Protocol::Tgi, &text),
            json!({ "model": "m", "n": 1, "inputs": "hi" })
        );
        assert_eq!(
            sent(Protocol::OpenaiChat, &text),
            json!({ "n": 1, "messages": [{ "role": "user", "content": "hi" }], "model": "m" })
        );
    }

    #[test]
    fn ids_are_refused_by_text_protocols() {
        let form = RequestForm {
            protocol: Protocol::Tgi,
            path: "/x".into(),
            prompt: PromptForm::Tokens,
            body: json!({}),
        };
        assert!(
            body(&form, &Content::Tokens(vec![1]), None)
                .unwrap_err()
                .message
                .contains("`tgi`")
        );
    }

    #[test]
    fn strings_and_item_counts_are_read() {
        let text = |json: &str| serde_json::from_str::<Field<'_>>(json).unwrap().text.into_owned();
        assert_eq!((text("\"a\\n\""), text("\"b\"")), ("a\n".into(), "b".into()));
        for empty in ["\"\"", "null", "3", "{\"a\":[1]}"] {
            assert_eq!(text(empty), "", "{empty}");
        }
        let items = |json: &str| serde_json::from_str::<Field<'_>>(json).unwrap().items;
        assert_eq!(
            (items("[1,[2],{}]"), items("[]"), items("null")),
            (Some(3), Some(0), None)
        );
    }

    #[test]
    fn an_error_has_a_text_in_every_form() {
        let text = |json: &str| error_text(&serde_json::from_str(json).unwrap());
        assert_eq!(text("\"a\""), "a");
        assert_eq!(text("{\"message\":\"b\",\"code\":400}"), "b");
        assert_eq!(text("{\"code\":400}"), "{\"code\":400}");
        let repeated = r#"{"detail":[{"loc":["body","seed"],"msg":"Not allowed","input":{"ignore_eos":true}}]}"#;
        assert_eq!(text(repeated), "Not allowed: body: seed");
    }

    fn piece(data: &str) -> StreamEvent {
        decoder(Protocol::OpenaiChat).event("", data, None).unwrap()
    }

    #[test]
    fn completions_have_text_ids_finish_and_usage() {
        let mut decoder = decoder(Protocol::OpenaiChat);
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
        let mut decoder = decoder(Protocol::OpenaiChat);
        let tokens = |decoder: &mut Box<dyn Decode>, total: u64| {
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
        let error = |data: &str| decoder(Protocol::OpenaiChat).event("", data, None).unwrap_err();
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
        assert_eq!(
            decoder(Protocol::OpenaiChat).event("error", "down", None).unwrap_err(),
            "down"
        );
        assert!(error("<html>").contains("not JSON"));
    }

    #[test]
    fn real_events_of_tgi_are_read() {
        let chat = piece(
            r#"{"object":"chat.completion.chunk","id":"","created":1795186594,"model":"m","system_fingerprint":"3.3.6-dev0-native","choices":[{"index":0,"delta":{"role":"assistant","content":"gested"},"logprobs":null,"finish_reason":"length"}],"usage":null}"#,
        );
        assert_eq!((chat.content, chat.finish.as_deref()), (true, Some("length")));
    }

    fn read(protocol: Protocol, data: &str) -> StreamEvent {
        decoder(protocol).event("", data, None).unwrap()
    }

    #[test]
    fn real_events_are_read() {
        let token = read(
            Protocol::Tgi,
            r#"{"index":4,"token":{"id":18979,"text":"x","logprob":-6.28125,"special":false},"generated_text":null,"details":null}"#,
        );
        assert_eq!((token.content, token.tokens, token.last), (true, Some(1), false));
        let last = read(
            Protocol::Tgi,
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
        let error =
            decoder(Protocol::Tgi).event("", r#"{"error":"Model is overloaded","error_type":"overloaded"}"#, None);
        assert_eq!(error, Err("Model is overloaded".to_owned()));
    }

    #[test]
    fn partial_and_last_events_are_read() {
        let partial = read(
            Protocol::Llamacpp,
            r#"{"index":0,"content":" a","tokens":[7],"stop":false,"id_slot":-1,"tokens_predicted":1,"tokens_evaluated":4}"#,
        );
        assert_eq!((partial.content, partial.tokens, partial.finish), (true, Some(1), None));
        let last = read(
            Protocol::Llamacpp,
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
            Protocol::Llamacpp,
            r#"{"content":"","stop":true,"stop_type":"eos","tokens_predicted":3,"tokens_evaluated":4}"#,
        );
        assert_eq!(eos.finish.as_deref(), Some("eos"));
        let error = decoder(Protocol::Llamacpp).event(
            "",
            r#"{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}"#,
            None,
        );
        assert_eq!(error, Err("Context size has been exceeded.".to_owned()));
    }

    #[test]
    fn lines_are_read() {
        assert!(read(Protocol::Ollama, r#"{"model":"m","response":" a","done":false}"#).content);
        let last = read(
            Protocol::Ollama,
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
        assert_eq!(
            decoder(Protocol::Ollama).event("", r#"{"error":"no"}"#, None),
            Err("no".to_owned())
        );
    }
}
