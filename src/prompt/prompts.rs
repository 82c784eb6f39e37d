//! The specification of a prompt, the generation of prompts from a tokenizer or a vocabulary size, a seed and a
//! counter, and the correction of their length by the engine's count.
//!
//! [`PromptCache`] holds the tokenizers and prompts of a run. Each tokenizer is loaded once, and all prompts of the
//! same model and seed share a counter, so no two prompts of a run start with the same tokens.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::template::Wrapper;
use super::text::{
    Lexicon, PromptRng, TextWriter, common_words, first_two, ids_of_tokenizer, ids_of_vocabulary_size, shuffle,
};
use super::{Hub, Tokenizer, locate};
use crate::fault::{Fault, Kind, Result};
use crate::task::lock;

/// Maximum prompt length in tokens: beyond every context length; 64 MiB as ids.
pub const MAX_TOKENS: usize = 1 << 24;

/// How a prompt is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptForm {
    /// Token ids.
    Tokens,
    /// Text.
    Text,
}

/// The specification of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptSpec {
    /// Token count including everything that the engine adds: special tokens, and the chat template if `chat` is set.
    pub tokens: usize,
    /// Token ids or text.
    pub form: PromptForm,
    /// Whether the text is the content of a single user message in the model's chat template.
    pub chat: bool,
    /// Number of leading tokens that all prompts of one seed share, including tokens that the engine adds in front.
    pub shared_prefix: usize,
}

impl PromptSpec {
    /// `tokens` token ids without a shared prefix.
    pub fn ids(tokens: usize) -> Self {
        Self {
            tokens,
            form: PromptForm::Tokens,
            chat: false,
            shared_prefix: 0,
        }
    }

    /// Text of `tokens` tokens, including special tokens.
    pub fn text(tokens: usize) -> Self {
        Self {
            form: PromptForm::Text,
            ..Self::ids(tokens)
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.tokens > MAX_TOKENS {
            let message = format!(
                "a prompt of {} tokens is longer than the {MAX_TOKENS} that can be made",
                self.tokens
            );
            return Err(Fault::usage(message));
        }
        if self.shared_prefix > 0 && self.shared_prefix >= self.tokens {
            return Err(Fault::usage(format!(
                "`shared_prefix` of {} tokens leaves nothing unique in a prompt of {}",
                self.shared_prefix, self.tokens
            ))
            .hint(format!("at most {}", self.tokens.saturating_sub(1))));
        }
        if self.chat && self.form == PromptForm::Tokens {
            return Err(Fault::usage("a chat message is text, not token ids").hint("leave `chat` out, or ask for text"));
        }
        Ok(())
    }
}

/// A prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// Token ids, used by the engine as they are.
    Tokens(Vec<u32>),
    /// Text.
    Text(String),
}

/// Whether a prompt counts as one of `asked` tokens if no correction makes it exact: at most 1 % or 8 tokens off.
pub fn is_near(counted: u64, asked: u64) -> bool {
    counted.abs_diff(asked) <= (asked / 100).max(8)
}

/// The difference between the engine's count and ours, learned from its responses. One for each protocol and prompt
/// form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calibration {
    surplus: i64,
    misses: u32,
    /// The requested length of the latest count.
    wanted: usize,
}

impl Calibration {
    /// The specification to pass to [`super::Prompts`] so that the engine counts `spec.tokens`.
    ///
    /// # Errors
    ///
    /// `usage` if the engine adds more tokens than that; the hint names the minimum length.
    pub fn adjust(&self, spec: PromptSpec) -> Result<PromptSpec> {
        let own = i64::try_from(spec.tokens)
            .unwrap_or(i64::MAX)
            .saturating_sub(self.surplus);
        match usize::try_from(own) {
            Ok(tokens) if tokens > 0 => Ok(PromptSpec { tokens, ..spec }),
            _ => Err(Fault::usage(format!(
                "a prompt of {} tokens is impossible: the engine adds {} of its own",
                spec.tokens, self.surplus
            ))
            .hint(format!("ask for at least {}", self.surplus + 1))),
        }
    }

    /// Learns from a response: the engine counted `seen` tokens in a prompt that should have `wanted`. Returns the
    /// number of consecutive wrong counts, 0 if this one was right. Earlier wrong counts at another length count as
    /// one.
    pub fn observe(&mut self, wanted: usize, seen: usize) -> u32 {
        let difference = i64::try_from(seen).unwrap_or(i64::MAX) - i64::try_from(wanted).unwrap_or(i64::MAX);
        if wanted != self.wanted {
            self.misses = self.misses.min(1);
        }
        self.wanted = wanted;
        self.surplus += difference;
        self.misses = if difference == 0 { 0 } else { self.misses + 1 };
        self.misses
    }
}

/// Makes prompts. The same seed makes the same prompts in the same order; all start differently.
pub struct Prompts {
    ids: Vec<u32>,
    tokenizer: Option<Arc<Tokenizer>>,
    lexicon: Option<Result<Lexicon>>,
    /// Whether text consists of common words, because there is no tokenizer to count tokens.
    common_words: bool,
    plain: Wrapper,
    /// The error says why the chat template is unusable.
    chat: Result<Wrapper, String>,
    seed: u64,
    next: AtomicU64,
}

impl Prompts {
    /// Makes prompts for the model of this tokenizer.
    ///
    /// # Errors
    ///
    /// `usage` if its vocabulary has no usable tokens.
    pub fn new(tokenizer: impl Into<Arc<Tokenizer>>, seed: u64) -> Result<Self> {
        let tokenizer = tokenizer.into();
        let ids = ids_of_tokenizer(&tokenizer)?;
        Ok(Self::build(ids, Some(tokenizer), seed))
    }

    /// Makes prompts of token ids for a model with a known vocabulary size but an unknown tokenizer.
    pub fn from_vocabulary_size(size: u32, seed: u64) -> Result<Self> {
        Ok(Self::build(ids_of_vocabulary_size(size)?, None, seed))
    }

    /// Makes prompts for a model with an unknown tokenizer: text of common words. Only the engine can count their
    /// tokens.
    pub fn from_common_words(size: u32, seed: u64) -> Result<Self> {
        let mut prompts = Self::from_vocabulary_size(size, seed)?;
        prompts.common_words = true;
        Ok(prompts)
    }

    fn build(mut ids: Vec<u32>, tokenizer: Option<Arc<Tokenizer>>, seed: u64) -> Self {
        shuffle(seed, &mut ids);
        let chat = match &tokenizer {
            Some(tokenizer) => tokenizer.user_wrapper.clone(),
            None => Err("without a tokenizer there is none".to_owned()),
        };
        // Built now, even if only ids are needed, so that the first text prompt takes no longer than others. A
        // tokenizer without words is an error only when text is requested.
        let lexicon = tokenizer.as_ref().map(|tokenizer| Lexicon::new(tokenizer, &ids, seed));
        Self {
            ids,
            tokenizer,
            lexicon,
            common_words: false,
            plain: Wrapper::plain(),
            chat,
            seed,
            next: AtomicU64::new(0),
        }
    }

    /// The next prompt. A long text takes some milliseconds, so async code should not call this on threads that time
    /// requests.
    ///
    /// # Errors
    ///
    /// `usage` if the prompt is shorter than the tokens that the engine adds, too long, or text without a tokenizer.
    pub fn make(&self, spec: &PromptSpec) -> Result<Content> {
        self.nth(self.next.fetch_add(1, Ordering::Relaxed), spec)
    }

    /// The prompt with this number, independent of earlier calls.
    pub fn nth(&self, serial: u64, spec: &PromptSpec) -> Result<Content> {
        spec.check()?;
        if spec.tokens == 0 {
            return Err(Fault::usage("a prompt of 0 tokens is impossible").hint("ask for at least 1"));
        }
        Ok(match spec.form {
            PromptForm::Tokens => Content::Tokens(self.tokens(serial, spec)),
            PromptForm::Text => Content::Text(self.text(serial, spec)?),
        })
    }

    /// Whether token counts of text are known.
    pub fn has_tokenizer(&self) -> bool {
        self.tokenizer.is_some()
    }

    /// Tokens of a text, including tokens that the tokenizer adds; `None` without a tokenizer.
    pub fn count(&self, text: &str) -> Option<Result<usize>> {
        self.tokenizer.as_ref().map(|tokenizer| tokenizer.count(text, true))
    }

    /// Tokens of generated text, without added tokens; `None` without a tokenizer.
    pub fn count_generated(&self, text: &str) -> Option<Result<usize>> {
        self.tokenizer.as_ref().map(|tokenizer| tokenizer.count(text, false))
    }

    /// The reason why the model's chat template is unusable, if it is. Chat messages are then counted as plain text,
    /// and only [`super::Calibration`] makes their length exact.
    pub fn chat_unknown(&self) -> Option<&str> {
        self.chat.as_ref().err().map(String::as_str)
    }

    fn tokens(&self, serial: u64, spec: &PromptSpec) -> Vec<u32> {
        let mut ids = Vec::with_capacity(spec.tokens);
        let random_word = |rng: &mut PromptRng| self.ids[rng.below(self.ids.len())];
        let mut prefix_rng = PromptRng::for_prefix(self.seed);
        ids.extend((0..spec.shared_prefix).map(|_| random_word(&mut prefix_rng)));
        ids.extend(first_two(serial, self.ids.len()).map(|index| self.ids[index]));
        ids.truncate(spec.tokens);
        let mut rng = PromptRng::for_prompt(self.seed, serial);
        ids.extend((ids.len()..spec.tokens).map(|_| random_word(&mut rng)));
        ids
    }

    fn text(&self, serial: u64, spec: &PromptSpec) -> Result<String> {
        if self.common_words {
            return Ok(common_words(self.seed, serial, spec));
        }
        let (Some(tokenizer), Some(lexicon)) = (&self.tokenizer, &self.lexicon) else {
            return Err(Fault::usage("a prompt of text needs the model's tokenizer").hint(
                "name it with `tokenizer`: a folder with `tokenizer.json`, or a model id of the Hugging Face hub",
            ));
        };
        let lexicon = lexicon.as_ref().map_err(Clone::clone)?;
        let writer = TextWriter {
            tokenizer,
            lexicon,
            wrapper: self.chat.as_ref().ok().filter(|_| spec.chat).unwrap_or(&self.plain),
            seed: self.seed,
        };
        writer.write(spec, serial)
    }
}

/// Limit because a tokenizer takes tens of megabytes.
const MAX_TOKENIZERS: usize = 4;
/// Maximum number of sources and seeds whose prompts are kept; those of one seed take a megabyte.
const MAX_PROMPTS: usize = 32;

/// The source of prompts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A tokenizer: a folder, a file, or a Hugging Face model id.
    Tokenizer(String),
    /// A vocabulary of known size.
    Vocabulary(u32),
    /// A vocabulary of known size, with text of common words.
    Words(u32),
}

/// The tokenizers and prompts of a run.
#[derive(Default)]
pub struct PromptCache {
    tokenizers: Mutex<HashMap<String, Arc<Tokenizer>>>,
    prompts: Mutex<HashMap<(Origin, u64), Arc<Prompts>>>,
}

impl PromptCache {
    /// The prompts of this source and seed. A tokenizer is located with [`locate`] and loaded on first use.
    ///
    /// # Errors
    ///
    /// As [`locate`] and [`Tokenizer::open`]; `limit` if a run uses too many different ones.
    pub async fn prompts(&self, origin: &Origin, seed: u64) -> Result<Arc<Prompts>> {
        let key = (origin.clone(), seed);
        if let Some(cached) = lock(&self.prompts).get(&key) {
            return Ok(Arc::clone(cached));
        }
        let made = match origin {
            Origin::Tokenizer(name) => Prompts::new(self.tokenizer(name).await?, seed)?,
            Origin::Vocabulary(size) => Prompts::from_vocabulary_size(*size, seed)?,
            Origin::Words(size) => Prompts::from_common_words(*size, seed)?,
        };
        let mut prompts = lock(&self.prompts);
        if prompts.len() >= MAX_PROMPTS && !prompts.contains_key(&key) {
            return Err(too_many("seeds of prompts", MAX_PROMPTS));
        }
        Ok(Arc::clone(prompts.entry(key).or_insert(Arc::new(made))))
    }

    async fn tokenizer(&self, name: &str) -> Result<Arc<Tokenizer>> {
        if let Some(cached) = lock(&self.tokenizers).get(name) {
            return Ok(Arc::clone(cached));
        }
        if lock(&self.tokenizers).len() >= MAX_TOKENIZERS {
            return Err(too_many("tokenizers", MAX_TOKENIZERS));
        }
        let tokenizer = Tokenizer::open(&locate(name, &Hub::from_env()?).await?)?;
        let mut tokenizers = lock(&self.tokenizers);
        let cached = tokenizers.entry(name.to_owned()).or_insert(Arc::new(tokenizer));
        Ok(Arc::clone(cached))
    }
}

fn too_many(what: &str, most: usize) -> Fault {
    Fault::new(Kind::Limit, format!("a run can use at most {most} {what}")).hint("use fewer, or split the script")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn one_answer_settles_a_constant_difference(wanted in 10_usize..100_000, added in -9_i64..500) {
            let mut calibration = Calibration::default();
            let engine = |own: usize| usize::try_from(own as i64 + added).unwrap();
            let first = calibration.adjust(PromptSpec::text(wanted)).unwrap();
            prop_assert_eq!(first.tokens, wanted);
            prop_assert_eq!(calibration.observe(wanted, engine(first.tokens)), u32::from(added != 0));
            match calibration.adjust(PromptSpec::text(wanted)) {
                Ok(second) => prop_assert_eq!(calibration.observe(wanted, engine(second.tokens)), 0),
                Err(fault) => prop_assert!(added >= wanted as i64, "{}", fault),
            }
        }
    }

    #[test]
    fn what_the_engine_adds_alone_can_be_too_much() {
        let mut calibration = Calibration::default();
        calibration.observe(100, 125);
        let fault = calibration.adjust(PromptSpec::text(25)).unwrap_err();
        assert_eq!(fault.hint.as_deref(), Some("ask for at least 26"));
        assert_eq!(calibration.adjust(PromptSpec::text(26)).unwrap().tokens, 1);
    }

    #[test]
    fn counts_that_never_settle_are_counted_anew_for_another_length() {
        let mut calibration = Calibration::default();
        let misses: Vec<u32> = (0..3).map(|n| calibration.observe(100, 101 + n % 2)).collect();
        assert_eq!(misses, [1, 2, 3]);
        assert_eq!(calibration.observe(200, 203), 2);
        assert_eq!(calibration.observe(200, 200), 0);
    }
}
