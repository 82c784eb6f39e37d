//! How the client itself fared: what can spoil its figures. Raw figures; which of them deserves a warning is for others to say.

use std::time::Duration;

/// From this on, a time in which the client did not look counts as a pause.
const PAUSE: Duration = Duration::from_millis(1);

/// The client's own health over one load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watch {
    /// CPU time of the client's thread, user and system, from the beginning of the clock to its end.
    pub cpu: Duration,
    /// The same as a share of one core, from 0 to 1.
    pub cpu_share: f64,
    /// How long after it was due, or after its slot became free, each request was sent, in milliseconds, in the order of issue.
    /// Waiting for one of `at_most` slots is the engine's doing, and not in it.
    pub send_late_ms: Vec<f32>,
    /// Requests that waited because the source had none ready.
    pub unprepared: u64,
    /// The longest time for which the client did not look whether bytes had arrived: stamps may be late by this.
    pub longest_pause: Duration,
    /// Pauses of more than a millisecond.
    pub pauses: u64,
    /// Their sum.
    pub paused: Duration,
    /// For so long in all, something had happened and others had the client's core; `None` where the kernel does not count it.
    pub waited: Option<Duration>,
    /// The same as a share of the load's time, from 0 to 1.
    pub waited_share: Option<f64>,
    /// The most of it within 10 ms, or within one pause that was longer: stamps may be late by this, beside `longest_pause`.
    pub longest_wait: Option<Duration>,
    /// Events that carried text or tokens.
    pub events: u64,
    /// Times that bytes were read from a socket.
    pub reads: u64,
    /// Times that the client woke to look at its sockets.
    pub wakes: u64,
    /// Connections opened before the clock began.
    pub connected: u64,
    /// Connections opened later because none was free: the request waited for them.
    pub opened_late: u64,
    /// Idle connections that the server closed; new ones took their place, at once where it had kept them for a while.
    pub replaced: u64,
    /// Requests sent a second time because the server had closed their idle connection: no byte of an answer had come.
    pub resent: u64,
}

impl Watch {
    /// A request, by its number in the order of issue, was sent so long after it could have been.
    pub(super) fn sent(&mut self, index: u64, late: Duration) {
        let Ok(index) = usize::try_from(index) else { return };
        if self.send_late_ms.len() <= index {
            self.send_late_ms.resize(index + 1, 0.0);
        }
        self.send_late_ms[index] = late.as_secs_f32() * 1e3;
    }

    /// It did not look at its sockets for so long.
    pub(super) fn paused(&mut self, pause: Duration) {
        self.longest_pause = self.longest_pause.max(pause);
        if pause > PAUSE {
            self.pauses += 1;
            self.paused += pause;
        }
    }

    /// What its times are of a load that took so long.
    pub(super) fn shares(&mut self, duration: Duration) {
        self.cpu_share = share(self.cpu, duration);
        self.waited_share = self.waited.map(|waited| share(waited, duration));
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    part.as_secs_f64() / whole.as_secs_f64().max(1e-9)
}
