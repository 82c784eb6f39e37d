//! Measurements of the client's own performance, which can distort its results. Raw values; `load::stats` derives
//! warnings.

use std::time::Duration;

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
