//! What the client is told while it runs, by whoever hears of the ends of requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::Go;
use super::bell::Bell;

/// The strongest order so far.
pub(super) struct Orders {
    go: AtomicU8,
    bell: Arc<Bell>,
}

impl Orders {
    pub(super) fn new(bell: Arc<Bell>) -> Self {
        Self {
            go: AtomicU8::new(rank(Go::On)),
            bell,
        }
    }

    /// An order is never taken back: a weaker one changes nothing.
    pub(super) fn give(&self, go: Go) {
        if self.go.fetch_max(rank(go), Ordering::Relaxed) < rank(go) {
            self.bell.ring();
        }
    }

    /// Whether all is to end now.
    pub(super) fn cut(&self) -> bool {
        self.go() == Go::CutOff
    }

    pub(super) fn go(&self) -> Go {
        match self.go.load(Ordering::Relaxed) {
            0 => Go::On,
            1 => Go::Finish,
            _ => Go::CutOff,
        }
    }
}

fn rank(go: Go) -> u8 {
    match go {
        Go::On => 0,
        Go::Finish => 1,
        Go::CutOff => 2,
    }
}
