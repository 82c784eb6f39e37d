//! A load as it goes: how many requests are issued, which of them are warm-up, when it has said enough.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::precision::Watcher;
use super::{Plan, Request, Warmup};
use crate::load::{Go, Record};

/// Why a load ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// As many requests were issued as asked for.
    #[default]
    Requests,
    /// Its time was up.
    Duration,
    /// The interval of the metric is narrow enough.
    Precision,
    /// The trace, or the steps, came to their end.
    Arrivals,
    /// The engine died.
    Died,
    /// Nothing came of it any more: the engine stalled, or failed one request after the other.
    GivenUp,
}

/// A load as it goes: asked whether a request is to be given (ahead of its time), told of each that is issued, and of each that ended.
#[derive(Debug)]
pub struct Course {
    plan: Arc<Plan>,
    watcher: Option<Watcher>,
    /// Requests given, and those of them that are known to count.
    given: u64,
    counted: u64,
    /// The first request that counts, as far as that is known before it is issued.
    first: Option<u64>,
    /// The first request that counts, and when the measured part began.
    handed_over: Option<(u64, Duration)>,
    /// There are no more than were given.
    exhausted: bool,
    narrow: bool,
}

impl Course {
    /// A load that has not begun.
    #[must_use]
    pub fn new(plan: Arc<Plan>) -> Self {
        Self {
            watcher: plan.stop.precision.map(Watcher::new),
            given: 0,
            counted: 0,
            first: None,
            // Without a warm-up the measured part begins with the clock, however late the first request comes.
            handed_over: (plan.warmup == Warmup::None).then_some((0, Duration::ZERO)),
            exhausted: false,
            narrow: false,
            plan,
        }
    }

    /// Whether this request, the next one, is to be sent; else it has been enough.
    pub fn wants(&mut self, request: &Request) -> bool {
        let counts = self.known_to_count(request);
        let asked = self.plan.stop.requests;
        let enough = self.total().is_some_and(|total| request.index >= total)
            || asked.is_some_and(|asked| counts && self.counted >= asked);
        if self.narrow || enough {
            return false;
        }
        if counts {
            self.first.get_or_insert(request.index);
            self.counted += 1;
        }
        self.given += 1;
        true
    }

    /// Takes note that there are no more requests than were given.
    pub fn exhausted(&mut self) {
        self.exhausted = true;
    }

    /// Takes note of a request that is issued. Whether the measured part begins with it, and what to do.
    pub fn issued(&mut self, index: u64, at: Duration) -> (bool, Go) {
        let by_clock = self.plan.arrivals.by_clock();
        let begins = match (self.handed_over, self.plan.warmup) {
            (Some(_), _) => None,
            (None, Warmup::Time(time)) if by_clock => (self.first == Some(index)).then_some(time),
            (None, warmup) => (!warmup.covers(index, at)).then_some(at),
        };
        if let Some(from) = begins {
            self.handed_over = Some((index, from));
        }
        // What was given ahead before the hand-over was known may be more than asked for.
        let enough = self.total().is_some_and(|total| index + 1 >= total);
        (begins.is_some(), if enough { Go::Finish } else { Go::On })
    }

    /// Up to which request [`Course::issued`] has nothing to say any more.
    #[must_use]
    pub fn quiet_until(&self) -> u64 {
        match (self.handed_over, self.total()) {
            (None, _) => 0,
            (Some(_), None) => u64::MAX,
            (Some(_), Some(total)) => total.saturating_sub(1),
        }
    }

    /// Takes note of a request that ended, and says what to do.
    pub fn ended(&mut self, record: &Record) -> Go {
        if self.narrow || self.is_warmup(record.index) {
            return Go::On;
        }
        self.narrow = self.watcher.as_mut().is_some_and(|watcher| watcher.see(record));
        if self.narrow { Go::Finish } else { Go::On }
    }

    /// Whether a request that was issued is in no figure.
    #[must_use]
    pub fn is_warmup(&self, index: u64) -> bool {
        self.handed_over.is_none_or(|(first, _)| index < first)
    }

    /// When the measured part began, if it did.
    #[must_use]
    pub fn handed_over(&self) -> Option<Duration> {
        self.handed_over.map(|(_, at)| at)
    }

    /// Why a load ended that lived to its end and issued so many requests.
    #[must_use]
    pub fn end(&self, issued: u64) -> End {
        if self.narrow {
            End::Precision
        } else if self.total() == Some(issued) {
            End::Requests
        } else if self.exhausted && self.given == issued {
            End::Arrivals
        } else {
            End::Duration
        }
    }

    /// Half the width of the interval that `precision` watches, as a share of its figure, at the last look.
    #[must_use]
    pub fn width(&self) -> Option<f64> {
        self.watcher.as_ref().and_then(Watcher::width)
    }

    /// Requests in all, once it is known which is the first that counts.
    fn total(&self) -> Option<u64> {
        let requests = self.plan.stop.requests?;
        let first = match (self.handed_over, self.plan.warmup) {
            (Some((first, _)), _) => first,
            (None, Warmup::Requests(before)) => before,
            (None, _) => self.first?,
        };
        Some(first.saturating_add(requests))
    }

    /// Whether a request is known to count before it is issued.
    fn known_to_count(&self, request: &Request) -> bool {
        match (self.plan.warmup, request.due) {
            (Warmup::Time(_), None) => self.handed_over.is_some(),
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
            sizes: Sizes::Drawn {
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

    /// Requests given and issued, of those how many are warm-up, and the hand-over; every request is given `ahead` others before it is issued, a tenth
    /// of a second after the one before.
    fn run(plan: &Arc<Plan>, ahead: usize) -> (u64, u64, Option<Duration>) {
        let mut course = Course::new(Arc::clone(plan));
        let mut schedule = Schedule::new(Arc::clone(plan), 1, 0);
        let mut waiting = std::collections::VecDeque::new();
        let mut issued = 0;
        loop {
            while waiting.len() < ahead
                && let Some(request) = schedule.next().filter(|request| course.wants(request))
            {
                waiting.push_back(request);
            }
            let Some(request) = waiting.pop_front() else { break };
            let at = Duration::from_millis(100) * u32::try_from(issued).unwrap();
            let (_, go) = course.issued(request.index, at);
            issued += 1;
            if go > Go::On {
                break;
            }
        }
        assert_eq!(course.end(issued), End::Requests);
        let warm = (0..issued).filter(|index| course.is_warmup(*index)).count() as u64;
        (issued, warm, course.handed_over())
    }

    #[test]
    fn as_many_are_measured_as_asked_for_whatever_the_warmup() {
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
