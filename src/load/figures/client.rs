//! How the client itself fared, and which figures it spoiled. Pure.
//!
//! A client that is busy measures itself. Whatever it did late is in the engine's figures, so that each sign of it becomes a warning that
//! names these figures and, where it is known, by how much they may be wrong.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::percentile::linear;
use super::{Figures, Held};
use crate::load::Watch;

/// From this share of its core on, the client is near its limit: what arrives queues for it.
const BUSY: f64 = 0.85;

/// A client that is late by less than this is not late: the resolution of timers and wake-ups.
const LATE_MS: f64 = 1.0;

/// A delay of the client spoils a figure of which it is such a share.
const SPOILS: f64 = 0.05;

/// Slots that are empty for such a share of the time spoil the throughput.
const EMPTY: f64 = 0.01;

/// The client in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// CPU time of its thread, seconds.
    pub cpu_seconds: f64,
    /// The same as a share of one core, 0 to 1.
    pub cpu: f64,
    /// CPU time for each event that it decoded, microseconds.
    pub cpu_us_per_event: Option<f64>,
    /// How late requests were sent: after they were due, or after their slot became free. Waiting for one of `max_concurrency` slots is
    /// not in it.
    pub late_ms: Late,
    /// The longest time for which it did not look whether bytes had arrived: stamps may be late by so much, milliseconds.
    pub longest_pause_ms: f64,
    /// Pauses of more than a millisecond.
    pub pauses: u64,
    /// Their sum, milliseconds.
    pub paused_ms: f64,
    /// For so long in all, something had happened and others had its core, milliseconds; `None` where the kernel does not count it.
    pub waited_ms: Option<f64>,
    /// The same as a share of the load's time, 0 to 1.
    pub waited: Option<f64>,
    /// The most of it within 10 ms, or within one pause that was longer, milliseconds.
    pub longest_wait_ms: Option<f64>,
    /// Requests that waited because they were not prepared in time.
    pub unprepared: u64,
    /// Connections opened after the clock began: their requests waited for them.
    pub opened_late: u64,
    /// Requests sent again because the server had closed their idle connection.
    pub resent: u64,
}

/// Lateness, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Late {
    /// On average.
    pub mean: Option<f64>,
    /// Of the requests of this load, 99 % were less late; of 100 on.
    pub p99: Option<f64>,
    /// At most.
    pub max: Option<f64>,
}

impl Client {
    /// What was watched, in figures.
    pub(super) fn of(watch: &Watch) -> Self {
        Self {
            cpu_seconds: watch.cpu.as_secs_f64(),
            cpu: watch.cpu_share,
            cpu_us_per_event: (watch.events > 0).then(|| watch.cpu.as_secs_f64() * 1e6 / watch.events as f64),
            late_ms: Late::of(&watch.send_late_ms),
            longest_pause_ms: ms(watch.longest_pause),
            pauses: watch.pauses,
            paused_ms: ms(watch.paused),
            waited_ms: watch.waited.map(ms),
            waited: watch.waited_share,
            longest_wait_ms: watch.longest_wait.map(ms),
            unprepared: watch.unprepared,
            opened_late: watch.opened_late,
            resent: watch.resent,
        }
    }

    /// What it spoiled of these figures.
    pub(super) fn warnings(&self, figures: &Figures, held: Held) -> Vec<String> {
        let mut warnings: Vec<String> = [
            self.busy(),
            self.starved(figures),
            self.crowded(),
            self.late(figures, held),
        ]
        .into_iter()
        .flatten()
        .collect();
        if self.unprepared > 0 {
            warnings.push(format!(
                "{} requests were not prepared when their turn came: fewer were under way than asked for, and the throughputs are too low",
                self.unprepared
            ));
        }
        if self.opened_late > 0 {
            warnings.push(format!(
                "{} of {} requests waited for a new connection: the time that it took to open is in their `ttft_ms` and `e2el_ms`",
                self.opened_late, figures.issued
            ));
        }
        warnings
    }

    /// Its core was near its limit.
    fn busy(&self) -> Option<String> {
        (self.cpu >= BUSY).then(|| {
            format!(
                "the client used {:.0} % of its core: the throughputs may be its limit instead of the engine's, and `ttft_ms`, `itl_ms` and \
                 `e2el_ms` too high by up to {:.1} ms",
                self.cpu * 100.0,
                self.longest_pause_ms
            )
        })
    }

    /// Others had its core for much of the time.
    fn crowded(&self) -> Option<String> {
        let (waited, share) = (self.waited_ms?, self.waited?);
        (share >= SPOILS).then(|| {
            format!(
                "other programs had the client's core for {waited:.0} ms, {:.0} % of the load, while answers waited to be read: `ttft_ms`, \
                 `itl_ms` and `e2el_ms` are too high; leave it a core of its own",
                share * 100.0
            )
        })
    }

    /// It did not look at its sockets for long, of itself or because it did not come to run.
    fn starved(&self, figures: &Figures) -> Option<String> {
        let pause = self.longest_pause_ms.max(self.longest_wait_ms.unwrap_or(0.0));
        let latencies = &figures.latencies;
        let names = [
            ("itl_ms", latencies.itl_ms.median),
            ("ttft_ms", latencies.ttft_ms.median),
            ("e2el_ms", latencies.e2el_ms.median),
        ];
        // A gap that is read late is one gap among many: it counts where it could pass for another gap.
        let spoiled = names.iter().filter(|(name, median)| {
            let share = if *name == "itl_ms" { 1.0 } else { SPOILS };
            median.is_some_and(|median| pause > (share * median).max(LATE_MS))
        });
        let spoiled: Vec<String> = spoiled.map(|(name, _)| format!("`{name}`")).collect();
        (!spoiled.is_empty()).then(|| {
            format!(
                "the client did not look for answers for up to {pause:.1} ms ({} pauses of more than 1 ms took {:.0} ms in all): single values of \
                 {} may be wrong by so much, and their highest percentiles with them",
                self.pauses,
                self.paused_ms,
                spoiled.join(", ")
            )
        })
    }

    /// It sent late.
    fn late(&self, figures: &Figures, held: Held) -> Option<String> {
        let (mean, max) = (self.late_ms.mean?, self.late_ms.max?);
        let late = self.late_ms.p99.unwrap_or(max);
        if late <= LATE_MS {
            return None;
        }
        let e2el = figures.latencies.e2el_ms.mean?;
        let how = format!(
            "requests were sent late, by {mean:.1} ms on average, 99 % by less than {late:.1} ms, at most {max:.1} ms"
        );
        if let Held::Open { .. } = held {
            let ttft = figures.response.ttft_ms.median?;
            return (late > SPOILS * ttft)
                .then(|| format!("{how}: arrivals were not those asked for, and `response` is too high by so much"));
        }
        let lost = mean / (mean + e2el);
        (lost > EMPTY).then(|| {
            format!(
                "{how}: a slot was empty for {:.1} % of the time, and the throughputs are too low by so much",
                lost * 100.0
            )
        })
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Late {
    fn of(late_ms: &[f32]) -> Self {
        let mut ascending: Vec<f64> = late_ms.iter().map(|late| f64::from(*late)).collect();
        ascending.sort_unstable_by(f64::total_cmp);
        let n = ascending.len();
        Self {
            mean: (n > 0).then(|| ascending.iter().sum::<f64>() / n as f64),
            p99: linear(&ascending, 0.99).filter(|_| n >= 100),
            max: ascending.last().copied(),
        }
    }
}
