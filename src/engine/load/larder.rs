//! Requests made ahead of their time by threads of their own, as many as a bounded memory holds.
//!
//! The client must never wait for a prompt: a long text takes milliseconds to make, and its body may be 200 KB. A few threads make
//! requests in any order; they are given out in theirs.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::engine::Protocol;
use crate::fault::Result;
use crate::load::plan::{Request, Schedule};

/// Bytes of bodies that are kept ready, or being made. One body that is larger than this is made alone.
const BYTES: u64 = 32 << 20;

/// Requests that are kept ready, or being made.
const REQUESTS: u64 = 4096;

/// Bytes of body that a token may take at the most, by far: ids have up to seven digits and a comma, words seldom more letters.
const PER_TOKEN: u64 = 8;

/// A request that can be sent.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) request: Request,
    pub(super) body: Bytes,
    pub(super) protocol: Protocol,
}

/// Makes the body of a request. Called by several threads at once.
pub(super) type Cook = Arc<dyn Fn(&Request) -> Result<(Bytes, Protocol)> + Send + Sync>;

/// Requests made ahead.
pub(super) struct Larder {
    shelf: Mutex<Shelf>,
    changed: Condvar,
}

struct Shelf {
    schedule: Schedule,
    /// The next of the schedule, which had no room yet.
    waiting: Option<Request>,
    ready: BTreeMap<u64, Result<Ready>>,
    /// The number of the next one to give out.
    next: u64,
    /// Bytes of what is ready or being made.
    bytes: u64,
    /// How many are being made.
    making: u64,
    /// The number after the last one, once it is known.
    end: Option<u64>,
    closed: bool,
}

impl Larder {
    /// Begins to make the requests of this schedule. The threads end once all are made, or the larder is closed.
    pub(super) fn open(schedule: Schedule, cook: &Cook) -> Arc<Self> {
        let larder = Arc::new(Self {
            shelf: Mutex::new(Shelf {
                schedule,
                waiting: None,
                ready: BTreeMap::new(),
                next: 0,
                bytes: 0,
                making: 0,
                end: None,
                closed: false,
            }),
            changed: Condvar::new(),
        });
        // The client and the engine need cores too.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores.div_ceil(4).min(4) {
            let (larder, cook) = (Arc::clone(&larder), Arc::clone(cook));
            std::thread::spawn(move || larder.work(&cook));
        }
        larder
    }

    /// The next request, waited for where it is not ready; none after the last one, or once the larder is closed.
    ///
    /// # Errors
    ///
    /// What making it failed with.
    pub(super) fn take(&self) -> Result<Option<Ready>> {
        let mut shelf = self.lock();
        loop {
            let next = shelf.next;
            if let Some(ready) = shelf.ready.remove(&next) {
                shelf.next += 1;
                if let Ok(ready) = &ready {
                    shelf.bytes = shelf.bytes.saturating_sub(ready.body.len() as u64);
                }
                self.changed.notify_all();
                return ready.map(Some);
            }
            if shelf.closed || shelf.end == Some(next) {
                return Ok(None);
            }
            shelf = self.wait(shelf);
        }
    }

    /// Ends the threads, and whoever waits.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn work(&self, cook: &Cook) {
        while let Some(request) = self.claim() {
            let made = cook(&request);
            let mut shelf = self.lock();
            shelf.making -= 1;
            let bytes = made.as_ref().map_or(0, |(body, _)| body.len() as u64);
            shelf.bytes = shelf.bytes.saturating_sub(guess(&request)) + bytes;
            let ready = made.map(|(body, protocol)| Ready {
                request,
                body,
                protocol,
            });
            shelf.ready.insert(request.index, ready);
            self.changed.notify_all();
        }
    }

    /// The next request to make, once there is room for it; none when there are no more.
    fn claim(&self) -> Option<Request> {
        let mut shelf = self.lock();
        loop {
            if shelf.closed || shelf.end.is_some() {
                return None;
            }
            let Some(request) = shelf.waiting.take().or_else(|| shelf.schedule.next()) else {
                shelf.end = Some(shelf.next + shelf.ready.len() as u64 + shelf.making);
                self.changed.notify_all();
                return None;
            };
            let kept = shelf.ready.len() as u64 + shelf.making;
            if kept == 0 || (kept < REQUESTS && shelf.bytes + guess(&request) <= BYTES) {
                shelf.bytes += guess(&request);
                shelf.making += 1;
                return Some(request);
            }
            shelf.waiting = Some(request);
            shelf = self.wait(shelf);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, shelf: MutexGuard<'a, Shelf>) -> MutexGuard<'a, Shelf> {
        self.changed.wait(shelf).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that a request may take while nobody knows.
fn guess(request: &Request) -> u64 {
    1024 + PER_TOKEN * request.input
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
            sizes: Sizes::Drawn {
                input: Length::Fixed(input),
                output: Length::Fixed(1),
            },
            warmup: Warmup::None,
            stop: Stop::default(),
        };
        Schedule::new(Arc::new(plan), 1, 0)
    }

    #[test]
    fn requests_are_given_in_their_order_and_no_more_are_kept_than_there_is_room_for() {
        let made = Arc::new(AtomicU64::new(0));
        let counting = Arc::clone(&made);
        let tokens = 1 << 18;
        let cook: Cook = Arc::new(move |request| {
            counting.fetch_add(1, Ordering::Relaxed);
            Ok((Bytes::from(vec![0; 8 << 18]), protocol(request)))
        });
        let larder = Larder::open(schedule(tokens), &cook);
        for index in 0..40 {
            assert_eq!(larder.take().unwrap().unwrap().request.index, index);
            // Of 2 MiB and a little each, 32 MiB hold fifteen.
            assert!(made.load(Ordering::Relaxed) <= index + 1 + 16);
        }
        larder.close();
        while larder.take().unwrap().is_some() {}
    }

    #[test]
    fn a_request_that_cannot_be_made_is_told_in_its_turn() {
        let cook: Cook = Arc::new(|request| match request.index {
            2 => Err(Fault::usage("no")),
            _ => Ok((Bytes::new(), protocol(request))),
        });
        let larder = Larder::open(schedule(1), &cook);
        assert!(larder.take().is_ok() && larder.take().is_ok() && larder.take().is_err());
        larder.close();
    }

    fn protocol(_: &Request) -> Protocol {
        Protocol::OpenaiCompletions
    }
}
