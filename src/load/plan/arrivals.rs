//! The arrival process: closed loop, open loop at a rate, or replay of a trace.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use super::rng::{Purpose, rng};
use super::{Pattern, Profile, Trace};

/// When requests arrive.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Closed loop with constant concurrency: each request is followed by the next as soon as it has ended.
    Closed {
        /// Concurrent requests.
        concurrency: u64,
        /// Time over which the slots open, evenly.
        ramp: Duration,
    },
    /// Closed loop with changing concurrency: steps of (concurrency, duration).
    ClosedSteps(Vec<(u64, Duration)>),
    /// Open loop: at a rate, independent of responses.
    Open {
        /// Requests per second over time.
        profile: Profile,
        /// Distribution of the inter-arrival times.
        pattern: Pattern,
    },
    /// At the times of a trace.
    Replay(Trace),
}

impl Arrivals {
    /// Whether requests arrive at fixed times (open loop), independent of responses.
    #[must_use]
    pub fn is_open_loop(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::Replay(_))
    }

    /// The maximum concurrency, if the arrivals determine it.
    #[must_use]
    pub fn max_concurrency(&self) -> Option<u64> {
        match self {
            Self::Closed { concurrency, .. } => Some(*concurrency),
            Self::ClosedSteps(steps) => steps.iter().map(|(concurrency, _)| *concurrency).max(),
            Self::Open { .. } | Self::Replay(_) => None,
        }
    }

    /// The number of connections to open beforehand. In an open loop, about the number of requests in two seconds.
    #[must_use]
    pub fn expected(&self) -> u64 {
        const SECONDS: f64 = 2.0;
        let rate = match self {
            Self::Closed { .. } | Self::ClosedSteps(_) => return self.max_concurrency().unwrap_or(1),
            Self::Open { profile, .. } => profile.peak(),
            Self::Replay(trace) => {
                let arrivals = trace.arrivals();
                let lasts = arrivals.last().map_or(0.0, |last| last.at.as_secs_f64());
                arrivals.len() as f64 / lasts.max(SECONDS)
            }
        };
        (rate * SECONDS).ceil().clamp(1.0, 512.0) as u64
    }

    /// When the last request arrives, if known beforehand.
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

/// Generates the due times of consecutive requests.
pub(super) struct ArrivalClock {
    rng: ChaCha8Rng,
    /// Sum of the inter-arrival times so far, in units of the mean.
    units: f64,
    planned: usize,
}

impl ArrivalClock {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: rng(seed, Purpose::Arrivals),
            units: 0.0,
            planned: 0,
        }
    }

    /// When the next request is due: `Some(None)` as soon as a slot is free; `None` if there are no more.
    pub(super) fn next(&mut self, arrivals: &Arrivals) -> Option<Option<Duration>> {
        let due = match arrivals {
            Arrivals::Closed { .. } | Arrivals::ClosedSteps(_) => None,
            Arrivals::Open { profile, pattern } => {
                // The process runs in its own time with rate 1, and the profile maps that to real time. So a Poisson
                // process remains one when the rate changes.
                self.units += pattern.gap(self.planned == 0, &mut self.rng);
                Some(profile.time_of(self.units)?)
            }
            Arrivals::Replay(trace) => Some(trace.arrivals().get(self.planned)?.at),
        };
        self.planned += 1;
        Some(due)
    }
}
