//! Detects a stalled engine: its metrics report no running requests while all unfinished ones are queued for too long.
//!
//! Engines whose metrics page is missing or does not answer are judged by request timeouts instead.

use std::time::{Duration, Instant};

use crate::load::engine_side::EngineMetrics;

pub(super) struct StallDetector {
    longest: Duration,
    /// Time of the last progress.
    since: Option<Instant>,
    /// Ended and unfinished requests at the last poll.
    ended: u64,
    unfinished: u64,
}

impl StallDetector {
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            longest,
            since: None,
            ended: 0,
            unfinished: 0,
        }
    }

    /// Processes a poll: requests issued and ended, and the engine's newest snapshot. Returns a reason if the load must
    /// be given up.
    ///
    /// The snapshot is older than the requests issued since the last poll, so those are not expected in it. SGLang and
    /// TGI count a request in prefill neither as running nor as queued; therefore all must be queued.
    pub(super) fn update(
        &mut self,
        (issued, ended): (u64, u64),
        state: Option<EngineMetrics>,
        now: Instant,
    ) -> Option<String> {
        let all_queued = |state: EngineMetrics| state.running == Some(0) && state.waiting >= Some(self.unfinished);
        let idle = self.unfinished > 0 && ended == self.ended && state.is_some_and(all_queued);
        let unfinished = self.unfinished;
        self.ended = ended;
        self.unfinished = issued.saturating_sub(ended);
        if !idle {
            self.since = None;
            return None;
        }
        let stalled_for = now.duration_since(*self.since.get_or_insert(now));
        (stalled_for >= self.longest).then(|| {
            format!(
                "the engine stalled: its metrics showed nothing running and {unfinished} requests queued for {:.1} s",
                stalled_for.as_secs_f64()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(running: u64, waiting: u64) -> Option<EngineMetrics> {
        Some(EngineMetrics {
            running: Some(running),
            waiting: Some(waiting),
            ..EngineMetrics::default()
        })
    }

    /// The index of the poll at which a load is given up. Polls are a second apart; two seconds without progress are
    /// allowed.
    fn stalls(polls: &[(u64, u64, Option<EngineMetrics>)]) -> Option<usize> {
        let (mut stall, began) = (StallDetector::new(Duration::from_secs(2)), Instant::now());
        polls.iter().enumerate().position(|(second, (issued, ended, state))| {
            let now = began + Duration::from_secs(second as u64);
            stall.update((*issued, *ended), state.clone(), now).is_some()
        })
    }

    #[test]
    fn queued_requests_with_none_running_are_a_stall() {
        let all_queued = (4, 0, state(0, 4));
        assert_eq!(
            stalls(&[all_queued.clone(), all_queued.clone(), all_queued.clone(), all_queued]),
            Some(3)
        );
        let more_come = [4, 6, 8, 10].map(|issued| (issued, 0, state(0, issued)));
        assert_eq!(stalls(&more_come), Some(3));
    }

    #[test]
    fn progress_running_requests_or_missing_metrics_are_no_stall() {
        for state in [state(1, 3), state(0, 3), None, Some(EngineMetrics::default())] {
            assert_eq!(stalls(&vec![(4, 0, state.clone()); 9]), None, "{state:?}");
        }
        let ends: Vec<_> = (0..9).map(|ended| (ended + 4, ended, state(0, 4))).collect();
        assert_eq!(stalls(&ends), None);
        assert_eq!(stalls(&vec![(4, 4, state(0, 0)); 9]), None, "nothing is under way");
    }
}
