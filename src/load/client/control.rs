//! The strongest control command so far, shared between the client's threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::Control;
use super::waker::Waker;

pub(super) struct SharedControl {
    rank: AtomicU8,
    waker: Arc<Waker>,
}

impl SharedControl {
    pub(super) fn new(waker: Arc<Waker>) -> Self {
        Self {
            rank: AtomicU8::new(rank(Control::Continue)),
            waker,
        }
    }

    /// Raises the command. A weaker one than before changes nothing.
    pub(super) fn raise(&self, control: Control) {
        if self.rank.fetch_max(rank(control), Ordering::Relaxed) < rank(control) {
            self.waker.wake();
        }
    }

    pub(super) fn aborted(&self) -> bool {
        self.get() == Control::Abort
    }

    pub(super) fn get(&self) -> Control {
        match self.rank.load(Ordering::Relaxed) {
            0 => Control::Continue,
            1 => Control::Drain,
            _ => Control::Abort,
        }
    }
}

fn rank(control: Control) -> u8 {
    match control {
        Control::Continue => 0,
        Control::Drain => 1,
        Control::Abort => 2,
    }
}
