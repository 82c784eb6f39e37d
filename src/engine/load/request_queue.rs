//! Prefetch queue of prepared requests, with a memory limit.
//!
//! The client must never wait for a prompt: a long text takes milliseconds to build, and its body may be 200 KB. A few
//! threads prepare requests in any order; the queue returns them in schedule order.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::engine::Protocol;
use crate::fault::Result;
use crate::load::plan::{Request, Schedule};

/// Maximum bytes of bodies in the queue or in preparation. A larger body is prepared alone.
const MAX_BYTES: u64 = 32 << 20;

/// Maximum requests in the queue or in preparation.
const MAX_REQUESTS: u64 = 4096;

/// Upper estimate of a body's bytes per token: an id has up to seven digits and a comma; words are rarely longer.
const BYTES_PER_TOKEN: u64 = 8;

/// A prepared request.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) request: Request,
    pub(super) body: Bytes,
    pub(super) protocol: Protocol,
}

/// Builds the body of a request. Called by several threads.
pub(super) type BodyBuilder = Arc<dyn Fn(&Request) -> Result<(Bytes, Protocol)> + Send + Sync>;

pub(super) struct RequestQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

struct QueueState {
    schedule: Schedule,
    /// The next scheduled request, if it did not fit yet.
    waiting: Option<Request>,
    ready: BTreeMap<u64, Result<Ready>>,
    /// Index of the next request to return.
    next: u64,
    /// Bytes in the queue or in preparation.
    bytes: u64,
    /// Number of requests in preparation.
    building: u64,
    /// The index after the last request, once known.
    end: Option<u64>,
    closed: bool,
}

impl RequestQueue {
    /// Starts to prepare the requests of this schedule. The threads end after the last request or on `close`.
    pub(super) fn open(schedule: Schedule, build: &BodyBuilder) -> Arc<Self> {
        let queue = Arc::new(Self {
            state: Mutex::new(QueueState {
                schedule,
                waiting: None,
                ready: BTreeMap::new(),
                next: 0,
                bytes: 0,
                building: 0,
                end: None,
                closed: false,
            }),
            changed: Condvar::new(),
        });
        // Leave cores for the client and the engine.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores.div_ceil(4).min(4) {
            let (queue, build) = (Arc::clone(&queue), Arc::clone(build));
            std::thread::spawn(move || queue.build_requests(&build));
        }
        queue
    }

    /// The next request; blocks until it is ready. `None` after the last one or on `close`.
    ///
    /// # Errors
    ///
    /// Errors of building the request.
    pub(super) fn take(&self) -> Result<Option<Ready>> {
        let mut state = self.lock();
        loop {
            let next = state.next;
            if let Some(ready) = state.ready.remove(&next) {
                state.next += 1;
                if let Ok(ready) = &ready {
                    state.bytes = state.bytes.saturating_sub(ready.body.len() as u64);
                }
                self.changed.notify_all();
                return ready.map(Some);
            }
            if state.closed || state.end == Some(next) {
                return Ok(None);
            }
            state = self.wait(state);
        }
    }

    /// Ends the threads and unblocks waiting callers.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn build_requests(&self, build: &BodyBuilder) {
        while let Some(request) = self.next_to_build() {
            let made = build(&request);
            let mut state = self.lock();
            state.building -= 1;
            let bytes = made.as_ref().map_or(0, |(body, _)| body.len() as u64);
            state.bytes = state.bytes.saturating_sub(estimated_bytes(&request)) + bytes;
            let ready = made.map(|(body, protocol)| Ready {
                request,
                body,
                protocol,
            });
            state.ready.insert(request.index, ready);
            self.changed.notify_all();
        }
    }

    /// Takes the next request to prepare, once it fits; `None` when there are no more.
    fn next_to_build(&self) -> Option<Request> {
        let mut state = self.lock();
        loop {
            if state.closed || state.end.is_some() {
                return None;
            }
            let Some(request) = state.waiting.take().or_else(|| state.schedule.next()) else {
                state.end = Some(state.next + state.ready.len() as u64 + state.building);
                self.changed.notify_all();
                return None;
            };
            let held = state.ready.len() as u64 + state.building;
            if held == 0 || (held < MAX_REQUESTS && state.bytes + estimated_bytes(&request) <= MAX_BYTES) {
                state.bytes += estimated_bytes(&request);
                state.building += 1;
                return Some(request);
            }
            state.waiting = Some(request);
            state = self.wait(state);
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, QueueState>) -> MutexGuard<'a, QueueState> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Estimated bytes of a request before its body is built.
fn estimated_bytes(request: &Request) -> u64 {
    1024 + BYTES_PER_TOKEN * request.input
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::fault::Fault;
    use crate::load::plan::{Arrivals, Length, Plan, Sizes, Stop, Warmup};

    fn schedule(input: u64) -> Schedule {
        let plan = Plan {
            arrivals: Arrivals::Closed {
                concurrency: 1,
                ramp: Duration::ZERO,
            },
            sizes: Sizes::Random {
                input: Length::Fixed(input),
                output: Length::Fixed(1),
            },
            warmup: Warmup::None,
            stop: Stop::default(),
        };
        Schedule::new(Arc::new(plan), 1, 0)
    }

    #[test]
    fn requests_come_in_order_and_the_queue_is_bounded() {
        let made = Arc::new(AtomicU64::new(0));
        let counting = Arc::clone(&made);
        let tokens = 1 << 18;
        let build: BodyBuilder = Arc::new(move |request| {
            counting.fetch_add(1, Ordering::Relaxed);
            Ok((Bytes::from(vec![0; 8 << 18]), protocol(request)))
        });
        let queue = RequestQueue::open(schedule(tokens), &build);
        for index in 0..40 {
            assert_eq!(queue.take().unwrap().unwrap().request.index, index);
            // Of 2 MiB and a little each, 32 MiB hold fifteen.
            assert!(made.load(Ordering::Relaxed) <= index + 1 + 16);
        }
        queue.close();
        while queue.take().unwrap().is_some() {}
    }

    #[test]
    fn a_request_that_cannot_be_built_fails_in_its_turn() {
        let build: BodyBuilder = Arc::new(|request| match request.index {
            2 => Err(Fault::usage("no")),
            _ => Ok((Bytes::new(), protocol(request))),
        });
        let queue = RequestQueue::open(schedule(1), &build);
        assert!(queue.take().is_ok() && queue.take().is_ok() && queue.take().is_err());
        queue.close();
    }

    fn protocol(_: &Request) -> Protocol {
        Protocol::OpenaiCompletions
    }
}
