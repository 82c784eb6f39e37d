//! Makes prompts for an engine and corrects their length until the engine's own count matches.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::options::LaunchOptions;
use super::{Protocol, RequestForm};
use crate::fault::Result;
use crate::prompt::{Calibration, Content, Origin, PromptForm, PromptSpec, Prompts};
use crate::runtime::RuntimeKind;

/// Assumed vocabulary size if no tokenizer is known: the smallest of the common model families (Llama 2).
pub(super) const VOCABULARY: u32 = 32_000;

pub(super) struct Prompting {
    prompts: Arc<Prompts>,
    // By protocol and form, because each adds tokens of its own.
    calibrations: HashMap<(Protocol, PromptForm), Calibration>,
    // Forms for which a calibration request was already sent.
    calibrated: HashSet<(Protocol, PromptForm)>,
}

impl Prompting {
    pub(super) fn new(prompts: Arc<Prompts>) -> Self {
        Self {
            prompts,
            calibrations: HashMap::new(),
            calibrated: HashSet::new(),
        }
    }

    /// Makes `count` prompts of `tokens` tokens, as counted by the engine.
    pub(super) fn make(&self, form: &RequestForm, tokens: u64, count: u64) -> Result<Vec<Content>> {
        let make = self.maker(form, 0);
        (0..count).map(|_| make(tokens)).collect()
    }

    /// Returns a function that makes prompts of a given number of tokens, as counted by the engine. All share their
    /// first `shared_prefix` tokens.
    pub(super) fn maker(
        &self,
        form: &RequestForm,
        shared_prefix: u64,
    ) -> impl Fn(u64) -> Result<Content> + Send + Sync + use<> {
        let size = |tokens: u64| usize::try_from(tokens).unwrap_or(usize::MAX);
        let calibration = self.calibrations.get(&key(form)).copied().unwrap_or_default();
        let prompts = Arc::clone(&self.prompts);
        let shape = PromptSpec {
            tokens: 0,
            form: form.prompt,
            chat: form.protocol == Protocol::OpenaiChat,
            shared_prefix: size(shared_prefix),
        };
        move |tokens| {
            let spec = calibration.adjust(PromptSpec {
                tokens: size(tokens),
                ..shape
            })?;
            Ok(prompts.make(&spec)?.content)
        }
    }

    pub(super) fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    pub(super) fn shared_prompts(&self) -> Arc<Prompts> {
        Arc::clone(&self.prompts)
    }

    /// Marks prompts of this form as calibrated. Returns whether they already were.
    pub(super) fn mark_calibrated(&mut self, form: &RequestForm) -> bool {
        !self.calibrated.insert(key(form))
    }

    /// Adapts the calibration to the engine's count. Returns how many counts in a row were wrong.
    pub(super) fn observe(&mut self, form: &RequestForm, wanted: u64, seen: u64) -> u32 {
        let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        self.calibrations
            .entry(key(form))
            .or_default()
            .observe(size(wanted), size(seen))
    }
}

fn key(form: &RequestForm) -> (Protocol, PromptForm) {
    (form.protocol, form.prompt)
}

/// Chooses the source of prompts: a named tokenizer; the model's tokenizer, for text or if a launched engine does not
/// report its vocabulary size; otherwise plain ids, or common words whose tokens the engine counts.
pub(super) fn origin(
    options: &LaunchOptions,
    runtime: RuntimeKind,
    form: &RequestForm,
    vocabulary: Option<u32>,
) -> Origin {
    if let Some(name) = &options.tokenizer {
        return Origin::Tokenizer(name.clone());
    }
    let text = form.prompt == PromptForm::Text;
    // Ollama has its own model names and keeps tokenizers inside its model files. What an attached server serves may be
    // another model than the one that is named.
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
mod tests {
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
