//! The wire protocols: inserting a prompt into a request body, and decoding the response.

mod openai;
mod own;

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};

use super::{Protocol, RequestForm};
use crate::fault::{Fault, Result};
use crate::load::Decode;
use crate::prompt::Content;

/// A decoder for one response.
pub fn decoder(protocol: Protocol) -> Box<dyn Decode> {
    match protocol {
        Protocol::OpenaiCompletions | Protocol::OpenaiChat => Box::new(openai::OpenAi::default()),
        Protocol::Tgi => Box::new(own::Tgi),
        Protocol::Llamacpp => Box::new(own::LlamaCpp),
        Protocol::Ollama => Box::new(own::Ollama),
    }
}

/// The request body with its prompt. Adds `model` for protocols that need it, if the adapter's body has none.
pub(super) fn body(form: &RequestForm, prompt: &Content, model: Option<&str>) -> Result<Bytes> {
    let Value::Object(mut body) = form.body.clone() else {
        return Err(Fault::usage(
            "`request(point)` of the adapter must give `body` as an object map",
        ));
    };
    let prompt = match (form.protocol, prompt) {
        (Protocol::OpenaiCompletions | Protocol::Llamacpp, Content::Tokens(ids)) => json!(ids),
        (_, Content::Text(text)) => json!(text),
        (protocol, Content::Tokens(_)) => {
            return Err(Fault::usage(format!(
                "protocol `{}` takes no token ids",
                json!(protocol).as_str().unwrap_or_default()
            ))
            .hint("let `request(point)` of the adapter say `prompt: \"text\"`, and name a tokenizer"));
        }
    };
    match form.protocol {
        Protocol::OpenaiCompletions | Protocol::Llamacpp | Protocol::Ollama => body.insert("prompt".into(), prompt),
        Protocol::OpenaiChat => body.insert("messages".into(), json!([{ "role": "user", "content": prompt }])),
        Protocol::Tgi => body.insert("inputs".into(), prompt),
    };
    if let (Protocol::OpenaiCompletions | Protocol::OpenaiChat | Protocol::Ollama, Some(model)) = (form.protocol, model)
    {
        body.entry("model").or_insert_with(|| json!(model));
    }
    serde_json::to_vec(&body).map(Bytes::from).map_err(Fault::internal)
}

/// A string field. Any other value (`null`, a number) counts as empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl Text<'_> {
    pub(super) fn filled(&self) -> bool {
        !self.0.is_empty()
    }

    /// The most tokens that it can be.
    pub(super) fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    /// Appends it to the response text, if that is kept.
    pub(super) fn add_to(&self, text: Option<&mut String>) {
        if let Some(text) = text {
            text.push_str(&self.0);
        }
    }
}

/// The number of items of an array field; `None` for other values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Items(pub(super) Option<u64>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(Shape::default())
            .map(|shape| Self(shape.text))
    }
}

impl<'de> Deserialize<'de> for Items {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(Shape::default())
            .map(|shape| Self(shape.items))
    }
}

/// Reads any JSON value; keeps only a string (borrowed if it has no escapes) or the number of items.
#[derive(Default)]
struct Shape<'a> {
    text: Cow<'a, str>,
    items: Option<u64>,
}

impl<'de> Visitor<'de> for Shape<'de> {
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

/// What an error says is wrong, without a request that it repeats: a string, or the messages in an object with the fields that they name; else the value as JSON.
pub(in crate::engine) fn error_text(error: &Value) -> String {
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
        assert_eq!(sent(Protocol::Llamacpp, &ids), json!({ "n": 1, "prompt": [1, 2] }));
        assert_eq!(sent(Protocol::Tgi, &text), json!({ "n": 1, "inputs": "hi" }));
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
}

#[cfg(test)]
mod fields_tests {
    use super::*;

    #[test]
    fn strings_and_item_counts_are_read() {
        let text = |json: &str| serde_json::from_str::<Text<'_>>(json).unwrap().0.into_owned();
        assert_eq!((text("\"a\\n\""), text("\"b\"")), ("a\n".into(), "b".into()));
        for empty in ["\"\"", "null", "3", "{\"a\":[1]}"] {
            assert_eq!(text(empty), "", "{empty}");
        }
        let items = |json: &str| serde_json::from_str::<Items>(json).unwrap().0;
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
}
