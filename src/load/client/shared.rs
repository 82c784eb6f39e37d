//! What the threads of a load share: the buffer of prepared requests, the control command, and wake-ups.
//!
//! A separate thread prepares requests ahead of time, so that building a prompt never delays reading responses.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::target::Target;
use super::{Control, Job, RequestSource};
use crate::fault::{Fault, Result};

/// Maximum total size of buffered requests; at least one request is always kept.
const MAX_BYTES: usize = 32 << 20;

/// Minimum and maximum number of buffered requests.
const DEPTH_RANGE: (usize, usize) = (16, 4096);

/// How often to check for an abort while filling the buffer before the load starts.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A request ready to be written.
pub(super) struct Prepared {
    /// Its body has moved to `wire`.
    pub(super) job: Job,
    /// Head and body.
    pub(super) wire: Vec<u8>,
}

pub(super) enum NextRequest {
    Due(Box<Prepared>),
    /// The next request is due at this time.
    Later(Duration),
    /// The buffer is empty; the waker fires when that changes.
    Empty,
    /// No more requests.
    Exhausted,
}

/// The buffer between the thread that prepares requests and the one that sends them.
pub(super) struct SendBuffer {
    state: Mutex<BufferState>,
    space: Condvar,
    filled: Condvar,
    depth: usize,
    waker: Arc<Waker>,
}

#[derive(Default)]
struct BufferState {
    ready: VecDeque<Box<Prepared>>,
    bytes: usize,
    // The sender found the buffer empty and waits for a wake-up.
    sender_waiting: bool,
    // The source has no more requests, or the buffer was closed.
    finished: bool,
    fault: Option<Fault>,
}

impl SendBuffer {
    /// Creates a buffer for about `ahead` requests.
    pub(super) fn new(ahead: u64, waker: Arc<Waker>) -> Self {
        let depth = usize::try_from(ahead)
            .unwrap_or(usize::MAX)
            .clamp(DEPTH_RANGE.0, DEPTH_RANGE.1);
        Self {
            state: Mutex::default(),
            space: Condvar::new(),
            filled: Condvar::new(),
            depth,
            waker,
        }
    }

    /// Fills the buffer until the source is exhausted or the buffer is closed. Runs on its own thread.
    pub(super) fn fill(&self, source: &dyn RequestSource, target: &Target) {
        let _guard = ReportPanic(self);
        loop {
            let mut state = self.lock();
            while !state.finished && state.full(self.depth) {
                state = self.space.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.finished {
                return;
            }
            drop(state);
            let next = source.next();
            let prepared = next.map(|job| {
                job.map(|mut job| {
                    let wire = target.request(&std::mem::take(&mut job.body));
                    Box::new(Prepared { job, wire })
                })
            });
            let mut state = self.lock();
            match prepared {
                Ok(Some(prepared)) => {
                    state.bytes += prepared.wire.len();
                    state.ready.push_back(prepared);
                }
                Ok(None) => state.finished = true,
                Err(fault) => {
                    state.fault = Some(fault);
                    state.finished = true;
                }
            }
            if std::mem::take(&mut state.sender_waiting) {
                self.waker.wake();
            }
            if state.finished || state.full(self.depth) {
                self.filled.notify_all();
            }
        }
    }

    /// Waits until the buffer is full or the source exhausted, so that the load starts with requests ready.
    pub(super) fn wait_full(&self, control: &SharedControl) {
        let mut state = self.lock();
        while !state.finished && !state.full(self.depth) && !control.aborted() {
            let waited = self.filled.wait_timeout(state, CHECK_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes the next request, if it is due.
    pub(super) fn take(&self, now: Duration) -> Result<NextRequest> {
        let mut state = self.lock();
        if let Some(fault) = state.fault.take() {
            return Err(fault);
        }
        let due = state.ready.front().map(|next| next.job.at.filter(|at| *at > now));
        Ok(match due {
            None if state.finished => NextRequest::Exhausted,
            None => {
                state.sender_waiting = true;
                NextRequest::Empty
            }
            Some(Some(at)) => NextRequest::Later(at),
            Some(None) => {
                let Some(next) = state.ready.pop_front() else {
                    return Ok(NextRequest::Exhausted);
                };
                state.bytes -= next.wire.len();
                // Not after every request: waking the other thread costs time on the one that reads.
                if !state.finished && state.ready.len() * 2 <= self.depth && state.bytes * 2 <= MAX_BYTES {
                    self.space.notify_one();
                }
                NextRequest::Due(next)
            }
        })
    }

    /// Stops the preparing thread and drops buffered requests.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.finished = true;
        state.ready.clear();
        self.space.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, BufferState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reports a panic of the preparing thread; otherwise the other threads would wait forever.
struct ReportPanic<'a>(&'a SendBuffer);

impl Drop for ReportPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.lock();
            state.fault = Some(Fault::internal("the thread that prepares requests panicked"));
            state.finished = true;
            self.0.filled.notify_all();
            self.0.waker.wake();
        }
    }
}

impl BufferState {
    fn full(&self, depth: usize) -> bool {
        self.ready.len() >= depth || (self.bytes >= MAX_BYTES && !self.ready.is_empty())
    }
}

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

    /// Call after the waker woke the event loop.
    pub(super) fn clear_wakeup(&self) {
        self.waker.clear();
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

/// Wakes the client's event loop from any thread (an eventfd).
pub(super) struct Waker(EventFd);

impl Waker {
    pub(super) fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self(EventFd::from_flags(flags)?))
    }

    fn wake(&self) {
        // Fails only if the counter is full (2^64 wake-ups); the loop wakes up anyway.
        let _ignored = self.0.write(1);
    }

    fn clear(&self) {
        let _ignored = self.0.read();
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
