//! The wire protocols: inserting a prompt into a request body, and decoding the events of a response.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fields::{Field, Text, error_of};
use super::openai::OpenAi;
use crate::engine::adapter::{Protocol, RequestForm};
use crate::fault::{Fault, Result};
use crate::load::{Counts, Decode, Framing, StreamEvent};
use crate::prompt::Content;

/// A decoder for one response.
pub fn decoder(protocol: Protocol) -> Box<dyn Decode> {
    Box::new(Decoder {
        protocol,
        openai: OpenAi::default(),
    })
}

struct Decoder {
    protocol: Protocol,
    openai: OpenAi,
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
            Protocol::OpenaiCompletions | Protocol::OpenaiChat => self.openai.event(name, data, text),
            Protocol::Tgi => tgi(data, text),
            Protocol::Llamacpp => llamacpp(data, text),
            Protocol::Ollama => ollama(data, text),
        }
    }
}

/// Builds the request body with its prompt. Adds `model` if the adapter's body has none: servers of a single model
/// ignore it.
pub(crate) fn body(form: &RequestForm, prompt: &Content, model: Option<&str>) -> Result<Bytes> {
    let Value::Object(given) = &form.body else {
        return Err(Fault::usage(
            "`request(point)` of the adapter must give `body` as an object map",
        ));
    };
    let mut body: BTreeMap<&str, Member<'_>> = BTreeMap::new();
    body.extend(model.map(|model| ("model", Member::Text(model))));
    body.extend(given.iter().map(|(key, value)| (key.as_str(), Member::Given(value))));
    let prompt = match (form.protocol, prompt) {
        (Protocol::OpenaiCompletions | Protocol::Llamacpp, Content::Tokens(ids)) => Member::Ids(ids),
        (Protocol::OpenaiChat, Content::Text(content)) => Member::Messages([Message { role: "user", content }]),
        (_, Content::Text(text)) => Member::Text(text),
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
    let place = match form.protocol {
        Protocol::OpenaiCompletions | Protocol::Llamacpp | Protocol::Ollama => "prompt",
        Protocol::OpenaiChat => "messages",
        Protocol::Tgi => "inputs",
    };
    body.insert(place, prompt);
    let mut body = serde_json::to_vec(&body).map_err(Fault::internal)?;
    body.shrink_to_fit();
    Ok(body.into())
}

/// A member of a request's body. The prompt is written from where it is: as values, ids would take 32 bytes each.
#[derive(Serialize)]
#[serde(untagged)]
enum Member<'a> {
    Given(&'a Value),
    Ids(&'a [u32]),
    Text(&'a str),
    Messages([Message<'a>; 1]),
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
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
    error: Option<IgnoredAny>,
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

fn tgi(data: &str, text: Option<&mut String>) -> Result<StreamEvent, String> {
    let event: TgiEvent<'_> = parsed("a TGI event", data)?;
    if event.error.is_some() {
        return Err(error_of(data, Some("error")));
    }
    if let Some(token) = &event.token {
        token.text.add_to(text);
    }
    let details = event.details;
    let bytes = event.token.as_ref().map_or(0, |token| token.text.bytes());
    Ok(StreamEvent {
        content: event.token.is_some(),
        visible: bytes > 0,
        bytes,
        tokens: event.token.as_ref().map(|_| 1),
        most_tokens: bytes.max(u64::from(event.token.is_some())),
        last: details.is_some(),
        counts: Counts {
            input: details.as_ref().and_then(|details| details.input_length),
            output: details.as_ref().and_then(|details| details.generated_tokens),
        },
        finish: details.and_then(|details| details.finish_reason),
        reasoning: None,
    })
}

/// llama.cpp's `POST /completion`: partial events with `content` and `tokens`, then one with `stop: true`. There is no
/// `[DONE]`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct LlamaCppEvent<'a> {
    #[serde(borrow)]
    content: Text<'a>,
    #[serde(borrow)]
    tokens: Field<'a>,
    stop: bool,
    stop_type: Option<String>,
    truncated: bool,
    tokens_predicted: Option<u64>,
    tokens_evaluated: Option<u64>,
    error: Option<IgnoredAny>,
}

fn llamacpp(data: &str, text: Option<&mut String>) -> Result<StreamEvent, String> {
    let event: LlamaCppEvent<'_> = parsed("a llama.cpp event", data)?;
    if event.error.is_some() {
        return Err(error_of(data, Some("error")));
    }
    let ids = event.tokens.items.filter(|ids| *ids > 0);
    let content = !event.stop && (!event.content.is_empty() || ids.is_some());
    if content {
        event.content.add_to(text);
    }
    let bytes = if content { event.content.bytes() } else { 0 };
    Ok(StreamEvent {
        content,
        visible: bytes > 0,
        bytes,
        reasoning: None,
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
    response: Text<'a>,
    #[serde(borrow, default)]
    thinking: Text<'a>,
    #[serde(default)]
    done: bool,
    done_reason: Option<String>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<IgnoredAny>,
}

fn ollama(data: &str, mut text: Option<&mut String>) -> Result<StreamEvent, String> {
    let line: OllamaLine<'_> = parsed("an Ollama response", data)?;
    if line.error.is_some() {
        return Err(error_of(data, Some("error")));
    }
    line.thinking.add_to(text.as_deref_mut());
    line.response.add_to(text);
    let bytes = line.response.bytes() + line.thinking.bytes();
    Ok(StreamEvent {
        content: bytes > 0,
        visible: !line.response.is_empty(),
        bytes,
        reasoning: None,
        tokens: None,
        most_tokens: bytes.max(u64::from(!line.done)),
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
