//! Runs a load, either by threads (a few build requests, one sends and reads, one collects records), or on a simulated
//! machine without sockets and threads, where all requests are sent together, as by a probe. The threads share the
//! queue of prepared requests, the control command, and wake-ups.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use hyper::Request;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::time::{ClockId, clock_gettime};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connection::Target;
use super::event_loop::{Client, grow_file_table, io_fault, raise_file_limit};
use super::exchange::Exchange;
use super::{BuildRequest, ClientHealth, Clock, Control, LoadConfig, LoadRun, QueuedRequest, RequestSource};
use crate::fault::{Fault, Result};
use crate::load::framing::Kept;
use crate::load::record::{FailureForm, RequestRecord};
use crate::task::lock;
use crate::world::World;

/// Aborts the load when the caller stops waiting for it.
struct AbortOnDrop(Arc<SharedControl>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.raise(Control::Abort);
    }
}

pub(super) async fn run(url: &str, config: LoadConfig, source: Arc<dyn RequestSource>) -> Result<LoadRun> {
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let waker = Arc::new(EventFd::from_flags(flags).map_err(|error| io_fault(error.into()))?);
    let control = Arc::new(SharedControl::new(waker));
    let guard = AbortOnDrop(Arc::clone(&control));
    let (result_tx, mut result) = oneshot::channel();
    let (url, cancel) = (url.to_owned(), config.cancel.clone());
    spawn("load", move || {
        // Fails only if the caller stopped waiting.
        let _ignored = result_tx.send(load(&url, config, source, control));
    })?;
    let result = tokio::select! {
        result = &mut result => result,
        () = cancel.cancelled() => {
            guard.0.raise(Control::Abort);
            result.await
        }
    };
    result.unwrap_or_else(|_| Err(Fault::internal("load client thread failed")))
}

fn load(url: &str, config: LoadConfig, source: Arc<dyn RequestSource>, control: Arc<SharedControl>) -> Result<LoadRun> {
    let mut target = Target::parse(url, config.key.as_ref())?;
    let (connections, must_connect) = (config.slots.connections(), config.must_connect);
    if let Err(fault) = target.resolve().and_then(|()| raise_file_limit(connections)) {
        if must_connect {
            return Err(fault);
        }
        target.unusable = Some(fault.message);
    }
    grow_file_table(control.waker.as_ref(), connections);
    let (records, ended) = channel();
    let mut client = Client::new(target, config, source, control, records)?;
    // Leave cores for this thread and the engine. The building threads are not joined, because one may be in the middle
    // of a prompt.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..cores.div_ceil(4).min(4) {
        let (queue, source, target) = (
            Arc::clone(&client.queue),
            Arc::clone(&client.source),
            client.target.clone(),
        );
        spawn("load-prepare", move || queue.fill(source.as_ref(), &target))?;
    }
    let (source, control) = (Arc::clone(&client.source), Arc::clone(&client.control));
    let collector = spawn("load-ended", move || collect_records(&ended, source.as_ref(), &control))?;
    let connected = client
        .connect(connections)
        .or_else(|fault| if must_connect { Err(fault) } else { Ok(()) });
    let done = connected.and_then(|()| {
        client.queue.wait_ready(&client.control);
        client.clock = Clock::now();
        let before = thread_cpu();
        let done = client.run();
        let duration = client.clock.began.elapsed();
        client.health.finish(thread_cpu().saturating_sub(before), duration);
        done.map(|()| duration)
    });
    client.queue.close();
    let Client {
        clock,
        health,
        records,
        pool,
        ..
    } = client;
    drop((records, pool));
    let collected = join(collector)?;
    Ok(LoadRun {
        duration: done?,
        records: collected,
        clock,
        health,
    })
}

/// Passes every record to the source and applies the returned command.
fn collect_records(
    ended: &Receiver<RequestRecord>,
    source: &dyn RequestSource,
    control: &SharedControl,
) -> Vec<RequestRecord> {
    let mut records = Vec::new();
    for record in ended {
        control.raise(source.ended(&record));
        records.push(record);
    }
    records.sort_unstable_by_key(|record| record.index);
    records
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(work).map_err(|error| {
        Fault::missing(
            format!("cannot start a thread: {error}"),
            "raise the limit on processes (`ulimit -u`)",
        )
    })
}

fn join<T>(thread: JoinHandle<T>) -> Result<T> {
    thread
        .join()
        .map_err(|_| Fault::internal("a load client thread panicked"))
}

pub(super) async fn run_inside(
    world: &dyn World,
    url: &str,
    config: LoadConfig,
    source: Arc<dyn RequestSource>,
) -> Result<LoadRun> {
    let began = Instant::now();
    let (mut requests, kept) = (Vec::new(), Kept::default());
    while let Some(build) = source.next()? {
        let job = build()?;
        let request = Request::post(url)
            .header("content-type", "application/json")
            .body(job.body.clone())
            .map_err(|error| Fault::usage(error.to_string()))?;
        let now = began.into_std();
        let exchange = Exchange::new(requests.len() as u64, (now, now, now), config.keep_text, &kept, job);
        let (source, cancel) = (Arc::clone(&source), config.cancel.clone());
        requests.push(async move {
            let record = exchanged(world, request, exchange, source.as_ref(), &cancel).await;
            source.ended(&record);
            record
        });
    }
    let records = join_all(requests).await;
    Ok(LoadRun {
        records,
        clock: Clock {
            began: began.into_std(),
            unix: world.now().into(),
        },
        duration: began.elapsed(),
        health: ClientHealth::default(),
    })
}

async fn exchanged(
    world: &dyn World,
    request: Request<Bytes>,
    mut exchange: Exchange,
    source: &dyn RequestSource,
    cancel: &CancellationToken,
) -> RequestRecord {
    let now = || Instant::now().into_std();
    exchange.start(now());
    exchange.advance(exchange.unwritten().len());
    let over = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        over = answered(world, request, &mut exchange, source) => Some(over),
    };
    match over {
        None => exchange.cut_off(now()),
        Some(Ok(())) => exchange.complete(now()),
        Some(Err((form, message))) => exchange.broken(now(), form, message),
    }
}

/// Reads the response to its end.
async fn answered(
    world: &dyn World,
    request: Request<Bytes>,
    exchange: &mut Exchange,
    source: &dyn RequestSource,
) -> std::result::Result<(), (FailureForm, String)> {
    let late = |timeout: Duration| {
        (
            FailureForm::Deadline,
            format!("unfinished after {} s", timeout.as_secs_f64()),
        )
    };
    let timeout = exchange.timeout;
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => (FailureForm::Unreachable, error.to_string()),
        _ => (FailureForm::Broken, error.to_string()),
    };
    let response = tokio::time::timeout_at(exchange.due().into(), world.send(request)).await;
    let (head, mut body) = response.map_err(|_| late(timeout))?.map_err(failed)?.into_parts();
    let head = format!("HTTP/1.1 {}\r\nconnection: close\r\n\r\n", head.status);
    exchange.feed(head.as_bytes(), Instant::now().into_std());
    loop {
        let part = tokio::time::timeout_at(exchange.due().into(), body.next()).await;
        let Some(bytes) = part.map_err(|_| late(timeout))? else {
            break;
        };
        let bytes = bytes.map_err(|error| (FailureForm::Broken, error.to_string()))?;
        let had_token = exchange.has_token();
        let over = exchange.feed(&bytes, Instant::now().into_std());
        if exchange.has_token() && !had_token {
            source.first_token();
        }
        if over {
            return Ok(());
        }
    }
    if exchange.close() {
        Ok(())
    } else {
        Err((FailureForm::Broken, "the connection was closed".to_owned()))
    }
}

/// Maximum total size of built requests; at least one request is always kept.
const MAX_BYTES: usize = 32 << 20;

/// Maximum number of requests, built or not.
const MAX_REQUESTS: usize = 4096;

/// Requests to have ready before the load starts: as many as there are connections, within these limits.
const READY_RANGE: (usize, usize) = (16, MAX_REQUESTS);

/// How often to check for an abort while waiting for the first requests.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

pub(super) enum NextRequest {
    /// A request ready to be written: its body starts with the head.
    Due(Box<QueuedRequest>),
    /// The next request is due at this time.
    Later(Duration),
    /// The next request is not built yet; the waker fires when it is.
    Empty,
    /// No more requests.
    Exhausted,
}

/// The queue between the threads that build requests and the thread that sends them.
///
/// The sender must never wait for a prompt: a long text takes milliseconds to build, and its body may be 200 KB.
/// Therefore a few threads build requests ahead, in any order; the queue returns them in the order of the source.
pub(super) struct RequestQueue {
    state: Mutex<QueueState>,
    /// Held while the next request is taken from the source.
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
    requests: VecDeque<Option<Result<Box<QueuedRequest>>>>,
    /// Number of requests taken, which is the number of the first one in the queue.
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
    fn next_to_build(&self, source: &dyn RequestSource) -> Option<(usize, BuildRequest)> {
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

    /// Wakes the threads that wait for a request or for the end.
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
    /// The error from building it.
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

    /// Whether the first `count` requests are built, or all that can be.
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

    /// Raises the command. A weaker command than the current one has no effect.
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
    use crate::load::{Decode, Framing, RequestRecord, StreamEvent};

    struct NoEvents;

    impl Decode for NoEvents {
        fn framing(&self) -> Framing {
            Framing::Sse
        }

        fn event(&mut self, _: &str, _: &str, _: Option<&mut String>) -> std::result::Result<StreamEvent, String> {
            Ok(StreamEvent::default())
        }
    }

    /// Requests with bodies of 2 MiB. Even ones take longer to build. Building the last one fails.
    #[derive(Default)]
    struct Source {
        asked: AtomicU64,
        built: Arc<AtomicUsize>,
    }

    const LAST: u64 = 40;

    impl RequestSource for Source {
        fn next(&self) -> Result<Option<BuildRequest>> {
            let number = self.asked.fetch_add(1, Ordering::Relaxed);
            let built = Arc::clone(&self.built);
            Ok((number <= LAST).then(|| -> BuildRequest {
                Box::new(move || {
                    std::thread::sleep(Duration::from_millis((number + 1) % 2));
                    built.fetch_add(1, Ordering::Relaxed);
                    if number == LAST {
                        return Err(Fault::usage("the last one"));
                    }
                    Ok(QueuedRequest {
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

        fn ended(&self, _: &RequestRecord) -> Control {
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
            // Another thread may just be asking for one more.
            let end = std::iter::repeat_with(|| queue.take(Duration::ZERO))
                .inspect(|_| std::thread::yield_now())
                .find(|next| !matches!(next, Ok(NextRequest::Empty)));
            assert!(matches!(end, Some(Ok(NextRequest::Exhausted))));
            queue.close();
        });
    }
}
