//! The wire protocols: inserting a prompt into a request body, and decoding the response.

mod fields;
mod llamacpp;
mod ollama;
mod openai;
mod tgi;

use bytes::Bytes;
use serde_json::{Value, json};

pub(super) use self::fields::error_text;
use super::{Protocol, RequestForm};
use crate::fault::{Fault, Result};
use crate::load::Decode;
use crate::prompt::Content;

/// A decoder for one response.
#[must_use]
pub fn decoder(protocol: Protocol) -> Box<dyn Decode> {
    match protocol {
        Protocol::OpenaiCompletions | Protocol::OpenaiChat => Box::new(openai::OpenAi::default()),
        Protocol::Tgi => Box::new(tgi::Tgi),
        Protocol::Llamacpp => Box::new(llamacpp::LlamaCpp),
        Protocol::Ollama => Box::new(ollama::Ollama),
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
