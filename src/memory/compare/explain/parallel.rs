//! One rank compared with all ranks: the division by the tensor-parallel size is missing on one side.

use super::{Case, Explanation, near, ratio};
use crate::memory::compare::{Gib, Term};

pub(super) fn explain(case: &Case<'_>) -> Vec<Explanation> {
    let Some(ranks) = case.facts.tensor_parallel.filter(|ranks| *ranks > 1) else {
        return Vec::new();
    };
    let times = ranks as f64;
    [Term::Weights, Term::Kv, Term::KvPool, Term::KvUsed]
        .into_iter()
        .filter_map(|term| {
            let (said, measured) = case.both(term)?;
            let factor = ratio(said, measured);
            let what = if near(factor, 1.0 / times) {
                "the estimate is for one rank, the measurement for all"
            } else if near(factor, times) {
                "the estimate is for all ranks, or a whole copy on each, and the measurement for one rank"
            } else {
                return None;
            };
            Some(Explanation {
                about: term.name(),
                assumption: "tensor_parallel",
                text: format!(
                    "{} of {} are {factor:.2} times the {} measured, and {ranks} ranks share the model: {what}",
                    term.name(),
                    Gib(said),
                    Gib(measured)
                ),
            })
        })
        .collect()
}
