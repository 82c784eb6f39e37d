//! Whether an engine under load has stalled: by its own word nothing runs and all that is unfinished waits, for too long. Pure.
//!
//! As probes see it. An engine whose metrics page tells nothing of its queue, or is not answered, is judged by the deadlines of its requests.

use std::time::{Duration, Instant};

use crate::load::joined::State;

/// Looks at a load, joined.
pub(super) struct Stall {
    longest: Duration,
    /// Since when nothing has moved.
    since: Option<Instant>,
    /// Requests that had ended, and those that were unfinished, at the last look.
    ended: u64,
    unfinished: u64,
}

impl Stall {
    /// Nothing may move for so long.
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            longest,
            since: None,
            ended: 0,
            unfinished: 0,
        }
    }

    /// Takes a look: requests issued and ended, and what the engine told last. Why the load is to be given up, if it is.
    ///
    /// The engine told that a moment ago: it cannot have known of requests issued since the last look. SGLang and TGI count one whose prompt
    /// is being read neither as running nor as waiting, so that all must wait.
    pub(super) fn sees(&mut self, (issued, ended): (u64, u64), told: Option<State>, now: Instant) -> Option<String> {
        let waits = |state: State| state.running == Some(0) && state.waiting >= Some(self.unfinished);
        let idle = self.unfinished > 0 && ended == self.ended && told.is_some_and(waits);
        let unfinished = self.unfinished;
        self.ended = ended;
        self.unfinished = issued.saturating_sub(ended);
        if !idle {
            self.since = None;
            return None;
        }
        let stood = now.duration_since(*self.since.get_or_insert(now));
        (stood >= self.longest).then(|| {
            format!(
                "the engine stalled: by its metrics nothing ran and {unfinished} requests waited for {:.1} s",
                stood.as_secs_f64()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(running: u64, waiting: u64) -> Option<State> {
        Some(State {
            running: Some(running),
            waiting: Some(waiting),
            ..State::default()
        })
    }

    /// At which of these looks, a second apart, a load is given up that may stand for two seconds.
    fn stalls(looks: &[(u64, u64, Option<State>)]) -> Option<usize> {
        let (mut stall, began) = (Stall::new(Duration::from_secs(2)), Instant::now());
        looks.iter().enumerate().position(|(second, (issued, ended, told))| {
            let now = began + Duration::from_secs(second as u64);
            stall.sees((*issued, *ended), told.clone(), now).is_some()
        })
    }

    #[test]
    fn all_that_waits_while_nothing_runs_is_stalled() {
        let waits = (4, 0, state(0, 4));
        assert_eq!(stalls(&[waits.clone(), waits.clone(), waits.clone(), waits]), Some(3));
        let more_come = [4, 6, 8, 10].map(|issued| (issued, 0, state(0, issued)));
        assert_eq!(stalls(&more_come), Some(3));
    }

    #[test]
    fn what_moves_runs_or_is_not_told_is_not() {
        for told in [state(1, 3), state(0, 3), None, Some(State::default())] {
            assert_eq!(stalls(&vec![(4, 0, told.clone()); 9]), None, "{told:?}");
        }
        let ends: Vec<_> = (0..9).map(|ended| (ended + 4, ended, state(0, 4))).collect();
        assert_eq!(stalls(&ends), None);
        assert_eq!(stalls(&vec![(4, 4, state(0, 0)); 9]), None, "nothing is under way");
    }
}
