//! Prompts for an engine: from its model's tokenizer, or ids alone, corrected until the engine's own count is the one asked.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::options::LaunchOptions;
use super::protocol::Wire;
use super::{Protocol, RequestForm};
use crate::fault::Result;
use crate::prompt::{Ask, Calibration, Content, Origin, PromptForm, Prompts};
use crate::runtime::RuntimeKind;

/// The vocabulary that is assumed where no tokenizer is named: the smallest of the model families in use (Llama 2).
const VOCABULARY: u32 = 32_000;

/// Where an engine's prompts come from.
pub(super) struct Prompting {
    prompts: Arc<Prompts>,
    // By protocol and form, as each adds tokens of its own.
    calibrations: HashMap<(Protocol, PromptForm), Calibration>,
    // Where a request was sent to see how the engine counts.
    settled: HashSet<(Protocol, PromptForm)>,
}

impl Prompting {
    /// Prompts that nothing is known of yet but their tokens.
    pub(super) fn new(prompts: Arc<Prompts>) -> Self {
        Self {
            prompts,
            calibrations: HashMap::new(),
            settled: HashSet::new(),
        }
    }

    /// So many prompts of `tokens` tokens, as the engine counts.
    pub(super) fn make(&self, form: &RequestForm, tokens: u64, count: u64) -> Result<Vec<Wire>> {
        let make = self.maker(form, 0);
        (0..count).map(|_| make(tokens)).collect()
    }

    /// Makes prompts of so many tokens as it is called with, as the engine counts. The first `shared_prefix` tokens are the same in all.
    pub(super) fn maker(
        &self,
        form: &RequestForm,
        shared_prefix: u64,
    ) -> impl Fn(u64) -> Result<Wire> + Send + Sync + use<> {
        let size = |tokens: u64| usize::try_from(tokens).unwrap_or(usize::MAX);
        let calibration = self.calibrations.get(&key(form)).copied().unwrap_or_default();
        let prompts = Arc::clone(&self.prompts);
        let shape = Ask {
            tokens: 0,
            form: form.prompt,
            chat: form.protocol == Protocol::OpenaiChat,
            shared_prefix: size(shared_prefix),
        };
        move |tokens| {
            let ask = calibration.adjust(Ask {
                tokens: size(tokens),
                ..shape
            })?;
            Ok(wire(prompts.make(&ask)?.content))
        }
    }

    /// Where the prompts come from.
    pub(super) fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    /// The same, to keep.
    pub(super) fn shared(&self) -> Arc<Prompts> {
        Arc::clone(&self.prompts)
    }

    /// Whether it was settled before how the engine counts prompts of this form; it is from now on.
    pub(super) fn settle(&mut self, form: &RequestForm) -> bool {
        !self.settled.insert(key(form))
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
mod tests;
