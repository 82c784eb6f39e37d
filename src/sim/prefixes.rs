//! The prefix cache of a simulated engine (pure): how many tokens at the head of a prompt it has read before.
//!
//! As in vLLM whole blocks are shared, never a part of one, and the last token of a prompt is always computed. Simpler than there: a prompt
//! is known as soon as it is sent, and what is known is kept beside the pool, so that sharing saves time but no room in the pool.

use std::collections::{HashSet, VecDeque};

/// Tokens in a block.
pub(super) const BLOCK: u64 = 16;

/// Names the head of a prompt up to each whole block, token by token as it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Heads {
    tokens: u64,
    rolling: u64,
    blocks: Vec<u64>,
}

impl Heads {
    /// The next token.
    pub(super) fn push(&mut self, id: u64) {
        // FNV-1a over ids: equal heads have equal names, and others hardly ever.
        self.rolling = (self.rolling ^ id.wrapping_add(0xcbf2_9ce4_8422_2325)).wrapping_mul(0x0100_0000_01b3);
        self.tokens += 1;
        if self.tokens.is_multiple_of(BLOCK) {
            self.blocks.push(self.rolling);
        }
    }

    /// Tokens so far.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }
}

/// The heads of prompts that were read before.
#[derive(Debug)]
pub(super) struct Prefixes {
    most: usize,
    known: HashSet<u64>,
    order: VecDeque<u64>,
    /// Tokens looked up.
    pub(super) queries: u64,
    /// Tokens found.
    pub(super) hits: u64,
}

impl Prefixes {
    /// Room for so many tokens.
    pub(super) fn new(tokens: u64) -> Self {
        Self {
            most: usize::try_from(tokens / BLOCK).unwrap_or(usize::MAX),
            known: HashSet::new(),
            order: VecDeque::new(),
            queries: 0,
            hits: 0,
        }
    }

    /// Looks a prompt up, and knows it from now on: how many of its tokens are there.
    pub(super) fn look_up(&mut self, prompt: &Heads) -> u64 {
        let found = prompt
            .blocks
            .iter()
            .take_while(|head| self.known.contains(head))
            .count() as u64;
        for head in &prompt.blocks {
            if self.known.insert(*head) {
                self.order.push_back(*head);
            }
        }
        while self.order.len() > self.most {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
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

    fn prompt(ids: impl Iterator<Item = u64>) -> Heads {
        let mut heads = Heads::default();
        ids.for_each(|id| heads.push(id));
        heads
    }

    #[test]
    fn whole_blocks_at_the_head_are_found_and_never_the_last_token() {
        let mut prefixes = Prefixes::new(1000);
        assert_eq!(prefixes.look_up(&prompt(0..40)), 0);
        assert_eq!(prefixes.look_up(&prompt(0..40)), 32);
        assert_eq!(prefixes.look_up(&prompt((0..16).chain(90..120))), 16);
        assert_eq!(prefixes.look_up(&prompt(1..41)), 0, "one token away");
        assert_eq!(prefixes.look_up(&prompt(0..32)), 16, "the last token is computed");
        assert_eq!((prefixes.queries, prefixes.hits), (40 + 40 + 46 + 40 + 32, 64));
    }

    #[test]
    fn what_is_known_is_bounded_and_the_oldest_goes_first() {
        let mut prefixes = Prefixes::new(64);
        prefixes.look_up(&prompt(0..64));
        prefixes.look_up(&prompt(100..116));
        assert_eq!(prefixes.look_up(&prompt(100..117)), 16);
        assert_eq!(prefixes.look_up(&prompt(0..64)), 0, "its head had to go");
        assert!(prefixes.known.len() <= 4 && prefixes.order.len() == prefixes.known.len());
    }
}
