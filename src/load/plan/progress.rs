//! Progress of a load: how many requests to issue, which ones are warm-up, and when it is finished.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::precision::PrecisionMonitor;
use super::{Plan, Request, Warmup};
use crate::load::{Control, Record};

/// Why a load ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The requested number of requests was issued.
    #[default]
    Requests,
    /// The duration was over.
    Duration,
    /// The confidence interval of the metric is narrow enough.
    Precision,
    /// The trace or the steps ended.
    Arrivals,
    /// The engine died.
    Died,
    /// The load was hopeless: the engine stalled, or request after request failed.
    GivenUp,
}

/// Progress of a load. Call [`LoadProgress::should_send`] for each planned request (ahead of time),
/// [`LoadProgress::issued`] for each issued one, and [`LoadProgress::ended`] for each ended one.
#[derive(Debug)]
pub struct LoadProgress {
    plan: Arc<Plan>,
    monitor: Option<PrecisionMonitor>,
    /// Planned requests, and how many of them are known to be measured.
    planned: u64,
    counted: u64,
    /// The first measured request, as far as known before it is issued.
    first: Option<u64>,
    /// The first measured request, and when the measured part began.
    measurement_start: Option<(u64, Duration)>,
    /// There are no more requests than the planned ones.
    exhausted: bool,
    precise: bool,
}

impl LoadProgress {
    /// A load that has not started.
    pub fn new(plan: Arc<Plan>) -> Self {
        Self {
            monitor: plan.stop.precision.map(PrecisionMonitor::new),
            planned: 0,
            counted: 0,
            first: None,
            // Without a warm-up the measured part begins at the start of the load, however late the first request
            // arrives.
            measurement_start: (plan.warmup == Warmup::None).then_some((0, Duration::ZERO)),
            exhausted: false,
            precise: false,
            plan,
        }
    }

    /// Whether to send this next request; otherwise the load has enough.
    pub fn should_send(&mut self, request: &Request) -> bool {
        let counts = self.known_to_count(request);
        let requested = self.plan.stop.requests;
        let enough = self.total().is_some_and(|total| request.index >= total)
            || requested.is_some_and(|requested| counts && self.counted >= requested);
        if self.precise || enough {
            return false;
        }
        if counts {
            self.first.get_or_insert(request.index);
            self.counted += 1;
        }
        self.planned += 1;
        true
    }

    /// Call when there are no more requests than the planned ones.
    pub fn exhausted(&mut self) {
        self.exhausted = true;
    }

    /// Call when a request is issued. Returns whether the measured part begins with it, and what to do.
    pub fn issued(&mut self, index: u64, at: Duration) -> (bool, Control) {
        let is_open_loop = self.plan.arrivals.is_open_loop();
        let begins = match (self.measurement_start, self.plan.warmup) {
            (Some(_), _) => None,
            (None, Warmup::Time(time)) if is_open_loop => (self.first == Some(index)).then_some(time),
            (None, warmup) => (!warmup.covers(index, at)).then_some(at),
        };
        if let Some(from) = begins {
            self.measurement_start = Some((index, from));
        }
        // Requests planned before the measured part began may be more than needed.
        let enough = self.total().is_some_and(|total| index + 1 >= total);
        (
            begins.is_some(),
            if enough { Control::Drain } else { Control::Continue },
        )
    }

    /// Below this index, calls of [`LoadProgress::issued`] have no effect.
    pub fn quiet_until(&self) -> u64 {
        match (self.measurement_start, self.total()) {
            (None, _) => 0,
            (Some(_), None) => u64::MAX,
            (Some(_), Some(total)) => total.saturating_sub(1),
        }
    }

    /// Call when a request has ended. Returns what to do.
    pub fn ended(&mut self, record: &Record) -> Control {
        if self.precise || self.is_warmup(record.index) {
            return Control::Continue;
        }
        self.precise = self.monitor.as_mut().is_some_and(|monitor| monitor.add(record));
        if self.precise {
            Control::Drain
        } else {
            Control::Continue
        }
    }

    /// Whether an issued request belongs to the warm-up.
    pub fn is_warmup(&self, index: u64) -> bool {
        self.measurement_start.is_none_or(|(first, _)| index < first)
    }

    /// When the measured part began.
    pub fn measurement_start(&self) -> Option<Duration> {
        self.measurement_start.map(|(_, at)| at)
    }

    /// Why a load ended that was not aborted, given the number of issued requests.
    pub fn end(&self, issued: u64) -> EndReason {
        if self.precise {
            EndReason::Precision
        } else if self.total() == Some(issued) {
            EndReason::Requests
        } else if self.exhausted && self.planned == issued {
            EndReason::Arrivals
        } else {
            EndReason::Duration
        }
    }

    /// Half the relative width of the confidence interval watched by `precision`, at the last check.
    pub fn width(&self) -> Option<f64> {
        self.monitor.as_ref().and_then(PrecisionMonitor::width)
    }

    /// Total number of requests, once the first measured one is known.
    fn total(&self) -> Option<u64> {
        let requests = self.plan.stop.requests?;
        let first = match (self.measurement_start, self.plan.warmup) {
            (Some((first, _)), _) => first,
            (None, Warmup::Requests(before)) => before,
            (None, _) => self.first?,
        };
        Some(first.saturating_add(requests))
    }

    /// Whether a request is known to be measured before it is issued.
    fn known_to_count(&self, request: &Request) -> bool {
        match (self.plan.warmup, request.due) {
            (Warmup::Time(_), None) => self.measurement_start.is_some(),
            (warmup, due) => !warmup.covers(request.index, due.unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arrivals, Length, Schedule, Sizes, Stop};
    use super::*;

    fn plan(warmup: Warmup, requests: u64, open: bool) -> Arc<Plan> {
        let arrivals = if open {
            Arrivals::Open {
                profile: super::super::Profile::constant(10.0).unwrap(),
                pattern: super::super::Pattern::Constant,
            }
        } else {
            Arrivals::Closed {
                concurrency: 2,
                ramp: Duration::ZERO,
            }
        };
        Arc::new(Plan {
            arrivals,
            sizes: Sizes::Random {
                input: Length::Fixed(1),
                output: Length::Fixed(1),
            },
            warmup,
            stop: Stop {
                requests: Some(requests),
                ..Stop::default()
            },
        })
    }

    /// Simulates a load with one request every 0.1 s, planned `ahead` requests in advance. Returns the numbers of
    /// issued and warm-up requests, and when the measured part began.
    fn run(plan: &Arc<Plan>, ahead: usize) -> (u64, u64, Option<Duration>) {
        let mut progress = LoadProgress::new(Arc::clone(plan));
        let mut schedule = Schedule::new(Arc::clone(plan), 1, 0);
        let mut waiting = std::collections::VecDeque::new();
        let mut issued = 0;
        loop {
            while waiting.len() < ahead
                && let Some(request) = schedule.next().filter(|request| progress.should_send(request))
            {
                waiting.push_back(request);
            }
            let Some(request) = waiting.pop_front() else { break };
            let at = Duration::from_millis(100) * u32::try_from(issued).unwrap();
            let (_, control) = progress.issued(request.index, at);
            issued += 1;
            if control > Control::Continue {
                break;
            }
        }
        assert_eq!(progress.end(issued), EndReason::Requests);
        let warm = (0..issued).filter(|index| progress.is_warmup(*index)).count() as u64;
        (issued, warm, progress.measurement_start())
    }

    #[test]
    fn measures_the_requested_number_with_any_warmup() {
        let (none, some) = (Warmup::None, Warmup::Requests(3));
        let time = Warmup::Time(Duration::from_millis(450));
        for open in [false, true] {
            for ahead in [1, 4, 100] {
                let tenths = |tenths: u64| Some(Duration::from_millis(100 * tenths));
                assert_eq!(run(&plan(none, 7, open), ahead), (7, 0, tenths(0)));
                assert_eq!(run(&plan(some, 7, open), ahead), (10, 3, tenths(3)));
                let (issued, warm, began) = run(&plan(time, 7, open), ahead);
                assert_eq!((issued, warm), (12, 5), "ahead {ahead}");
                assert_eq!(began, Some(Duration::from_millis(if open { 450 } else { 500 })));
            }
        }
    }
}
