//! The load client: sends requests when they are due, reads responses as they arrive, and records timestamps. It also
//! measures its own performance, because a slow client distorts the results.
//!
//! The [`RequestSource`] decides what to send, when to send it, and when to stop. `load::stats` computes statistics,
//! and derives warnings from the client's own statistics.

mod connection;
mod event_loop;
mod exchange;
mod http1;
mod threads;

pub use event_loop::{LOAD_TOKEN, PROBE_TOKEN, check_in_flight};
pub use exchange::{read_recorded, read_response};

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::framing::Decode;
use super::record::RequestRecord;
use super::stats::{ClientStats, SendDelays};
use crate::fault::Result;
use crate::http::ApiKey;
use crate::world;

/// One request to send.
pub struct QueuedRequest {
    /// When it is due, since the start of the load (open loop). `None`: as soon as a slot is free (closed loop).
    pub at: Option<Duration>,
    /// The JSON body. After preparation, the whole request.
    pub body: Bytes,
    /// Decodes the events of the response.
    pub decoder: Box<dyn Decode>,
    /// Maximum time from sending to the complete response.
    pub timeout: Duration,
    /// Prompt tokens.
    pub input: u64,
    /// Requested output tokens.
    pub output: u64,
}

/// The next step of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Control {
    /// Continue.
    Continue,
    /// Issue no more requests; wait for those in flight.
    Drain,
    /// Cut off the requests in flight now.
    Abort,
}

/// Builds a request. Runs on one of several threads; an error ends the load when the request's turn comes.
pub type BuildRequest = Box<dyn FnOnce() -> Result<QueuedRequest> + Send>;

/// A response that rejects a request for now.
pub struct Rejection {
    /// 429 or 503.
    pub status: u16,
    /// The delay that the server asks for.
    pub retry_after: Option<Duration>,
    /// The beginning of its body.
    pub body: String,
}

/// Supplies requests and receives their results. `next`, the functions it returns and `ended` are not called on the
/// thread that reads responses. They may be slow if requests are supplied faster than they are sent. Requests are
/// fetched and built ahead of time; unsent ones are dropped.
pub trait RequestSource: Send + Sync {
    /// The next request, or `None` if there are no more. Jobs with a time must be in order of time. Called by one
    /// thread at a time.
    ///
    /// # Errors
    ///
    /// Fails if there cannot be a next request. This ends the load.
    fn next(&self) -> Result<Option<BuildRequest>>;

    /// A request is being issued, `at` after the start of the load. `index` is the order of issue from 0, as in its
    /// record. Called on the thread that reads responses, so it must be fast.
    fn issued(&self, _index: u64, _at: Duration) -> Control {
        Control::Continue
    }

    /// A request was rejected for now, after `before` other times. Returns how long to wait before it is sent again; `None`
    /// if it has failed. Called on the thread that reads responses, so it must be fast.
    fn rejected(&self, _rejection: &Rejection, _before: u32) -> Option<Duration> {
        None
    }

    /// Whether rejected requests may be sent again. Their bodies are kept until they are accepted.
    fn retries(&self) -> bool {
        false
    }

    /// A response had its first event with text or tokens. Called on the thread that reads responses, so it must be
    /// fast.
    fn first_token(&self) {}

    /// A request has ended. Called once for each issued request, in the order of their ends, by one thread at a time.
    fn ended(&self, record: &RequestRecord) -> Control;
}

/// When requests are issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slots {
    /// Closed loop: a number of concurrent requests, which may change. When it falls, requests in flight finish first.
    Closed(Vec<ConcurrencyChange>),
    /// Open loop: each request when it is due.
    Open {
        /// Limit of concurrent requests. A request above it waits until another one ends; its `sent` time includes the
        /// wait.
        max_concurrency: Option<u64>,
        /// Expected number of concurrent requests: this many connections are opened before the clock starts.
        expected: u64,
    },
}

/// A change of concurrency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConcurrencyChange {
    /// Start time since the start of the load, ascending.
    pub begins: Duration,
    /// Maximum concurrent requests from then on.
    pub concurrency: u64,
}

/// How to run a load.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// When requests are issued.
    pub slots: Slots,
    /// No request is issued after this time.
    pub limit: Option<Duration>,
    /// Requests in flight at the limit may continue for this long before they are cut off.
    pub grace: Duration,
    /// Whether to keep the text of each response.
    pub keep_text: bool,
    /// Whether it is an error if no connection can be opened before the clock starts. If not, the load runs and its
    /// requests fail as unreachable, even if the host has no address. They may connect until their own timeout.
    pub must_connect: bool,
    /// The server's API key.
    pub key: Option<ApiKey>,
    /// When cancelled, no more requests are issued and those in flight are cut off immediately.
    pub cancel: CancellationToken,
}

/// The start of the load. Times in records are relative to it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// By the monotonic clock.
    pub began: Instant,
    /// By the wall clock.
    pub unix: SystemTime,
}

impl Clock {
    fn now() -> Self {
        Self {
            began: Instant::now(),
            unix: SystemTime::now(),
        }
    }
}

/// The result of a load.
#[derive(Debug)]
pub struct LoadRun {
    /// All issued requests in order of issue.
    pub records: Vec<RequestRecord>,
    /// Start of the load.
    pub clock: Clock,
    /// From the start to the last end, or to the cut-off.
    pub duration: Duration,
    /// The client's own performance.
    pub health: ClientHealth,
}

/// Runs a load against `url`, the full URL of every request, until the source is exhausted and all requests have ended.
/// Dropping the future aborts the load.
///
/// # Errors
///
/// Errors of the source; `http` if the URL is invalid or nothing listens there.
pub async fn run_load(url: &str, config: LoadConfig, source: Arc<dyn RequestSource>) -> Result<LoadRun> {
    match world::current() {
        Some(world) => threads::run_inside(world.as_ref(), url, config, source).await,
        None => threads::run(url, config, source).await,
    }
}

impl Slots {
    /// Closed loop: a constant number of concurrent requests. Their slots open evenly over `ramp`, the first immediately.
    pub fn closed(concurrency: u64, ramp: Duration) -> Self {
        // Loads with more than 2^20 connections are refused before any opens, so they need no steps.
        let first = if ramp.is_zero() || concurrency > 1 << 20 {
            concurrency
        } else {
            1
        };
        let step = |number: u64| ConcurrencyChange {
            begins: ramp.mul_f64(number.saturating_sub(1) as f64 / concurrency.max(1) as f64),
            concurrency: number,
        };
        Self::Closed((first..=concurrency).map(step).collect())
    }

    /// Maximum requests in flight at `now`; `None` is unlimited.
    fn level(&self, now: Duration) -> Option<u64> {
        match self {
            Self::Closed(steps) => Some(steps[..begun(steps, now)].last().map_or(0, |step| step.concurrency)),
            Self::Open { max_concurrency, .. } => *max_concurrency,
        }
    }

    /// The next time after `now` when the number of slots may grow.
    fn next_change(&self, now: Duration) -> Option<Duration> {
        match self {
            Self::Closed(steps) => steps.get(begun(steps, now)).map(|step| step.begins),
            Self::Open { .. } => None,
        }
    }

    /// When the slot with this number (from 1) opened, if it was unused before `now`.
    fn opened(&self, number: u64, now: Duration) -> Duration {
        let Self::Closed(steps) = self else {
            return Duration::ZERO;
        };
        let begun = steps[..begun(steps, now)].iter().rev();
        let open = begun.take_while(|step| step.concurrency >= number);
        open.last().map_or(Duration::ZERO, |step| step.begins)
    }

    /// Connections to open before the clock starts.
    fn connections(&self) -> u64 {
        match self {
            Self::Closed(steps) => steps.iter().map(|step| step.concurrency).max().unwrap_or(0),
            Self::Open {
                max_concurrency,
                expected,
            } => max_concurrency.map_or(*expected, |most| most.min(*expected)),
        }
    }
}

/// How many of the steps have begun.
fn begun(steps: &[ConcurrencyChange], now: Duration) -> usize {
    steps.partition_point(|step| step.begins <= now)
}

/// Minimum milliseconds between two polls that count as a pause.
const PAUSE_MS: f64 = 1.0;

/// The client's own performance during one load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientHealth {
    /// The statistics reported with the load.
    pub stats: ClientStats,
    /// How late each request was sent, as in [`ClientStats::late_ms`]: milliseconds, in order of issue.
    pub send_late_ms: Vec<f32>,
    /// Events with text or tokens.
    pub events: u64,
    /// Number of socket reads.
    pub reads: u64,
    /// Number of wake-ups of the event loop.
    pub wakes: u64,
    /// Connections opened before the clock started.
    pub connected: u64,
    /// Idle connections closed by the server. They were replaced immediately unless they were short-lived.
    pub replaced: u64,
}

impl ClientHealth {
    fn sent(&mut self, index: u64, late: Duration) {
        let Ok(index) = usize::try_from(index) else { return };
        if self.send_late_ms.len() <= index {
            self.send_late_ms.resize(index + 1, 0.0);
        }
        self.send_late_ms[index] = late.as_secs_f32() * 1e3;
    }

    fn paused(&mut self, pause: Duration) {
        let pause = pause.as_secs_f64() * 1e3;
        self.stats.longest_pause_ms = self.stats.longest_pause_ms.max(pause);
        if pause > PAUSE_MS {
            self.stats.pauses += 1;
            self.stats.paused_ms += pause;
        }
    }

    /// Computes the values that are known only at the end of the load.
    fn finish(&mut self, cpu: Duration, duration: Duration) {
        let share = |seconds: f64| seconds / duration.as_secs_f64().max(1e-9);
        let (stats, cpu) = (&mut self.stats, cpu.as_secs_f64());
        stats.cpu_seconds = cpu;
        stats.cpu = share(cpu);
        stats.cpu_us_per_event = (self.events > 0).then(|| cpu * 1e6 / self.events as f64);
        stats.late_ms = SendDelays::new(&self.send_late_ms);
        stats.waited = stats.waited_ms.map(|waited| share(waited / 1e3));
    }
}

/// Interval between two reads; one read costs microseconds.
const INTERVAL: Duration = Duration::from_millis(10);

/// Run-queue delay of one thread.
struct RunQueueDelay {
    // `None` if the kernel was built without schedstat.
    schedstat: Option<File>,
    last: Option<Duration>,
    last_read: Instant,
}

impl RunQueueDelay {
    /// Starts measuring the calling thread.
    fn new() -> Self {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        Self {
            last: schedstat.as_ref().and_then(wait_time),
            schedstat,
            last_read: Instant::now(),
        }
    }

    /// Reads the counter if the interval has passed.
    fn update(&mut self, now: Instant, stats: &mut ClientStats) {
        if now.duration_since(self.last_read) >= INTERVAL {
            self.read(now, stats);
        }
    }

    fn read(&mut self, now: Instant, stats: &mut ClientStats) {
        self.last_read = now;
        let Some((at, before)) = self.schedstat.as_ref().and_then(wait_time).zip(self.last) else {
            return;
        };
        let waited = at.saturating_sub(before).as_secs_f64() * 1e3;
        stats.longest_wait_ms = Some(stats.longest_wait_ms.unwrap_or(0.0).max(waited));
        stats.waited_ms = Some(stats.waited_ms.unwrap_or(0.0) + waited);
        self.last = Some(at);
    }
}

/// The second of three numbers: nanoseconds spent waiting to run (Linux, `Documentation/scheduler/sched-stats.rst`).
fn wait_time(schedstat: &File) -> Option<Duration> {
    let mut text = [0; 64];
    let length = schedstat.read_at(&mut text, 0).ok()?;
    parse_wait(str::from_utf8(&text[..length]).ok()?)
}

fn parse_wait(text: &str) -> Option<Duration> {
    text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::event_loop::{grow_file_table, raise_file_limit};
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn ramp_opens_slots_evenly() {
        let slots = Slots::closed(4, ms(100));
        let levels: Vec<_> = [0, 24, 25, 50, 74, 75, 99, 100, 500]
            .map(|at| slots.level(ms(at)).unwrap())
            .into();
        assert_eq!(levels, [1, 1, 2, 3, 3, 4, 4, 4, 4]);
        assert_eq!(slots.next_change(ms(30)), Some(ms(50)));
        assert_eq!((slots.next_change(ms(80)), slots.opened(3, ms(80))), (None, ms(50)));
    }

    #[test]
    fn every_slot_of_a_long_ramp_opens_on_time() {
        let slots = Slots::closed(997, ms(3333));
        let mut now = Duration::ZERO;
        for number in 1..=997 {
            assert_eq!(slots.level(now), Some(number), "at {now:?}");
            assert_eq!(slots.opened(number, now), now);
            now = slots.next_change(now).unwrap_or(now);
        }
    }

    #[test]
    fn steps_rise_and_fall() {
        let step = |begins, concurrency| ConcurrencyChange { begins, concurrency };
        let slots = Slots::Closed(vec![step(ms(0), 2), step(ms(10), 8), step(ms(20), 1)]);
        assert_eq!([5, 10, 25].map(|at| slots.level(ms(at))), [Some(2), Some(8), Some(1)]);
        assert_eq!((slots.next_change(ms(10)), slots.connections()), (Some(ms(20)), 8));
    }

    #[test]
    fn file_table_is_large_enough_before_the_load() {
        // The kernel's own value for this process.
        let size = || {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
            line.trim().parse::<u64>().unwrap()
        };
        // More than other tests of this process need.
        let connections = 2 * size() + 1000;
        raise_file_limit(connections).unwrap();
        grow_file_table(&fs::File::open("/dev/null").unwrap(), connections);
        assert!(size() > connections, "{} of {connections}", size());
    }
}

#[cfg(test)]
mod health_tests {
    use super::*;

    #[test]
    fn second_number_is_the_wait_time() {
        assert_eq!(parse_wait("1200 51126 7\n"), Some(Duration::from_nanos(51_126)));
        assert_eq!((parse_wait(""), parse_wait("1 x 2")), (None, None));
    }

    #[test]
    fn longest_wait_is_part_of_the_total() {
        let mut run_queue = RunQueueDelay::new();
        let mut stats = ClientStats::default();
        let start = Instant::now();
        while start.elapsed() < INTERVAL * 3 {
            run_queue.update(Instant::now(), &mut stats);
        }
        run_queue.read(Instant::now(), &mut stats);
        assert!(stats.longest_wait_ms <= stats.waited_ms, "{stats:?}");
        assert_eq!(stats.waited_ms.is_some(), run_queue.schedstat.is_some());
    }
}
