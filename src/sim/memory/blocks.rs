/// A pool of KV cache blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockPool {
    total: u64,
    used: u64,
    tokens: u64,
}

impl BlockPool {
    /// `total` free blocks of `tokens` tokens each.
    pub(crate) fn new(total: u64, tokens: u64) -> Self {
        Self { total, used: 0, tokens }
    }

    /// Number of blocks needed for `tokens`.
    pub(crate) fn blocks_for(&self, tokens: u64) -> u64 {
        tokens.div_ceil(self.tokens)
    }

    /// Allocates all blocks, or none.
    pub(crate) fn allocate(&mut self, blocks: u64) -> bool {
        let fits = blocks <= self.total - self.used;
        if fits {
            self.used += blocks;
        }
        fits
    }

    pub(crate) fn release(&mut self, blocks: u64) {
        self.used = self.used.saturating_sub(blocks);
    }

    pub(crate) fn free(&self) -> u64 {
        self.total - self.used
    }

    /// Share in use, 0 to 1.
    pub(crate) fn usage(&self) -> f64 {
        if self.total == 0 {
            0.0
        } else {
            self.used as f64 / self.total as f64
        }
    }
}
