//! Measures how long the client's thread was runnable but not running, from the kernel's scheduler statistics
//! (nanoseconds).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::ClientHealth;

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
