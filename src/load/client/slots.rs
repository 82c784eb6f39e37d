//! How many requests may be in flight at a given time, and since when a slot has been free. Pure.

use std::time::Duration;

use super::{Slots, Step};

impl Slots {
    /// Maximum requests in flight at `now`; `None` is unlimited.
    pub(super) fn level(&self, now: Duration) -> Option<u64> {
        match self {
            Self::Closed { concurrency, ramp } => Some(ramped(*concurrency, *ramp, now)),
            Self::Steps(steps) => Some(current(steps, now).map_or(0, |step| step.concurrency)),
            Self::Open { max_concurrency, .. } => *max_concurrency,
        }
    }

    /// The next time after `now` when the number of slots may grow.
    pub(super) fn next_change(&self, now: Duration) -> Option<Duration> {
        match self {
            Self::Closed { concurrency, ramp } => {
                let there = ramped(*concurrency, *ramp, now);
                (there < *concurrency).then(|| opens(*concurrency, *ramp, there + 1))
            }
            Self::Steps(steps) => steps.iter().map(|step| step.begins).find(|begins| *begins > now),
            Self::Open { .. } => None,
        }
    }

    /// When the slot with this number (from 1) opened, if it was unused before `now`.
    pub(super) fn opened(&self, number: u64, now: Duration) -> Duration {
        match self {
            Self::Closed { concurrency, ramp } => opens(*concurrency, *ramp, number),
            Self::Steps(steps) => current(steps, now).map_or(Duration::ZERO, |step| step.begins),
            Self::Open { .. } => Duration::ZERO,
        }
    }

    /// Connections to open before the clock starts.
    pub(super) fn connections(&self) -> u64 {
        match self {
            Self::Closed { concurrency, .. } => *concurrency,
            Self::Steps(steps) => steps.iter().map(|step| step.concurrency).max().unwrap_or(0),
            Self::Open {
                max_concurrency,
                expected,
            } => max_concurrency.map_or(*expected, |most| most.min(*expected)),
        }
    }
}

fn current(steps: &[Step], now: Duration) -> Option<&Step> {
    steps.iter().take_while(|step| step.begins <= now).last()
}

/// When the slot with this number (from 1) opens: the first immediately, the others evenly over the ramp.
fn opens(concurrency: u64, ramp: Duration, number: u64) -> Duration {
    let share = number.saturating_sub(1) as f64 / concurrency.max(1) as f64;
    ramp.mul_f64(share)
}

fn ramped(concurrency: u64, ramp: Duration, now: Duration) -> u64 {
    if now >= ramp {
        return concurrency;
    }
    // Rounding may make the estimate off by one.
    let guess = (now.as_secs_f64() / ramp.as_secs_f64() * concurrency as f64) as u64;
    (guess..=guess + 2)
        .rev()
        .find(|number| *number <= concurrency && opens(concurrency, ramp, *number) <= now)
        .unwrap_or(1)
}

#[cfg(test)]
mod tests;
