//! Where prompts come from: a tokenizer or a vocabulary's size, a seed, and a number that counts up.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fault::{Fault, Result};
use crate::prompt::PromptForm;

use super::chat::Around;
use super::draw::{Draw, heads, shuffle};
use super::lexicon::Lexicon;
use super::text::Writer;
use super::{Ask, Content, Prompt, Tokenizer, ordinary, words};

/// Makes prompts. The same seed makes the same prompts in the same order; no two of them begin alike.
pub struct Prompts {
    ids: Vec<u32>,
    tokenizer: Option<Arc<Tokenizer>>,
    lexicon: Option<Result<Lexicon>>,
    /// Text is made of common words, as there is no tokenizer to prove it.
    guessed: bool,
    plain: Around,
    chat: Around,
    chat_unknown: Option<String>,
    seed: u64,
    next: AtomicU64,
}

impl Prompts {
    /// Prompts for the model of this tokenizer.
    ///
    /// # Errors
    ///
    /// `usage` when its vocabulary has no ordinary tokens.
    pub fn new(tokenizer: impl Into<Arc<Tokenizer>>, seed: u64) -> Result<Self> {
        let tokenizer = tokenizer.into();
        Ok(Self::of(ordinary::of_tokenizer(&tokenizer)?, Some(tokenizer), seed))
    }

    /// Prompts for the model whose `tokenizer.json` is this file, or lies in this folder. Reads files: not for async code.
    pub fn open(path: &Path, seed: u64) -> Result<Self> {
        Self::new(Tokenizer::open(path)?, seed)
    }

    /// Prompts of token ids for a model of which only the size of the vocabulary is known.
    pub fn of_vocabulary(size: u32, seed: u64) -> Result<Self> {
        Ok(Self::of(ordinary::of_size(size)?, None, seed))
    }

    /// Prompts for a model of which nothing is known but that it reads English: text of common words, whose number is that of their tokens only
    /// if the engine's count says so.
    pub fn of_words(size: u32, seed: u64) -> Result<Self> {
        let mut prompts = Self::of_vocabulary(size, seed)?;
        prompts.guessed = true;
        Ok(prompts)
    }

    fn of(mut ids: Vec<u32>, tokenizer: Option<Arc<Tokenizer>>, seed: u64) -> Self {
        shuffle(seed, &mut ids);
        let chat = match &tokenizer {
            Some(tokenizer) => tokenizer.user_message(),
            None => Err("without a tokenizer there is none".to_owned()),
        };
        // Looked for now, though ids need none, so that the first prompt is made as quickly as every other. A tokenizer without
        // words is a fault only for who asks for text.
        let lexicon = tokenizer.as_ref().map(|tokenizer| Lexicon::of(tokenizer, &ids, seed));
        let (chat, chat_unknown) = match chat {
            Ok(around) => (around, None),
            Err(why) => (Around::nothing(), Some(why)),
        };
        Self {
            ids,
            tokenizer,
            lexicon,
            guessed: false,
            plain: Around::nothing(),
            chat,
            chat_unknown,
            seed,
            next: AtomicU64::new(0),
        }
    }

    /// The next prompt. Slow work, up to some milliseconds for long text: within async code, off the threads that time requests.
    ///
    /// # Errors
    ///
    /// `usage` when the ask cannot be met: too short for what the engine adds, too long to make, or text without a tokenizer.
    pub fn make(&self, ask: &Ask) -> Result<Prompt> {
        self.nth(self.next.fetch_add(1, Ordering::Relaxed), ask)
    }

    /// The prompt of this number, which does not depend on what was made before.
    pub fn nth(&self, serial: u64, ask: &Ask) -> Result<Prompt> {
        ask.check()?;
        if ask.tokens == 0 {
            return Err(Fault::usage("a prompt of 0 tokens is impossible").hint("ask for at least 1"));
        }
        let content = match ask.form {
            PromptForm::Tokens => Content::Tokens(self.tokens(serial, ask)),
            PromptForm::Text => Content::Text(self.text(serial, ask)?),
        };
        Ok(Prompt {
            content,
            count: ask.tokens,
        })
    }

    /// Passes over prompts that an earlier life of this run may have sent to a server that still keeps them in its cache.
    pub fn skip(&self, prompts: u64) {
        self.next.fetch_add(prompts, Ordering::Relaxed);
    }

    /// Whether text can be made.
    #[must_use]
    pub fn has_tokenizer(&self) -> bool {
        self.tokenizer.is_some()
    }

    /// Tokens of a text with what the tokenizer adds by itself; `None` without a tokenizer.
    #[must_use]
    pub fn count(&self, text: &str) -> Option<Result<usize>> {
        self.tokenizer.as_ref().map(|tokenizer| tokenizer.count(text, true))
    }

    /// Tokens of a text that an engine generated, where nothing is added; `None` without a tokenizer.
    #[must_use]
    pub fn count_generated(&self, text: &str) -> Option<Result<usize>> {
        self.tokenizer.as_ref().map(|tokenizer| tokenizer.count(text, false))
    }

    /// Why the model's chat template cannot be counted, where it cannot: chat messages are then counted as bare text, and only
    /// [`super::Calibration`] makes them exact.
    #[must_use]
    pub fn chat_unknown(&self) -> Option<&str> {
        self.chat_unknown.as_deref()
    }

    fn tokens(&self, serial: u64, ask: &Ask) -> Vec<u32> {
        let mut ids = Vec::with_capacity(ask.tokens);
        let any = |draw: &mut Draw| self.ids[draw.below(self.ids.len())];
        let mut draw = Draw::prefix(self.seed);
        ids.extend((0..ask.shared_prefix).map(|_| any(&mut draw)));
        ids.extend(heads(serial, self.ids.len()).map(|index| self.ids[index]));
        ids.truncate(ask.tokens);
        let mut draw = Draw::of(self.seed, serial);
        ids.extend((ids.len()..ask.tokens).map(|_| any(&mut draw)));
        ids
    }

    fn text(&self, serial: u64, ask: &Ask) -> Result<String> {
        if self.guessed {
            return Ok(words::text(self.seed, serial, ask));
        }
        let (Some(tokenizer), Some(lexicon)) = (&self.tokenizer, &self.lexicon) else {
            return Err(Fault::usage("a prompt of text needs the model's tokenizer").hint(
                "name it with `tokenizer`: a folder with `tokenizer.json`, or a model id of the Hugging Face hub",
            ));
        };
        let lexicon = lexicon.as_ref().map_err(Clone::clone)?;
        let writer = Writer {
            tokenizer,
            lexicon,
            around: if ask.chat { &self.chat } else { &self.plain },
            seed: self.seed,
        };
        writer.write(ask, serial)
    }
}
