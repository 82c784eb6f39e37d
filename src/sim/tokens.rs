//! Counts tokens, with a given `tokenizer.json` or one token per word, and simulates the prefix cache.
//!
//! The built-in count is one token per word (separated by white space), plus BOS if special tokens are requested. Chat
//! adds four tokens per message and three for the start of the answer, with either.
//!
//! Prefix cache: as in vLLM, only whole blocks are shared, and the last token of a prompt is always computed.
//! Simplified: a prompt is cached as soon as it is sent, and cached blocks use no memory of the pool, so sharing saves
//! time but not memory.

use std::collections::{HashSet, VecDeque};
use std::path::Path;

use tokenizers::Tokenizer;

use crate::fault::{Fault, Kind, Result};

/// Upper bound of token ids when words are counted.
const VOCABULARY: u64 = 32_000;

const BOS: u32 = 1;

pub(super) enum TokenCounter {
    Words,
    File(Box<Tokenizer>),
}

impl TokenCounter {
    pub(super) fn new(tokenizer: Option<&Path>) -> Result<Self> {
        let Some(path) = tokenizer else { return Ok(Self::Words) };
        Tokenizer::from_file(path)
            .map(|tokenizer| Self::File(Box::new(tokenizer)))
            .map_err(|error| {
                Fault::missing(
                    format!("tokenizer `{}`: {error}", path.display()),
                    "give the path of a tokenizer.json",
                )
            })
    }

    pub(super) fn count(&self, text: &str, special: bool) -> Result<u64> {
        match self {
            Self::Words => Ok(text.split_whitespace().count() as u64 + u64::from(special)),
            Self::File(_) => Ok(self.tokens(text, special)?.len() as u64),
        }
    }

    pub(super) fn chat<'a>(&self, messages: impl Iterator<Item = &'a str>) -> Result<u64> {
        messages
            .map(|text| Ok(self.count(text, false)? + 4))
            .sum::<Result<u64>>()
            .map(|sum| sum + 3)
    }

    /// Ids of the tokens.
    pub(super) fn tokens(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        match self {
            Self::Words => {
                let begin = special.then_some(BOS);
                Ok(begin.into_iter().chain(text.split_whitespace().map(word_id)).collect())
            }
            Self::File(tokenizer) => match tokenizer.encode(text, special) {
                Ok(encoded) => Ok(encoded.get_ids().to_vec()),
                Err(error) => Err(Fault::new(Kind::Engine, format!("cannot tokenize: {error}"))),
            },
        }
    }
}

fn word_id(word: &str) -> u32 {
    let sum = word
        .bytes()
        .fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    output_token_id(sum, 0)
}

/// Id of the n-th token of an answer; never a special token.
pub(super) fn output_token_id(request: u64, n: u64) -> u32 {
    let mixed = (request ^ 0x9e37_79b9)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(n.wrapping_mul(0xbf58_476d_1ce4_e5b9));
    ((mixed >> 33) % (VOCABULARY - 3) + 3) as u32
}

/// Tokens in a block.
pub(super) const BLOCK: u64 = 16;

/// Rolling hash of a prompt at the end of each whole block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PrefixHashes {
    tokens: u64,
    rolling: u64,
    blocks: Vec<u64>,
}

impl PrefixHashes {
    pub(super) fn push(&mut self, id: u64) {
        // FNV-1a over the ids.
        self.rolling = (self.rolling ^ id.wrapping_add(0xcbf2_9ce4_8422_2325)).wrapping_mul(0x0100_0000_01b3);
        self.tokens += 1;
        if self.tokens.is_multiple_of(BLOCK) {
            self.blocks.push(self.rolling);
        }
    }
}

/// Blocks of earlier prompts.
#[derive(Debug)]
pub(super) struct PrefixCache {
    max_blocks: usize,
    cached: HashSet<u64>,
    order: VecDeque<u64>,
    pub(super) queries: u64,
    pub(super) hits: u64,
}

impl PrefixCache {
    /// Creates a cache for this many tokens.
    pub(super) fn new(tokens: u64) -> Self {
        Self {
            max_blocks: usize::try_from(tokens / BLOCK).unwrap_or(usize::MAX),
            cached: HashSet::new(),
            order: VecDeque::new(),
            queries: 0,
            hits: 0,
        }
    }

    /// Number of the prompt's tokens that are cached; adds the prompt.
    pub(super) fn look_up(&mut self, prompt: &PrefixHashes) -> u64 {
        let found = prompt
            .blocks
            .iter()
            .take_while(|hash| self.cached.contains(hash))
            .count() as u64;
        for hash in &prompt.blocks {
            if self.cached.insert(*hash) {
                self.order.push_back(*hash);
            }
        }
        while self.order.len() > self.max_blocks {
            if let Some(oldest) = self.order.pop_front() {
                self.cached.remove(&oldest);
            }
        }
        let computed = prompt.tokens.saturating_sub(1) / BLOCK * BLOCK;
        let hits = (found * BLOCK).min(computed);
        self.queries += prompt.tokens;
        self.hits += hits;
        hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_token() {
        let counter = TokenCounter::new(None).unwrap();
        assert_eq!(counter.count("hello  world foo bar", true).unwrap(), 5);
        let ids = counter.tokens(" añb c añb", true).unwrap();
        assert!(ids.len() == 4 && ids[1] == ids[3] && ids[1] != ids[2], "{ids:?}");
        assert_eq!(counter.chat(["a b", "c"].into_iter()).unwrap(), 3 + 8 + 3);
    }

    #[test]
    fn a_missing_tokenizer_is_reported_with_a_remedy() {
        let fault = TokenCounter::new(Some(Path::new("/nowhere/tokenizer.json")))
            .err()
            .unwrap();
        assert_eq!(fault.kind, Kind::Missing);
        assert!(fault.message.contains("/nowhere/tokenizer.json") && fault.hint.is_some());
    }

    fn prompt(ids: impl Iterator<Item = u64>) -> PrefixHashes {
        let mut hashes = PrefixHashes::default();
        ids.for_each(|id| hashes.push(id));
        hashes
    }

    #[test]
    fn whole_blocks_of_the_prefix_hit_but_never_the_last_token() {
        let mut prefixes = PrefixCache::new(1000);
        assert_eq!(prefixes.look_up(&prompt(0..40)), 0);
        assert_eq!(prefixes.look_up(&prompt(0..40)), 32);
        assert_eq!(prefixes.look_up(&prompt((0..16).chain(90..120))), 16);
        assert_eq!(prefixes.look_up(&prompt(1..41)), 0, "one token away");
        assert_eq!(prefixes.look_up(&prompt(0..32)), 16, "the last token is computed");
        assert_eq!((prefixes.queries, prefixes.hits), (40 + 40 + 46 + 40 + 32, 64));
    }

    #[test]
    fn the_cache_is_bounded_and_evicts_the_oldest() {
        let mut prefixes = PrefixCache::new(64);
        prefixes.look_up(&prompt(0..64));
        prefixes.look_up(&prompt(100..116));
        assert_eq!(prefixes.look_up(&prompt(100..117)), 16);
        assert_eq!(prefixes.look_up(&prompt(0..64)), 0, "its hashes were evicted");
        assert!(prefixes.cached.len() <= 4 && prefixes.order.len() == prefixes.cached.len());
    }
}
