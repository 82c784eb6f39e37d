//! What the threads of a load share: the queue of prepared requests, the control command, and wake-ups.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::eventfd::EventFd;

use super::connection::Target;
use super::{BuildJob, Control, Job, RequestSource};
use crate::fault::{Fault, Result};
use crate::task::lock;

/// Maximum total size of built requests; at least one request is always kept.
const MAX_BYTES: usize = 32 << 20;

/// Maximum number of requests, built or not.
const MAX_REQUESTS: usize = 4096;

/// Requests to have ready before the load starts: as many as there are connections, within these limits.
const READY_RANGE: (usize, usize) = (16, MAX_REQUESTS);

/// How often to check for an abort while waiting for the first requests.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

pub(super) enum NextRequest {
    /// A request ready to be written: its body has the head before it.
    Due(Box<Job>),
    /// The next request is due at this time.
    Later(Duration),
    /// The next request is not built yet; the waker fires when it is.
    Empty,
    /// No more requests.
    Exhausted,
}

/// The queue between the threads that build requests and the one that sends them.
///
/// The sender must never wait for a prompt: a long text takes milliseconds to build, and its body may be 200 KB. So a few
/// threads build requests ahead, in any order; the queue returns them in the order of the source.
pub(super) struct RequestQueue {
    state: Mutex<QueueState>,
    /// Held while the source is asked for the next request.
    source: Mutex<()>,
    space: Condvar,
    built: Condvar,
    /// Requests to have ready before the load starts.
    ready: usize,
    waker: Arc<EventFd>,
}

#[derive(Default)]
struct QueueState {
    /// In the order of the source; `None` while being built.
    requests: VecDeque<Option<Result<Box<Job>>>>,
    /// Number of requests taken: the number of the first in the queue.
    taken: usize,
    bytes: usize,
    // The sender found nothing and waits for a wake-up.
    sender_waiting: bool,
    // A building thread waits for space.
    builder_waiting: bool,
    // The source has no more requests, or the queue was closed.
    finished: bool,
    panic: Option<Fault>,
}

impl RequestQueue {
    /// Creates a queue for a load with this many connections.
    pub(super) fn new(connections: u64, waker: Arc<EventFd>) -> Self {
        let ready = usize::try_from(connections).unwrap_or(usize::MAX);
        Self {
            state: Mutex::default(),
            source: Mutex::default(),
            space: Condvar::new(),
            built: Condvar::new(),
            ready: ready.clamp(READY_RANGE.0, READY_RANGE.1),
            waker,
        }
    }

    /// Builds requests until the source is exhausted or the queue is closed. Runs on each building thread.
    pub(super) fn fill(&self, source: &dyn RequestSource, target: &Target) {
        let _guard = ReportPanic(self);
        while let Some((number, build)) = self.next_to_build(source) {
            let built = build().map(|mut job| {
                job.body = target.request(&job.body).into();
                Box::new(job)
            });
            let mut state = self.lock();
            let at = number - state.taken;
            let Some(place) = state.requests.get_mut(at) else {
                return;
            };
            let bytes = built.as_ref().map_or(0, |job| job.body.len());
            *place = Some(built);
            state.bytes += bytes;
            self.announce(&mut state);
        }
    }

    /// The next request to build and its number, once there is space; `None` when there are no more.
    fn next_to_build(&self, source: &dyn RequestSource) -> Option<(usize, BuildJob)> {
        let _in_order = lock(&self.source);
        let mut state = self.lock();
        while !state.finished && state.is_full() {
            state.builder_waiting = true;
            state = self.space.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.finished {
            return None;
        }
        drop(state);
        let next = source.next();
        let mut state = self.lock();
        if state.finished {
            return None;
        }
        let number = state.taken + state.requests.len();
        match next {
            Ok(Some(build)) => {
                state.requests.push_back(None);
                return Some((number, build));
            }
            Ok(None) => {}
            Err(fault) => state.requests.push_back(Some(Err(fault))),
        }
        state.finished = true;
        self.announce(&mut state);
        None
    }

    /// Wakes those who wait for a request or for the end.
    fn announce(&self, state: &mut QueueState) {
        if state.sender_waiting && state.requests.front().is_none_or(Option::is_some) {
            state.sender_waiting = false;
            wake(&self.waker);
        }
        self.built.notify_all();
    }

    /// Waits until enough requests are built, so that the load starts with requests ready.
    pub(super) fn wait_ready(&self, control: &SharedControl) {
        let mut state = self.lock();
        while !state.is_ready(self.ready) && !control.aborted() {
            let waited = self.built.wait_timeout(state, CHECK_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes the next request, if it is due.
    ///
    /// # Errors
    ///
    /// The error of building it.
    pub(super) fn take(&self, now: Duration) -> Result<NextRequest> {
        let mut state = self.lock();
        if let Some(fault) = state.panic.take() {
            return Err(fault);
        }
        match state.requests.front() {
            None if state.finished => return Ok(NextRequest::Exhausted),
            None | Some(None) => {
                state.sender_waiting = true;
                return Ok(NextRequest::Empty);
            }
            Some(Some(Ok(next))) => {
                if let Some(at) = next.at.filter(|at| *at > now) {
                    return Ok(NextRequest::Later(at));
                }
            }
            Some(Some(Err(_))) => {}
        }
        let Some(Some(next)) = state.requests.pop_front() else {
            return Ok(NextRequest::Exhausted);
        };
        state.taken += 1;
        let next = next?;
        state.bytes -= next.body.len();
        // Not after every request: waking another thread costs time on the one that reads.
        if state.builder_waiting && state.requests.len() * 2 <= MAX_REQUESTS && state.bytes * 2 <= MAX_BYTES {
            state.builder_waiting = false;
            self.space.notify_one();
        }
        Ok(NextRequest::Due(next))
    }

    /// Ends the building threads and drops the requests.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.finished = true;
        state.requests.clear();
        self.space.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }
}

/// Reports a panic of a building thread; otherwise the other threads would wait forever.
struct ReportPanic<'a>(&'a RequestQueue);

impl Drop for ReportPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.lock();
            state.panic = Some(Fault::internal("a thread that prepares requests panicked"));
            state.finished = true;
            state.requests.clear();
            self.0.announce(&mut state);
        }
    }
}

impl QueueState {
    fn is_full(&self) -> bool {
        self.requests.len() >= MAX_REQUESTS || self.has_enough_bytes()
    }

    fn has_enough_bytes(&self) -> bool {
        self.bytes >= MAX_BYTES && !self.requests.is_empty()
    }

    /// Whether the first `count` requests are built, or as many as there can be.
    fn is_ready(&self, count: usize) -> bool {
        let all = self.finished || self.has_enough_bytes() || self.requests.len() >= count;
        all && self.requests.iter().take(count).all(Option::is_some)
    }
}

pub(super) struct SharedControl {
    rank: AtomicU8,
    /// Wakes the event loop from any thread.
    pub(super) waker: Arc<EventFd>,
}

impl SharedControl {
    pub(super) fn new(waker: Arc<EventFd>) -> Self {
        Self {
            rank: AtomicU8::new(Control::Continue as u8),
            waker,
        }
    }

    /// Raises the command. A weaker one than before changes nothing.
    pub(super) fn raise(&self, control: Control) {
        if self.rank.fetch_max(control as u8, Ordering::Relaxed) < control as u8 {
            wake(&self.waker);
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

fn wake(waker: &EventFd) {
    // Fails only if the counter is full (2^64 wake-ups); the loop wakes up anyway.
    let _ignored = waker.write(1);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize};

    use super::*;
    use crate::load::{Decode, Framing, Record, StreamEvent};

    struct NoEvents;

    impl Decode for NoEvents {
        fn framing(&self) -> Framing {
            Framing::Sse
        }

        fn event(&mut self, _: &str, _: &str, _: Option<&mut String>) -> std::result::Result<StreamEvent, String> {
            Ok(StreamEvent::default())
        }
    }

    /// Requests with bodies of 2 MiB, of which building the even ones takes longer. Building the last one fails.
    #[derive(Default)]
    struct Source {
        asked: AtomicU64,
        built: Arc<AtomicUsize>,
    }

    const LAST: u64 = 40;

    impl RequestSource for Source {
        fn next(&self) -> Result<Option<BuildJob>> {
            let number = self.asked.fetch_add(1, Ordering::Relaxed);
            let built = Arc::clone(&self.built);
            Ok((number <= LAST).then(|| -> BuildJob {
                Box::new(move || {
                    std::thread::sleep(Duration::from_millis((number + 1) % 2));
                    built.fetch_add(1, Ordering::Relaxed);
                    if number == LAST {
                        return Err(Fault::usage("the last one"));
                    }
                    Ok(Job {
                        at: None,
                        body: vec![0; 2 << 20].into(),
                        decoder: Box::new(NoEvents),
                        timeout: Duration::ZERO,
                        input: number,
                        output: 1,
                    })
                })
            }))
        }

        fn ended(&self, _: &Record) -> Control {
            Control::Continue
        }
    }

    #[test]
    fn requests_come_in_order_and_the_queue_is_bounded() {
        const THREADS: usize = 3;
        let source = Source::default();
        let waker = Arc::new(EventFd::new().unwrap());
        let control = SharedControl::new(Arc::clone(&waker));
        let (queue, target) = (
            RequestQueue::new(1, waker),
            Target::parse("http://127.0.0.1:1/", None).unwrap(),
        );
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| queue.fill(&source, &target));
            }
            queue.wait_ready(&control);
            assert!(
                source.built.load(Ordering::Relaxed) >= 15,
                "of 2 MiB each, 16 are enough"
            );
            let mut next = 0;
            let fault = loop {
                match queue.take(Duration::ZERO) {
                    Ok(NextRequest::Due(job)) => {
                        assert_eq!(job.input, next);
                        next += 1;
                        let ahead = source.built.load(Ordering::Relaxed) - next as usize;
                        assert!(ahead <= 16 + THREADS, "{ahead}");
                    }
                    Ok(_) => std::thread::yield_now(),
                    Err(fault) => break fault,
                }
            };
            assert_eq!((next, fault.message.as_str()), (LAST, "the last one"));
            assert!(matches!(queue.take(Duration::ZERO), Ok(NextRequest::Exhausted)));
            queue.close();
        });
    }
}
