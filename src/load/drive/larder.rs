//! Requests made ready ahead of their time, by a thread of its own, so that making a prompt never delays the reading of answers.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::bell::Bell;
use super::orders::Orders;
use super::target::Target;
use super::{Job, Source};
use crate::fault::{Fault, Result};

/// The most bytes of requests that are kept ready, beside the one that is always kept.
const LARGEST: usize = 32 << 20;

/// The fewest and the most requests that are kept ready.
const DEPTHS: (usize, usize) = (16, 4096);

/// Between two looks at whether the load was cut off before it began.
const PATIENCE: Duration = Duration::from_millis(50);

/// A request that only needs to be written.
pub(super) struct Prepared {
    /// Its body is in `wire`.
    pub(super) job: Job,
    /// Head and body.
    pub(super) wire: Vec<u8>,
}

/// What there is to be sent.
pub(super) enum Taken {
    /// This one.
    Due(Box<Prepared>),
    /// The next one is due then.
    Later(Duration),
    /// None at this moment; the bell rings when there is.
    Empty,
    /// None any more.
    Over,
}

/// The shelf between the thread that prepares and the one that sends.
pub(super) struct Larder {
    shelf: Mutex<Shelf>,
    room: Condvar,
    filled: Condvar,
    depth: usize,
    bell: Arc<Bell>,
}

#[derive(Default)]
struct Shelf {
    ready: VecDeque<Box<Prepared>>,
    bytes: usize,
    // Somebody found it empty.
    hungry: bool,
    // The source has no more, or nobody wants more.
    over: bool,
    fault: Option<Fault>,
}

impl Larder {
    /// Keeps about so many requests ready.
    pub(super) fn new(ahead: u64, bell: Arc<Bell>) -> Self {
        let depth = usize::try_from(ahead).unwrap_or(usize::MAX).clamp(DEPTHS.0, DEPTHS.1);
        Self {
            shelf: Mutex::default(),
            room: Condvar::new(),
            filled: Condvar::new(),
            depth,
            bell,
        }
    }

    /// Fills the shelf until the source has no more, or it is closed. Runs on a thread of its own.
    pub(super) fn fill(&self, source: &dyn Source, target: &Target) {
        let _told = Panic(self);
        loop {
            let mut shelf = self.lock();
            while !shelf.over && shelf.full(self.depth) {
                shelf = self.room.wait(shelf).unwrap_or_else(PoisonError::into_inner);
            }
            if shelf.over {
                return;
            }
            drop(shelf);
            let next = source.next();
            let prepared = next.map(|job| {
                job.map(|mut job| {
                    let wire = target.request(&std::mem::take(&mut job.body));
                    Box::new(Prepared { job, wire })
                })
            });
            let mut shelf = self.lock();
            match prepared {
                Ok(Some(prepared)) => {
                    shelf.bytes += prepared.wire.len();
                    shelf.ready.push_back(prepared);
                }
                Ok(None) => shelf.over = true,
                Err(fault) => {
                    shelf.fault = Some(fault);
                    shelf.over = true;
                }
            }
            if std::mem::take(&mut shelf.hungry) {
                self.bell.ring();
            }
            if shelf.over || shelf.full(self.depth) {
                self.filled.notify_all();
            }
        }
    }

    /// Waits until the shelf is full or all there is: the clock begins with requests at hand.
    pub(super) fn wait_full(&self, orders: &Orders) {
        let mut shelf = self.lock();
        while !shelf.over && !shelf.full(self.depth) && !orders.cut() {
            let waited = self.filled.wait_timeout(shelf, PATIENCE);
            shelf = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The next request that is due, if it is.
    pub(super) fn take(&self, now: Duration) -> Result<Taken> {
        let mut shelf = self.lock();
        if let Some(fault) = shelf.fault.take() {
            return Err(fault);
        }
        let due = shelf.ready.front().map(|next| next.job.at.filter(|at| *at > now));
        Ok(match due {
            None if shelf.over => Taken::Over,
            None => {
                shelf.hungry = true;
                Taken::Empty
            }
            Some(Some(at)) => Taken::Later(at),
            Some(None) => {
                let Some(next) = shelf.ready.pop_front() else {
                    return Ok(Taken::Over);
                };
                shelf.bytes -= next.wire.len();
                // Not at every one: a thread that wakes takes time from the one that reads.
                if !shelf.over && shelf.ready.len() * 2 <= self.depth && shelf.bytes * 2 <= LARGEST {
                    self.room.notify_one();
                }
                Taken::Due(next)
            }
        })
    }

    /// Nobody wants more.
    pub(super) fn close(&self) {
        let mut shelf = self.lock();
        shelf.over = true;
        shelf.ready.clear();
        self.room.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells of a panic of the thread that prepares: the others would wait for it for ever.
struct Panic<'a>(&'a Larder);

impl Drop for Panic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut shelf = self.0.lock();
            shelf.fault = Some(Fault::internal("the thread that prepares requests panicked"));
            shelf.over = true;
            self.0.filled.notify_all();
            self.0.bell.ring();
        }
    }
}

impl Shelf {
    fn full(&self, depth: usize) -> bool {
        self.ready.len() >= depth || (self.bytes >= LARGEST && !self.ready.is_empty())
    }
}
