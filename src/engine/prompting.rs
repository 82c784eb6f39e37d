//! Prompts for an engine: from its model's tokenizer, or ids alone, corrected until the engine's own count is the one asked.

use std::collections::HashMap;
use std::sync::Arc;

use super::options::LaunchOptions;
use super::protocol::Wire;
use super::{PromptForm, Protocol, RequestForm};
use crate::fault::Result;
use crate::prompt::{Ask, Calibration, Content, Origin, Prompts};
use crate::runtime::RuntimeKind;

/// The vocabulary that is assumed where no tokenizer is named: the smallest of the model families in use (Llama 2).
const VOCABULARY: u32 = 32_000;

/// Where an engine's prompts come from.
pub(super) struct Prompting {
    prompts: Arc<Prompts>,
    // By protocol and form, as each adds tokens of its own.
    calibrations: HashMap<(Protocol, PromptForm), Calibration>,
}

impl Prompting {
    /// Prompts that nothing is known of yet but their tokens.
    pub(super) fn new(prompts: Arc<Prompts>) -> Self {
        Self {
            prompts,
            calibrations: HashMap::new(),
        }
    }

    /// So many prompts of `tokens` tokens, as the engine counts.
    pub(super) fn make(&self, form: &RequestForm, tokens: u64, count: u64) -> Result<Vec<Wire>> {
        let make = self.maker(form, tokens)?;
        (0..count).map(|_| make()).collect()
    }

    /// Makes one prompt of `tokens` tokens after the other, as the engine counts.
    pub(super) fn maker(
        &self,
        form: &RequestForm,
        tokens: u64,
    ) -> Result<impl Fn() -> Result<Wire> + Send + Sync + use<>> {
        let ask = Ask {
            tokens: usize::try_from(tokens).unwrap_or(usize::MAX),
            form: form.prompt,
            chat: form.protocol == Protocol::OpenaiChat,
            shared_prefix: 0,
        };
        let ask = self
            .calibrations
            .get(&key(form))
            .copied()
            .unwrap_or_default()
            .adjust(ask)?;
        let prompts = Arc::clone(&self.prompts);
        Ok(move || Ok(wire(prompts.make(&ask)?.content)))
    }

    /// Learns from the engine's count; true where it is the one that was wanted.
    pub(super) fn observe(&mut self, form: &RequestForm, wanted: u64, seen: u64) -> Result<bool> {
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

fn wire(content: Content) -> Wire {
    match content {
        Content::Tokens(ids) => Wire::Tokens(ids),
        Content::Text(text) => Wire::Text(text),
    }
}

/// What an engine's prompts come from: the tokenizer that was named; for text, or where the engine was launched on a model and
/// does not tell its vocabulary, the model's; else ids alone, or common words whose tokens the engine counts.
pub(super) fn origin(options: &LaunchOptions, runtime: RuntimeKind, form: &RequestForm, told: Option<u32>) -> Origin {
    if let Some(name) = &options.tokenizer {
        return Origin::Tokenizer(name.clone());
    }
    let text = form.prompt == PromptForm::Text;
    // Ollama's models have names of their own, and tokenizers inside their files.
    if text && (form.protocol == Protocol::Ollama || options.model.is_none()) {
        return Origin::Words(told.unwrap_or(VOCABULARY));
    }
    // A server that was attached to, or that is simulated, may know its model by a name that nobody else does.
    let launched = matches!(runtime, RuntimeKind::Docker | RuntimeKind::Process);
    match &options.model {
        Some(model) if text || (launched && told.is_none()) => Origin::Tokenizer(model.clone()),
        _ => Origin::Vocabulary(told.unwrap_or(VOCABULARY)),
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
    fn ids_need_the_models_tokenizer_only_where_nobody_else_tells_the_vocabulary() {
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
