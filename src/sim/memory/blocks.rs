//! A pool of KV cache blocks.

/// A pool of KV cache blocks: what is taken never exceeds what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    total: u64,
    taken: u64,
    tokens: u64,
}

impl Blocks {
    /// `total` free blocks of `tokens` tokens each.
    pub(crate) fn new(total: u64, tokens: u64) -> Self {
        Self {
            total,
            taken: 0,
            tokens,
        }
    }

    /// Blocks that hold so many tokens.
    pub(crate) fn holding(&self, tokens: u64) -> u64 {
        tokens.div_ceil(self.tokens)
    }

    /// Takes blocks, all or none.
    pub(crate) fn take(&mut self, blocks: u64) -> bool {
        let enough = blocks <= self.total - self.taken;
        if enough {
            self.taken += blocks;
        }
        enough
    }

    /// Gives blocks back.
    pub(crate) fn give(&mut self, blocks: u64) {
        self.taken = self.taken.saturating_sub(blocks);
    }

    /// Blocks free.
    pub(crate) fn free(&self) -> u64 {
        self.total - self.taken
    }

    /// Share taken, 0 to 1.
    pub(crate) fn usage(&self) -> f64 {
        if self.total == 0 {
            0.0
        } else {
            self.taken as f64 / self.total as f64
        }
    }
}
