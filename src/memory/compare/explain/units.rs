//! 10^9 bytes taken for GiB, or the reverse: 7.4 % on everything.

use super::{Case, Explanation, ratio};
use crate::memory::compare::Term;

/// Bytes of a GiB in those of a GB.
const APART: f64 = 1.073_741_824;

/// How near a ratio must be: two decimals of a GiB are about this much of a small model.
const WITHIN: f64 = 0.004;

/// Weights or the total 7.4 % apart.
pub(super) fn explain(case: &Case<'_>) -> Option<Explanation> {
    [Term::Weights, Term::Total].into_iter().find_map(|term| {
        let (said, measured) = case.both(term)?;
        let apart = ratio(said, measured);
        let (read, is) = if (apart / APART - 1.0).abs() <= WITHIN {
            ("GiB", "GB (10^9 bytes)")
        } else if (apart * APART - 1.0).abs() <= WITHIN {
            ("GB (10^9 bytes)", "GiB")
        } else {
            return None;
        };
        Some(Explanation {
            about: term.name(),
            assumption: "gb_gib",
            text: format!(
                "{} of {said} bytes are {apart:.4} times the {measured} measured, as far apart as a GiB and a GB: a figure in {is} was read as {read}",
                term.name()
            ),
        })
    })
}
