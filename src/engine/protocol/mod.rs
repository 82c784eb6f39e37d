//! The wire protocols: how a prompt enters a request's body, and how the events of the answer are decoded.

mod fields;
mod llamacpp;
mod ollama;
mod openai;
mod tgi;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Protocol, RequestForm};
use crate::fault::{Fault, Result};
use crate::load::Decode;

/// A prompt as it travels.
#[derive(Clone, Debug, PartialEq)]
pub enum Wire {
    /// Token ids.
    Tokens(Vec<u32>),
    /// Text.
    Text(String),
}

/// A decoder for one answer.
#[must_use]
pub(super) fn decoder(protocol: Protocol) -> Box<dyn Decode> {
    match protocol {
        Protocol::OpenaiCompletions | Protocol::OpenaiChat => Box::new(openai::OpenAi::default()),
        Protocol::Tgi => Box::new(tgi::Tgi),
        Protocol::Llamacpp => Box::new(llamacpp::LlamaCpp),
        Protocol::Ollama => Box::new(ollama::Ollama),
    }
}

/// The body of a request with its prompt. Protocols that name the model get `model` where the adapter's body has none.
pub(super) fn body(form: &RequestForm, prompt: &Wire, model: Option<&str>) -> Result<Bytes> {
    let Value::Object(mut body) = form.body.clone() else {
        return Err(Fault::usage(
            "`request(point)` of the adapter must give `body` as an object map",
        ));
    };
    let prompt = match (form.protocol, prompt) {
        (Protocol::OpenaiCompletions | Protocol::Llamacpp, Wire::Tokens(ids)) => json!(ids),
        (_, Wire::Text(text)) => json!(text),
        (protocol, Wire::Tokens(_)) => {
            return Err(
                Fault::usage(format!("protocol `{}` takes no token ids", name(protocol)))
                    .hint("let `request(point)` of the adapter say `prompt: \"text\"`, and name a tokenizer"),
            );
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
    serde_json::to_vec(&body)
        .map(Bytes::from)
        .map_err(|error| Fault::internal(error.to_string()))
}

fn name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::OpenaiCompletions => "openai_completions",
        Protocol::OpenaiChat => "openai_chat",
        Protocol::Tgi => "tgi",
        Protocol::Llamacpp => "llamacpp",
        Protocol::Ollama => "ollama",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::PromptForm;

    fn sent(protocol: Protocol, prompt: &Wire) -> Value {
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
        let text = Wire::Text("hi".into());
        let ids = Wire::Tokens(vec![1, 2]);
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
    fn ids_are_refused_where_they_cannot_travel() {
        let form = RequestForm {
            protocol: Protocol::Tgi,
            path: "/x".into(),
            prompt: PromptForm::Tokens,
            body: json!({}),
        };
        assert!(
            body(&form, &Wire::Tokens(vec![1]), None)
                .unwrap_err()
                .message
                .contains("`tgi`")
        );
    }
}
