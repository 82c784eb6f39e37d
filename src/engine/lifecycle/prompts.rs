//! Chooses the source of prompts for an engine: a tokenizer, plain token ids, or common words.

use std::path::Path;

use super::accept::INPUT;
use super::engine::Engine;
use super::options::LaunchOptions;
use super::state::Live;
use crate::engine::adapter::{Protocol, RequestForm};
use crate::engine::wire::prompting::{Prompting, VOCABULARY};
use crate::fault::Result;
use crate::prompt::{Origin, PromptForm};
use crate::run::Limits;
use crate::runtime::RuntimeKind;

/// Loads the tokenizer before the engine starts, if prompts certainly need one. A missing tokenizer is then reported at
/// once instead of after a start of several minutes.
pub(crate) fn load_tokenizer_early(
    engine: &Engine,
    live: &mut Live,
    form: &RequestForm,
    requested: Limits,
) -> Result<()> {
    let text = form.prompt == PromptForm::Text && engine.options.model.is_some();
    let needed = text || engine.options.tokenizer.is_some();
    if !needed || engine.runtime == RuntimeKind::Attach || live.prompting.is_some() {
        return Ok(());
    }
    // Missing permissions are reported before anything is downloaded.
    let launch = engine.launch_for(requested)?;

    engine
        .context
        .permits
        .check_launch(engine.runtime, &launch, &engine.origin()?)?;
    prepare_prompts(engine, live, form)
}

/// Creates the prompt source on first use.
pub(crate) fn prepare_prompts(engine: &Engine, live: &mut Live, form: &RequestForm) -> Result<()> {
    if live.prompting.is_none() {
        let vocabulary = live.running.as_ref().and_then(|running| running.info.vocabulary);
        let origin = origin(&engine.options, engine.runtime, form, vocabulary);
        let prompts = engine.context.prompt_cache.prompts(&origin, engine.context.seed);
        let prompting = live.prompting.insert(Prompting::new(engine.wait(prompts)?));
        let counted = live.running.as_ref().and_then(|running| running.accepted.counted);
        let made_alike = form.prompt == PromptForm::Tokens || matches!(origin, Origin::Words(_));
        if let Some(counted) = counted.filter(|_| made_alike) {
            prompting.observe(form, INPUT, counted);
        }
    }
    Ok(())
}

/// Chooses the source of prompts: a named tokenizer; the model's tokenizer, for text or if a launched engine does not
/// report its vocabulary size; otherwise plain ids, or common words whose tokens the engine counts.
pub(crate) fn origin(
    options: &LaunchOptions,
    runtime: RuntimeKind,
    form: &RequestForm,
    vocabulary: Option<u32>,
) -> Origin {
    if let Some(name) = &options.tokenizer {
        return Origin::Tokenizer(name.clone());
    }
    let text = form.prompt == PromptForm::Text;
    // Ollama has its own model names and keeps tokenizers inside its model files. An attached server may serve another
    // model than the named one.
    let elsewhere = |model: &String| runtime == RuntimeKind::Attach && !Path::new(model).is_absolute();
    if text && (form.protocol == Protocol::Ollama || options.model.as_ref().is_none_or(elsewhere)) {
        return Origin::Words(vocabulary.unwrap_or(VOCABULARY));
    }
    // An attached or simulated server may serve its model under a made-up name.
    let launched = matches!(runtime, RuntimeKind::Docker | RuntimeKind::Process);
    match &options.model {
        Some(model) if text || (launched && vocabulary.is_none()) => Origin::Tokenizer(model.clone()),
        _ => Origin::Vocabulary(vocabulary.unwrap_or(VOCABULARY)),
    }
}

#[cfg(test)]
mod prompting_tests {
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
}
