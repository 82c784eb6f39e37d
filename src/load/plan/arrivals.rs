//! When requests come: as others end, by a rate, or as they once came.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use super::stream::{Purpose, stream};
use super::{Pattern, Profile, Trace};

/// When requests come.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// So many at once, each followed by the next as soon as it has ended.
    Closed {
        /// Requests at once.
        concurrency: u64,
        /// The time over which the slots are opened, evenly.
        ramp: Duration,
    },
    /// So many at once, changing over time.
    ClosedSteps(Vec<(u64, Duration)>),
    /// By a rate, whether others have ended or not.
    Open {
        /// Requests a second over time.
        profile: Profile,
        /// How they follow each other.
        pattern: Pattern,
    },
    /// As they once came.
    Replay(Trace),
}

impl Arrivals {
    /// Whether requests come by the clock, whether others have ended or not.
    #[must_use]
    pub fn by_clock(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::Replay(_))
    }

    /// The most that can be under way at once, where the arrivals say so.
    #[must_use]
    pub fn at_once(&self) -> Option<u64> {
        match self {
            Self::Closed { concurrency, .. } => Some(*concurrency),
            Self::ClosedSteps(steps) => steps.iter().map(|(concurrency, _)| *concurrency).max(),
            Self::Open { .. } | Self::Replay(_) => None,
        }
    }

    /// Requests that come in two seconds, at the most or so: for how many connections are opened beforehand.
    #[must_use]
    pub fn expected(&self) -> u64 {
        const SECONDS: f64 = 2.0;
        let rate = match self {
            Self::Closed { .. } | Self::ClosedSteps(_) => return self.at_once().unwrap_or(1),
            Self::Open { profile, .. } => profile.peak(),
            Self::Replay(trace) => {
                let arrivals = trace.arrivals();
                let lasts = arrivals.last().map_or(0.0, |last| last.at.as_secs_f64());
                arrivals.len() as f64 / lasts.max(SECONDS)
            }
        };
        (rate * SECONDS).ceil().clamp(1.0, 512.0) as u64
    }

    /// When no more come, where that is known beforehand.
    #[must_use]
    pub fn length(&self) -> Option<Duration> {
        match self {
            Self::Closed { .. } => None,
            Self::ClosedSteps(steps) => Some(steps.iter().map(|(_, time)| *time).sum()),
            Self::Open { profile, .. } => profile.length(),
            Self::Replay(trace) => trace.arrivals().last().map(|last| last.at),
        }
    }
}

/// When requests are due, one after the other.
pub(super) struct ArrivalClock {
    numbers: ChaCha8Rng,
    /// The gaps so far, in units of the mean gap.
    units: f64,
    given: usize,
}

impl ArrivalClock {
    /// The times that follow from this seed.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            numbers: stream(seed, Purpose::Arrivals),
            units: 0.0,
            given: 0,
        }
    }

    /// When the next request is due: `Some(None)` where that is when a slot is free; `None` where no more come.
    pub(super) fn next(&mut self, arrivals: &Arrivals) -> Option<Option<Duration>> {
        let due = match arrivals {
            Arrivals::Closed { .. } | Arrivals::ClosedSteps(_) => None,
            Arrivals::Open { profile, pattern } => {
                // The process runs in units of its own, in which its rate is 1, and the rates say how fast these pass. So a Poisson process stays
                // one over a change of the rate.
                self.units += pattern.gap(self.given == 0, &mut self.numbers);
                Some(profile.moment(self.units)?)
            }
            Arrivals::Replay(trace) => Some(trace.arrivals().get(self.given)?.at),
        };
        self.given += 1;
        Some(due)
    }
}
