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
