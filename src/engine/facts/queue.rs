//! The engine's queue while requests run, as its metrics show it: peaks, preemptions and stalls.

use std::time::{Duration, Instant};

use crate::load::engine_side::EngineQueue;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct QueueMetrics {
    first: Option<EngineQueue>,
    last: Option<EngineQueue>,
    /// The newest snapshot before any request reached its timeout: requests that are cut off are no longer queued.
    before_timeout: Option<EngineQueue>,
    peak: EngineQueue,
}

impl QueueMetrics {
    /// Adds a snapshot; `in_time` if no request had reached its timeout.
    pub(crate) fn add(&mut self, metrics: EngineQueue, in_time: bool) {
        self.first.get_or_insert(metrics);
        self.last = Some(metrics);
        if in_time {
            self.before_timeout = Some(metrics);
        }
        self.peak.running = self.peak.running.max(metrics.running);
        self.peak.waiting = self.peak.waiting.max(metrics.waiting);
        self.peak.paused = self.peak.paused.max(metrics.paused);
        self.peak.kv_usage = match (self.peak.kv_usage, metrics.kv_usage) {
            (Some(before), Some(now)) => Some(before.max(now)),
            (before, now) => before.or(now),
        };
    }

    /// The highest values, and the preemptions since the first poll; `None` without any poll.
    pub(crate) fn peaks(&self) -> Option<EngineQueue> {
        self.first?;
        Some(EngineQueue {
            preemptions: self.preempted(),
            ..self.peak
        })
    }

    /// Preemptions since the first poll, or the maximum number of currently preempted sequences if the engine reports
    /// only that.
    pub(crate) fn preempted(&self) -> Option<u64> {
        let counted = |seen: Option<EngineQueue>| seen?.preemptions;
        match (counted(self.first), counted(self.last)) {
            (Some(before), Some(now)) => Some(now.saturating_sub(before)),
            _ => self.peak.paused,
        }
    }

    /// Whether the `unfinished` requests make no progress: all are queued with none running, or sequences are being
    /// preempted.
    pub(crate) fn stuck(&self, unfinished: u64) -> bool {
        let all_queued = |last| all_queued(last, unfinished);
        self.before_timeout.is_some_and(all_queued) || self.preempted().is_some_and(|preempted| preempted > 0)
    }
}

/// Detects a stalled engine: one that reports no running requests while all unfinished ones are queued for too long.
/// Engines whose metrics page is missing or does not answer are judged by request timeouts instead.
pub(crate) struct StallDetector {
    longest: Duration,
    /// Time of the last progress.
    since: Option<Instant>,
    /// Ended and unfinished requests at the last poll.
    ended: u64,
    unfinished: u64,
}

impl StallDetector {
    pub(crate) fn new(longest: Duration) -> Self {
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
    /// The snapshot is older than the requests issued since the last poll, so those are not expected in it.
    pub(crate) fn update(
        &mut self,
        (issued, ended): (u64, u64),
        state: Option<EngineQueue>,
        now: Instant,
    ) -> Option<String> {
        let unfinished = self.unfinished;
        let idle = unfinished > 0 && ended == self.ended && state.is_some_and(|state| all_queued(state, unfinished));
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

/// Whether nothing runs and all `unfinished` requests are queued. SGLang and TGI count a request in prefill as neither;
/// therefore all must be waiting.
fn all_queued(state: EngineQueue, unfinished: u64) -> bool {
    let waiting = state.waiting.unwrap_or(0);
    state.running == Some(0) && waiting > 0 && waiting >= unfinished
}

#[cfg(test)]
mod queue_tests {
    use super::*;

    fn state(running: u64, waiting: u64, preemptions: u64) -> EngineQueue {
        EngineQueue {
            running: Some(running),
            waiting: Some(waiting),
            preemptions: Some(preemptions),
            ..EngineQueue::default()
        }
    }

    fn queue(polls: &[(u64, u64, u64)]) -> QueueMetrics {
        let mut queue = QueueMetrics::default();
        for (running, waiting, preemptions) in polls {
            queue.add(state(*running, *waiting, *preemptions), true);
        }
        queue
    }

    #[test]
    fn without_polls_nothing_is_known() {
        assert_eq!((queue(&[]).peaks(), queue(&[]).stuck(1)), (None, false));
    }

    #[test]
    fn peaks_and_new_preemptions_are_kept() {
        let seen = queue(&[(0, 0, 7), (5, 2, 8), (1, 0, 9)]).peaks().unwrap();
        assert_eq!(
            (seen.running, seen.waiting, seen.preemptions),
            (Some(5), Some(2), Some(2))
        );
    }

    #[test]
    fn paused_sequences_count_as_preempted() {
        let mut queue = QueueMetrics::default();
        for paused in [0, 2, 0] {
            let metrics = EngineQueue {
                paused: Some(paused),
                ..EngineQueue::default()
            };
            queue.add(metrics, true);
        }
        assert_eq!(queue.preempted(), Some(2));
    }

    #[test]
    fn stuck_is_waiting_without_running_or_preempting() {
        assert!(queue(&[(1, 0, 0), (0, 3, 0)]).stuck(3));
        assert!(!queue(&[(0, 3, 0), (1, 2, 0)]).stuck(3));
        assert!(queue(&[(1, 0, 0), (1, 0, 4)]).stuck(1));
        assert!(!queue(&[(0, 0, 4)]).stuck(1));
        let mut cut_off = queue(&[(0, 3, 0)]);
        cut_off.add(state(0, 0, 0), false);
        assert!(cut_off.stuck(3));
    }

    #[test]
    fn a_request_in_prefill_neither_runs_nor_waits() {
        let reading_one_of_four = queue(&[(0, 3, 0)]);
        assert!(!reading_one_of_four.stuck(4));
        assert!(reading_one_of_four.stuck(3));
    }
}

#[cfg(test)]
mod stall_tests {
    use super::*;

    fn state(running: u64, waiting: u64) -> Option<EngineQueue> {
        Some(EngineQueue {
            running: Some(running),
            waiting: Some(waiting),
            ..EngineQueue::default()
        })
    }

    /// The index of the poll at which a load is given up. Polls are a second apart; two seconds without progress are
    /// allowed.
    fn stalls(polls: &[(u64, u64, Option<EngineQueue>)]) -> Option<usize> {
        let (mut stall, began) = (StallDetector::new(Duration::from_secs(2)), Instant::now());
        polls.iter().enumerate().position(|(second, (issued, ended, state))| {
            let now = began + Duration::from_secs(second as u64);
            stall.update((*issued, *ended), *state, now).is_some()
        })
    }

    #[test]
    fn queued_requests_with_none_running_are_a_stall() {
        let all_queued = (4, 0, state(0, 4));
        assert_eq!(stalls(&[all_queued, all_queued, all_queued, all_queued]), Some(3));
        let more_come = [4, 6, 8, 10].map(|issued| (issued, 0, state(0, issued)));
        assert_eq!(stalls(&more_come), Some(3));
    }

    #[test]
    fn progress_running_requests_or_missing_metrics_are_no_stall() {
        for state in [state(1, 3), state(0, 3), None, Some(EngineQueue::default())] {
            assert_eq!(stalls(&vec![(4, 0, state); 9]), None, "{state:?}");
        }
        let ends: Vec<_> = (0..9).map(|ended| (ended + 4, ended, state(0, 4))).collect();
        assert_eq!(stalls(&ends), None);
        assert_eq!(stalls(&vec![(4, 4, state(0, 0)); 9]), None, "nothing is under way");
    }
}
