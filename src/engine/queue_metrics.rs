//! Aggregates the queue metrics polled during a probe.

use super::Metrics;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct QueueMetrics {
    first: Option<Metrics>,
    last: Option<Metrics>,
    peak: Metrics,
}

impl QueueMetrics {
    pub(super) fn add(&mut self, metrics: Metrics) {
        self.first.get_or_insert(metrics);
        self.last = Some(metrics);
        self.peak.running = self.peak.running.max(metrics.running);
        self.peak.waiting = self.peak.waiting.max(metrics.waiting);
        self.peak.paused = self.peak.paused.max(metrics.paused);
        self.peak.kv_usage = match (self.peak.kv_usage, metrics.kv_usage) {
            (Some(before), Some(now)) => Some(before.max(now)),
            (before, now) => before.or(now),
        };
    }

    /// The highest values, and the preemptions since the first poll; `None` without any poll.
    pub(super) fn peaks(&self) -> Option<Metrics> {
        self.first?;
        Some(Metrics {
            preemptions: self.preempted(),
            ..self.peak
        })
    }

    /// Preemptions since the first poll, or the maximum number of currently preempted sequences if the engine reports
    /// only that.
    pub(super) fn preempted(&self) -> Option<u64> {
        let counted = |seen: Option<Metrics>| seen?.preemptions;
        match (counted(self.first), counted(self.last)) {
            (Some(before), Some(now)) => Some(now.saturating_sub(before)),
            _ => self.peak.paused,
        }
    }

    /// Whether nothing ran and all `unfinished` requests were queued at the last poll. SGLang and TGI count a sequence
    /// in prefill as neither.
    pub(super) fn idle(&self, unfinished: u64) -> bool {
        self.last.is_some_and(|last| {
            last.running == Some(0) && last.waiting.is_some_and(|waiting| waiting > 0 && waiting >= unfinished)
        })
    }

    /// Whether the `unfinished` requests make no progress: all are queued with none running, or sequences are being
    /// preempted.
    pub(super) fn stuck(&self, unfinished: u64) -> bool {
        self.idle(unfinished) || self.preempted().is_some_and(|preempted| preempted > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(polls: &[(u64, u64, u64)]) -> QueueMetrics {
        let mut queue = QueueMetrics::default();
        for (running, waiting, preemptions) in polls {
            queue.add(Metrics {
                running: Some(*running),
                waiting: Some(*waiting),
                preemptions: Some(*preemptions),
                ..Metrics::default()
            });
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
            queue.add(Metrics {
                paused: Some(paused),
                ..Metrics::default()
            });
        }
        assert_eq!(queue.preempted(), Some(2));
    }

    #[test]
    fn stuck_is_waiting_without_running_or_preempting() {
        assert!(queue(&[(1, 0, 0), (0, 3, 0)]).stuck(3));
        assert!(!queue(&[(0, 3, 0), (1, 2, 0)]).stuck(3));
        assert!(queue(&[(1, 0, 0), (1, 0, 4)]).stuck(1));
        assert!(!queue(&[(0, 0, 4)]).stuck(1));
    }

    #[test]
    fn a_request_in_prefill_neither_runs_nor_waits() {
        let reading_one_of_four = queue(&[(0, 3, 0)]);
        assert!(!reading_one_of_four.stuck(4));
        assert!(reading_one_of_four.stuck(3));
    }
}
