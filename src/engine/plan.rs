//! Which limits to start an engine with, so that it serves a point and, where memory allows, the whole box. Pure.

use super::Limits;
use super::answer::Evidence;

/// A start that failed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StartFailure {
    /// The limits of the start.
    pub(super) limits: Limits,
    /// `memory`, `length_limit`, or another reason.
    pub(super) cause: String,
    /// The longest context that the engine says would do.
    pub(super) longest: Option<u64>,
    pub(super) evidence: Evidence,
}

/// What is known of an engine's starts.
#[derive(Clone, Debug, Default)]
pub(super) struct Starts {
    failed: Vec<StartFailure>,
}

/// What to do about a point.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next<'a> {
    /// Start with these limits.
    Try(Limits),
    /// No start serves the point, as this failure shows.
    Hopeless(&'a StartFailure),
}

impl Starts {
    /// Remembers a failure that another start with the same limits would repeat.
    pub(super) fn remember(&mut self, failure: StartFailure) {
        self.failed.push(failure);
    }

    /// The widest start that serves `asked` and is not known to fail: the whole box, else as much as the engine's own estimate allows,
    /// else exactly the point.
    pub(super) fn next(&self, whole: Limits, asked: Limits) -> Next<'_> {
        let Some(failure) = self.known(&whole) else {
            return Next::Try(whole);
        };
        // Of all failures that the box repeats, the smallest estimate is the one that holds.
        let estimate = self
            .failed
            .iter()
            .filter(|failure| whole.cover(&failure.limits))
            .filter_map(|failure| failure.longest)
            .min();
        if let Some(longest) = estimate {
            let capped = whole.capped(longest);
            if capped.cover(&asked) && self.known(&capped).is_none() {
                return Next::Try(capped);
            }
            if failure.cause == "length_limit" && longest < asked.total {
                return Next::Hopeless(failure);
            }
        }
        match self.known(&asked) {
            None => Next::Try(asked),
            Some(failure) => Next::Hopeless(failure),
        }
    }

    /// The failure that a start with these limits would repeat: needing less failed already.
    fn known(&self, limits: &Limits) -> Option<&StartFailure> {
        self.failed.iter().find(|failure| limits.cover(&failure.limits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(input: u64, output: u64) -> Limits {
        Limits {
            input,
            output,
            total: input + output,
            concurrency: 1,
        }
    }

    fn failure(limits: Limits, cause: &str, longest: Option<u64>) -> StartFailure {
        StartFailure {
            limits,
            cause: cause.into(),
            longest,
            evidence: Evidence::default(),
        }
    }

    #[test]
    fn the_box_comes_first_then_the_estimate_then_the_point() {
        let (whole, asked) = (limits(8000, 8000), limits(100, 100));
        let mut starts = Starts::default();
        assert_eq!(starts.next(whole, asked), Next::Try(whole));
        starts.remember(failure(whole, "memory", Some(5000)));
        let capped = whole.capped(5000);
        assert_eq!(starts.next(whole, asked), Next::Try(capped));
        starts.remember(failure(capped, "memory", None));
        assert_eq!(starts.next(whole, asked), Next::Try(asked));
        starts.remember(failure(asked, "memory", None));
        assert!(matches!(starts.next(whole, asked), Next::Hopeless(_)));
    }

    #[test]
    fn an_estimate_below_the_point_is_no_help_for_it() {
        let (whole, asked) = (limits(8000, 8000), limits(6000, 100));
        let mut starts = Starts::default();
        starts.remember(failure(whole, "memory", Some(5000)));
        assert_eq!(starts.next(whole, asked), Next::Try(asked));
    }

    #[test]
    fn more_than_what_failed_is_not_tried_and_less_is() {
        let mut starts = Starts::default();
        starts.remember(failure(limits(1000, 1000), "memory", None));
        let harder = limits(2000, 1000);
        assert!(matches!(starts.next(harder, harder), Next::Hopeless(_)));
        let easier = limits(900, 1000);
        assert_eq!(starts.next(easier, easier), Next::Try(easier));
    }

    #[test]
    fn a_length_limit_is_final_beyond_it() {
        let whole = limits(8000, 8000);
        let mut starts = Starts::default();
        starts.remember(failure(whole, "length_limit", Some(4096)));
        assert_eq!(starts.next(whole, limits(1000, 1000)), Next::Try(whole.capped(4096)));
        let beyond = limits(4000, 1000);
        assert!(matches!(starts.next(whole, beyond), Next::Hopeless(failure) if failure.cause == "length_limit"));
    }
}
