//! Prefix cache of a simulated engine (pure): how many tokens at the start of a prompt are cached.
//!
//! As in vLLM, only whole blocks are shared, and the last token of a prompt is always computed. Simplified: a prompt
//! is cached as soon as it is sent, and cached blocks use no memory of the pool, so sharing saves time but not
//! memory.

use std::collections::{HashSet, VecDeque};

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

    pub(super) fn tokens(&self) -> u64 {
        self.tokens
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
    /// With room for this many tokens.
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
