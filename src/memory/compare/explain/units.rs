//! GB (10^9 bytes) mistaken for GiB or the reverse: 7.4 % on everything.

use super::{Case, Explanation, ratio};
use crate::memory::compare::Term;

const GIB_PER_GB: f64 = 1.073_741_824;

/// Two decimals of a GiB are about this much of a small model.
const TOLERANCE: f64 = 0.004;

pub(super) fn explain(case: &Case<'_>) -> Option<Explanation> {
    [Term::Weights, Term::Total].into_iter().find_map(|term| {
        let (said, measured) = case.both(term)?;
        let factor = ratio(said, measured);
        let (read, is) = if (factor / GIB_PER_GB - 1.0).abs() <= TOLERANCE {
            ("GiB", "GB (10^9 bytes)")
        } else if (factor * GIB_PER_GB - 1.0).abs() <= TOLERANCE {
            ("GB (10^9 bytes)", "GiB")
        } else {
            return None;
        };
        Some(Explanation {
            about: term.name(),
            assumption: "gb_gib",
            text: format!(
                "{} of {said} bytes are {factor:.4} times the {measured} measured, the ratio of a GiB to a GB: a figure in {is} was read as {read}",
                term.name()
            ),
        })
    })
}
