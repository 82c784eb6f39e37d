//! Measurements of the client's own performance, which can distort its results. Raw values; `load::stats` derives
//! warnings.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Minimum time between two polls that counts as a pause.
const PAUSE: Duration = Duration::from_millis(1);

/// The client's own performance during one load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientHealth {
    /// User and system CPU time of the client's thread.
    pub cpu: Duration,
    /// The same as a share of one core, 0 to 1.
    pub cpu_share: f64,
    /// How long after it was due, or after its slot became free, each request was sent: milliseconds, in order of
    /// issue. Excludes time spent waiting for a slot below `max_concurrency`.
    pub send_late_ms: Vec<f32>,
    /// Requests that were due before they were prepared.
    pub unprepared: u64,
    /// The longest time between two polls of the sockets; timestamps may be late by this.
    pub longest_pause: Duration,
    /// Pauses longer than a millisecond.
    pub pauses: u64,
    /// Their sum.
    pub paused: Duration,
    /// Total time the thread was runnable but not running; `None` if the kernel does not count it.
    pub waited: Option<Duration>,
    /// The same as a share of the load's duration, 0 to 1.
    pub waited_share: Option<f64>,
    /// The longest such wait within 10 ms, or within one longer pause; timestamps may be late by this in addition to
    /// `longest_pause`.
    pub longest_wait: Option<Duration>,
    /// Events with text or tokens.
    pub events: u64,
    /// Number of socket reads.
    pub reads: u64,
    /// Number of wake-ups of the event loop.
    pub wakes: u64,
    /// Connections opened before the clock started.
    pub connected: u64,
    /// Connections opened later because none was idle; the request waited for them.
    pub opened_late: u64,
    /// Idle connections closed by the server. They were replaced at once unless they were short-lived.
    pub replaced: u64,
    /// Requests resent because the server had closed the idle connection before any response byte.
    pub resent: u64,
}

impl ClientHealth {
    pub(super) fn sent(&mut self, index: u64, late: Duration) {
        let Ok(index) = usize::try_from(index) else { return };
        if self.send_late_ms.len() <= index {
            self.send_late_ms.resize(index + 1, 0.0);
        }
        self.send_late_ms[index] = late.as_secs_f32() * 1e3;
    }

    pub(super) fn paused(&mut self, pause: Duration) {
        self.longest_pause = self.longest_pause.max(pause);
        if pause > PAUSE {
            self.pauses += 1;
            self.paused += pause;
        }
    }

    /// Computes the shares of the load's duration.
    pub(super) fn shares(&mut self, duration: Duration) {
        self.cpu_share = share(self.cpu, duration);
        self.waited_share = self.waited.map(|waited| share(waited, duration));
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    part.as_secs_f64() / whole.as_secs_f64().max(1e-9)
}

/// Interval between two reads; one read costs microseconds.
const INTERVAL: Duration = Duration::from_millis(10);

/// Run-queue delay of one thread.
pub(super) struct RunQueueDelay {
    // `None` if the kernel was built without schedstat.
    schedstat: Option<File>,
    start: Option<Duration>,
    last: Option<Duration>,
    last_read: Instant,
}

impl RunQueueDelay {
    /// Starts measuring the calling thread.
    pub(super) fn new() -> Self {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        let start = schedstat.as_ref().and_then(wait_time);
        Self {
            schedstat,
            start,
            last: start,
            last_read: Instant::now(),
        }
    }

    /// Reads the counter if the interval has passed.
    pub(super) fn update(&mut self, now: Instant, health: &mut ClientHealth) {
        if now.duration_since(self.last_read) >= INTERVAL {
            self.read(now, health);
        }
    }

    pub(super) fn read(&mut self, now: Instant, health: &mut ClientHealth) {
        self.last_read = now;
        let schedstat = self.schedstat.as_ref().and_then(wait_time);
        let since = |before: Option<Duration>| Some(schedstat?.saturating_sub(before?));
        health.longest_wait = health.longest_wait.max(since(self.last));
        health.waited = since(self.start);
        self.last = schedstat;
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
    use super::*;

    #[test]
    fn second_number_is_the_wait_time() {
        assert_eq!(parse_wait("1200 51126 7\n"), Some(Duration::from_nanos(51_126)));
        assert_eq!((parse_wait(""), parse_wait("1 x 2")), (None, None));
    }

    #[test]
    fn longest_wait_is_part_of_the_total() {
        let mut run_queue = RunQueueDelay::new();
        let mut health = ClientHealth::default();
        let start = Instant::now();
        while start.elapsed() < INTERVAL * 3 {
            run_queue.update(Instant::now(), &mut health);
        }
        run_queue.read(Instant::now(), &mut health);
        assert!(health.longest_wait <= health.waited, "{health:?}");
        assert_eq!(health.waited.is_some(), run_queue.schedstat.is_some());
    }
}
