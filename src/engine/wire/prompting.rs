//! Makes prompts for an engine, and corrects their length until the engine's own count matches.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::engine::adapter::{Protocol, RequestForm};
use crate::fault::Result;
use crate::prompt::{Calibration, Content, PromptForm, PromptSpec, Prompts};

/// Assumed vocabulary size if no tokenizer is known: the smallest of the common model families (Llama 2).
pub(crate) const VOCABULARY: u32 = 32_000;

pub(crate) struct Prompting {
    pub(crate) prompts: Arc<Prompts>,
    // Keyed by protocol and form, because each adds its own tokens.
    calibrations: HashMap<(Protocol, PromptForm), Calibration>,
    /// Forms for which a calibration request was already sent.
    pub(crate) calibrated: HashSet<(Protocol, PromptForm)>,
}

impl Prompting {
    pub(crate) fn new(prompts: Arc<Prompts>) -> Self {
        Self {
            prompts,
            calibrations: HashMap::new(),
            calibrated: HashSet::new(),
        }
    }

    /// Makes `count` prompts of `tokens` tokens, as counted by the engine.
    pub(crate) fn make(&self, form: &RequestForm, tokens: u64, count: u64) -> Result<Vec<Content>> {
        let make = self.maker(form, 0);
        (0..count).map(|_| make(tokens)).collect()
    }

    /// Returns a function that makes prompts of a given number of tokens, as counted by the engine. All share their
    /// first `shared_prefix` tokens.
    pub(crate) fn maker(
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
            prompts.make(&spec)
        }
    }

    /// Adapts the calibration to the engine's count. Returns how many counts in a row were wrong.
    pub(crate) fn observe(&mut self, form: &RequestForm, wanted: u64, seen: u64) -> u32 {
        let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        self.calibrations
            .entry(key(form))
            .or_default()
            .observe(size(wanted), size(seen))
    }
}

pub(crate) fn key(form: &RequestForm) -> (Protocol, PromptForm) {
    (form.protocol, form.prompt)
}
