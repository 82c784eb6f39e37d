//! The client's own performance and the results that it distorts. Pure.
//!
//! A busy client measures itself: its own delays end up in the engine's results. Each sign of that becomes a warning
//! that names the affected metrics and, if known, the size of the error.

use serde::{Deserialize, Serialize};

use super::summary::{Summary, interpolated, mean};
use super::{LoadStats, TargetConcurrency};
use crate::warning::Warning;

/// From this CPU share on, the client is near its limit and responses queue for it.
const BUSY: f64 = 0.85;

/// Delays below this are the resolution of timers and wake-ups.
const LATE_MS: f64 = 1.0;

/// A client delay above this share of a metric distorts it, if the metric has no interval.
const DISTORTS: f64 = 0.05;

/// A change by less than this share of a metric does not matter.
const IRRELEVANT: f64 = 0.01;

/// Slots that are empty for more than this share of the time distort the throughput.
const EMPTY_SLOTS: f64 = 0.01;

/// The client's own performance during a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientStats {
    /// CPU time of the client's thread, seconds.
    pub cpu_seconds: f64,
    /// CPU time as a share of one core, 0 to 1.
    pub cpu: f64,
    /// CPU time per decoded event, microseconds.
    pub cpu_us_per_event: Option<f64>,
    /// How late requests were sent after they were due, or after their slot became free. Excludes time spent waiting
    /// for a slot below `max_concurrency`.
    pub late_ms: SendDelays,
    /// The longest time between two polls of the sockets, milliseconds; timestamps may be late by this.
    pub longest_pause_ms: f64,
    /// Pauses longer than a millisecond.
    pub pauses: u64,
    /// Total duration of these pauses, milliseconds.
    pub paused_ms: f64,
    /// Total time the thread was runnable but not running, milliseconds; `None` if the kernel does not count it.
    pub waited_ms: Option<f64>,
    /// This time as a share of the load's duration, 0 to 1.
    pub waited: Option<f64>,
    /// The longest such wait within 10 ms, or within one longer pause, milliseconds.
    pub longest_wait_ms: Option<f64>,
    /// Requests that were due before they were prepared.
    pub unprepared: u64,
    /// Connections opened after the clock started; their requests had to wait.
    pub opened_late: u64,
    /// Requests resent because the server had closed the idle connection.
    pub resent: u64,
}

/// Send delays, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SendDelays {
    /// Mean.
    pub mean: Option<f64>,
    /// 99th percentile of this load's requests; needs 100 requests.
    pub p99: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
}

impl ClientStats {
    /// Scales every delay by `factor`.
    pub fn scaled(mut self, factor: f64) -> Self {
        self.longest_pause_ms *= factor;
        self.paused_ms *= factor;
        let SendDelays { mean, p99, max } = &mut self.late_ms;
        for delay in [mean, p99, max, &mut self.waited_ms, &mut self.longest_wait_ms] {
            *delay = delay.map(|delay| delay * factor);
        }
        self
    }

    /// Warnings about the metrics that the client distorted.
    pub(super) fn warnings(&self, stats: &LoadStats, target: TargetConcurrency) -> Vec<Warning> {
        let unprepared = (self.unprepared > 0).then(|| {
            let message = format!(
                "{} requests were not prepared in time: the concurrency was lower than requested, and the throughputs are too low",
                self.unprepared
            );
            Warning::new("unprepared", message).sized(self.unprepared as f64)
        });
        let opened_late = (self.opened_late > 0).then(|| {
            let message = format!(
                "{} of {} requests waited for a new connection: the time that it took to open is in their `ttft_ms` and `e2el_ms`",
                self.opened_late, stats.issued
            );
            Warning::new("new_connections", message).sized(self.opened_late as f64)
        });
        let all = [
            self.cpu_warning(),
            self.late_reads_warning(stats),
            self.send_delay_warning(stats, target),
            unprepared,
            opened_late,
        ];
        all.into_iter().flatten().collect()
    }

    fn cpu_warning(&self) -> Option<Warning> {
        (self.cpu >= BUSY).then(|| {
            let message = format!(
                "the client used {:.0} % of its core: the throughputs may be its limit instead of the engine's, and `ttft_ms`, `itl_ms` and \
                 `e2el_ms` too high by up to {:.1} ms",
                self.cpu * 100.0,
                self.longest_pause_ms
            );
            Warning::new("client_busy", message).sized(self.cpu)
        })
    }

    /// Warns if the client read answers late, because it was busy or other programs had its core, and that changes a
    /// metric by more than the metric's own interval.
    fn late_reads_warning(&self, stats: &LoadStats) -> Option<Warning> {
        let waited = self.waited_ms.unwrap_or(0.0);
        let longest = self.longest_pause_ms.max(self.longest_wait_ms.unwrap_or(0.0));
        let total = self.paused_ms.max(waited);
        let share = total / (1e3 * stats.duration);
        // Data that arrives within a pause is late by half of it on average. Beyond a percentile, all of it may have
        // been late.
        let mean = share * longest / 2.0;
        let beyond = |percentile: f64| if share > 1.0 - percentile { longest } else { 0.0 };
        let latencies = &stats.latencies;
        let distorted = |(_, summary): &(&str, &Summary)| {
            let changes = [
                (summary.mean, summary.ci.mean, mean),
                (summary.p95, summary.ci.p95, beyond(0.95)),
                (summary.p99, summary.ci.p99, beyond(0.99)),
            ];
            changes.into_iter().any(|(value, interval, change)| {
                let Some(value) = value else { return false };
                let noise = interval.map_or(DISTORTS * value, |[low, high]| (high - low) / 2.0);
                change > noise.max(IRRELEVANT * value)
            })
        };
        let affected: Vec<&str> = [("`ttft_ms`", &latencies.ttft_ms), ("`e2el_ms`", &latencies.e2el_ms)]
            .into_iter()
            .filter(distorted)
            .map(|(name, _)| name)
            .collect();
        if affected.is_empty() {
            return None;
        }
        let why = if 2.0 * waited >= total {
            ", because other programs had its core: leave it a core of its own;"
        } else {
            ":"
        };
        let message = format!(
            "the client read answers late, by up to {longest:.1} ms, during {:.1} % of the load{why} {} may be too high by more than \
             the interval says",
            share * 100.0,
            affected.join(" and ")
        );
        Some(Warning::new("client_late", message).sized(total))
    }

    fn send_delay_warning(&self, stats: &LoadStats, target: TargetConcurrency) -> Option<Warning> {
        let (mean, max) = (self.late_ms.mean?, self.late_ms.max?);
        let late = self.late_ms.p99.unwrap_or(max);
        if late <= LATE_MS {
            return None;
        }
        let e2el = stats.latencies.e2el_ms.mean?;
        let description = format!(
            "requests were sent late, by {mean:.1} ms on average, 99 % by less than {late:.1} ms, at most {max:.1} ms"
        );
        if let TargetConcurrency::Open { .. } = target {
            let ttft = stats.response.ttft_ms.median?;
            return (late > DISTORTS * ttft).then(|| {
                let message =
                    format!("{description}: arrivals were not as requested, and `response` is too high by that much");
                Warning::new("client_sent_late", message).sized(late)
            });
        }
        let lost = mean / (mean + e2el);
        (lost > EMPTY_SLOTS).then(|| {
            let message = format!(
                "{description}: a slot was empty for {:.1} % of the time, and the throughputs are too low by that much",
                lost * 100.0
            );
            Warning::new("client_sent_late", message).sized(lost)
        })
    }
}

impl SendDelays {
    pub(in crate::load) fn new(late_ms: &[f32]) -> Self {
        let mut ascending: Vec<f64> = late_ms.iter().map(|late| f64::from(*late)).collect();
        ascending.sort_unstable_by(f64::total_cmp);
        let n = ascending.len();
        Self {
            mean: mean(&ascending),
            p99: interpolated(&ascending, 0.99).filter(|_| n >= 100),
            max: ascending.last().copied(),
        }
    }
}
