//! What the engine's metrics showed while a probe ran. Pure.

use super::Metrics;

/// Looks at the metrics page, joined.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Queue {
    first: Option<Metrics>,
    last: Option<Metrics>,
    peak: Metrics,
}

impl Queue {
    /// Adds a look.
    pub(super) fn see(&mut self, metrics: Metrics) {
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

    /// The highest figures seen, and the preemptions since the first look; `None` where nobody looked.
    pub(super) fn seen(&self) -> Option<Metrics> {
        self.first?;
        Some(Metrics {
            preemptions: self.preempted(),
            ..self.peak
        })
    }

    /// Preemptions since the first look; of an engine that tells only how many sequences are out, the most at a time.
    pub(super) fn preempted(&self) -> Option<u64> {
        let counted = |seen: Option<Metrics>| seen?.preemptions;
        match (counted(self.first), counted(self.last)) {
            (Some(before), Some(now)) => Some(now.saturating_sub(before)),
            _ => self.peak.paused,
        }
    }

    /// Whether nothing ran and all of the `unfinished` requests waited at the last look. SGLang and TGI count a sequence
    /// whose prompt is being read as neither.
    pub(super) fn idle(&self, unfinished: u64) -> bool {
        self.last.is_some_and(|last| {
            last.running == Some(0) && last.waiting.is_some_and(|waiting| waiting > 0 && waiting >= unfinished)
        })
    }

    /// Whether the `unfinished` requests cannot go on: all of them wait and nothing runs, or sequences are thrown out again and again.
    pub(super) fn stuck(&self, unfinished: u64) -> bool {
        self.idle(unfinished) || self.preempted().is_some_and(|preempted| preempted > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(looks: &[(u64, u64, u64)]) -> Queue {
        let mut queue = Queue::default();
        for (running, waiting, preemptions) in looks {
            queue.see(Metrics {
                running: Some(*running),
                waiting: Some(*waiting),
                preemptions: Some(*preemptions),
                ..Metrics::default()
            });
        }
        queue
    }

    #[test]
    fn nothing_seen_says_nothing() {
        assert_eq!((queue(&[]).seen(), queue(&[]).stuck(1)), (None, false));
    }

    #[test]
    fn peaks_and_new_preemptions_are_kept() {
        let seen = queue(&[(0, 0, 7), (5, 2, 8), (1, 0, 9)]).seen().unwrap();
        assert_eq!(
            (seen.running, seen.waiting, seen.preemptions),
            (Some(5), Some(2), Some(2))
        );
    }

    #[test]
    fn sequences_that_were_out_were_preempted() {
        let mut queue = Queue::default();
        for paused in [0, 2, 0] {
            queue.see(Metrics {
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
    fn a_request_whose_prompt_is_being_read_neither_runs_nor_waits() {
        let reading_one_of_four = queue(&[(0, 3, 0)]);
        assert!(!reading_one_of_four.stuck(4));
        assert!(reading_one_of_four.stuck(3));
    }
}
