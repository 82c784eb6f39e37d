//! Prompts for an engine: from its model's tokenizer, or ids alone, corrected until the engine's own count is the one asked.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::options::LaunchOptions;
use super::protocol::Wire;
use super::{Protocol, RequestForm};
use crate::fault::Result;
use crate::prompt::{Ask, Calibration, Content, Prompts};

/// The vocabulary that is assumed where no tokenizer is named: the smallest of the model families in use (Llama 2).
const VOCABULARY: u32 = 32_000;

/// Where an engine's prompts come from.
pub(super) struct Prompting {
    prompts: Arc<Prompts>,
    // By protocol and form, as each adds tokens of its own.
    calibrations: HashMap<(Protocol, super::PromptForm), Calibration>,
}

impl Prompting {
    /// Prompts for the model that these options name, or of a vocabulary that the engine told.
    pub(super) fn new(options: &LaunchOptions, home: &Path, seed: u64, vocabulary: Option<u32>) -> Result<Self> {
        let named = options.tokenizer.as_deref().map(|name| home.join(name));
        let beside = options
            .model
            .as_deref()
            .map(|model| home.join(model))
            .filter(|folder| has_tokenizer(folder));
        let prompts = match named.or(beside) {
            Some(folder) => Prompts::open(&folder, seed)?,
            None => Prompts::of_vocabulary(vocabulary.unwrap_or(VOCABULARY), seed)?,
        };
        Ok(Self {
            prompts: Arc::new(prompts),
            calibrations: HashMap::new(),
        })
    }

    /// So many prompts of `tokens` tokens, as the engine counts.
    pub(super) fn make(&self, form: &RequestForm, tokens: u64, count: u64) -> Result<Vec<Wire>> {
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
        (0..count).map(|_| Ok(wire(self.prompts.make(&ask)?.content))).collect()
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

fn key(form: &RequestForm) -> (Protocol, super::PromptForm) {
    (form.protocol, form.prompt)
}

fn wire(content: Content) -> Wire {
    match content {
        Content::Tokens(ids) => Wire::Tokens(ids),
        Content::Text(text) => Wire::Text(text),
    }
}

fn has_tokenizer(folder: &Path) -> bool {
    folder.join("tokenizer.json").is_file()
}
