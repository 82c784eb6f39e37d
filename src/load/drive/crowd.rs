//! How long the client's thread could have run and did not, because others had its core: the scheduler of the kernel counts it to the nanosecond.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::Watch;

/// Between two looks at the count: one costs microseconds.
const EVERY: Duration = Duration::from_millis(10);

/// The count of one thread.
pub(super) struct Crowd {
    // Absent where the kernel was built without it.
    count: Option<File>,
    begun: Option<Duration>,
    last: Option<Duration>,
    looked: Instant,
}

impl Crowd {
    /// Of the calling thread, from now on.
    pub(super) fn new() -> Self {
        let count = File::open("/proc/thread-self/schedstat").ok();
        let begun = count.as_ref().and_then(waited);
        Self {
            count,
            begun,
            last: begun,
            looked: Instant::now(),
        }
    }

    /// Looks at the count, unless it did a moment ago.
    pub(super) fn look(&mut self, now: Instant, watch: &mut Watch) {
        if now.duration_since(self.looked) >= EVERY {
            self.read(now, watch);
        }
    }

    /// Looks at the count.
    pub(super) fn read(&mut self, now: Instant, watch: &mut Watch) {
        self.looked = now;
        let count = self.count.as_ref().and_then(waited);
        let since = |before: Option<Duration>| Some(count?.saturating_sub(before?));
        watch.longest_wait = watch.longest_wait.max(since(self.last));
        watch.waited = since(self.begun);
        self.last = count;
    }
}

/// The second of three numbers: nanoseconds spent waiting to run (Linux, `Documentation/scheduler/sched-stats.rst`).
fn waited(count: &File) -> Option<Duration> {
    let mut text = [0; 64];
    let length = count.read_at(&mut text, 0).ok()?;
    nanoseconds(str::from_utf8(&text[..length]).ok()?)
}

fn nanoseconds(text: &str) -> Option<Duration> {
    text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_the_wait() {
        assert_eq!(nanoseconds("1200 51126 7\n"), Some(Duration::from_nanos(51_126)));
        assert_eq!((nanoseconds(""), nanoseconds("1 x 2")), (None, None));
    }

    #[test]
    fn the_longest_wait_is_part_of_all_waits() {
        let mut crowd = Crowd::new();
        let mut watch = Watch::default();
        let begun = Instant::now();
        while begun.elapsed() < EVERY * 3 {
            crowd.look(Instant::now(), &mut watch);
        }
        crowd.read(Instant::now(), &mut watch);
        assert!(watch.longest_wait <= watch.waited, "{watch:?}");
        assert_eq!(watch.waited.is_some(), crowd.count.is_some());
    }
}
