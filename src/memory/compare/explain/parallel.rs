//! One rank beside all of them: the division by the tensor-parallel size is missing on one side.

use super::{Case, Explanation, near, ratio};
use crate::memory::compare::{Gib, Term};

/// Weights or KV that differ by the number of ranks.
pub(super) fn explain(case: &Case<'_>) -> Vec<Explanation> {
    let Some(ranks) = case.facts.tensor_parallel.filter(|ranks| *ranks > 1) else {
        return Vec::new();
    };
    let times = ranks as f64;
    [Term::Weights, Term::Kv, Term::KvPool, Term::KvUsed]
        .into_iter()
        .filter_map(|term| {
            let (said, measured) = case.both(term)?;
            let apart = ratio(said, measured);
            let what = if near(apart, 1.0 / times) {
                "what is said is of one rank, what was measured of all"
            } else if near(apart, times) {
                "what is said is of all ranks, or one whole copy for each, and what was measured is of one rank"
            } else {
                return None;
            };
            Some(Explanation {
                about: term.name(),
                assumption: "tensor_parallel",
                text: format!(
                    "{} of {} are {apart:.2} times the {} measured, and {ranks} ranks share the model: {what}",
                    term.name(),
                    Gib(said),
                    Gib(measured)
                ),
            })
        })
        .collect()
}
