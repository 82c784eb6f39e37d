use serde_json::json;

use super::*;

fn form(prompt: PromptForm, protocol: Protocol) -> RequestForm {
    RequestForm {
        protocol,
        path: "/".into(),
        prompt,
        body: json!({}),
    }
}

#[test]
fn a_named_tokenizer_comes_first() {
    let options = LaunchOptions {
        model: Some("m".into()),
        tokenizer: Some("t".into()),
        ..LaunchOptions::default()
    };
    let ids = form(PromptForm::Tokens, Protocol::Llamacpp);
    for runtime in [RuntimeKind::Sim, RuntimeKind::Docker, RuntimeKind::Attach] {
        assert_eq!(origin(&options, runtime, &ids, Some(9)), Origin::Tokenizer("t".into()));
    }
}

#[test]
fn ids_need_the_models_tokenizer_only_if_the_vocabulary_size_is_unknown() {
    let options = LaunchOptions {
        model: Some("m".into()),
        ..LaunchOptions::default()
    };
    let model = Origin::Tokenizer("m".into());
    let ids = &form(PromptForm::Tokens, Protocol::Llamacpp);
    let text = &form(PromptForm::Text, Protocol::Tgi);
    assert_eq!(origin(&options, RuntimeKind::Docker, ids, None), model);
    assert_eq!(
        origin(&options, RuntimeKind::Docker, ids, Some(9)),
        Origin::Vocabulary(9)
    );
    assert_eq!(
        origin(&options, RuntimeKind::Attach, ids, None),
        Origin::Vocabulary(VOCABULARY)
    );
    assert_eq!(
        origin(&options, RuntimeKind::Sim, ids, None),
        Origin::Vocabulary(VOCABULARY)
    );
    assert_eq!(origin(&options, RuntimeKind::Sim, text, None), model);
}
#[test]
fn text_without_a_tokenizer_is_common_words() {
    let nameless = LaunchOptions::default();
    let text = &form(PromptForm::Text, Protocol::Tgi);
    let words = Origin::Words(VOCABULARY);
    assert_eq!(origin(&nameless, RuntimeKind::Attach, text, None), words);
    let ollama = LaunchOptions {
        model: Some("llama3.2:1b".into()),
        ..LaunchOptions::default()
    };
    let text = &form(PromptForm::Text, Protocol::Ollama);
    assert_eq!(origin(&ollama, RuntimeKind::Docker, text, None), words);
}
