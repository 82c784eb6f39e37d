//! Finds the assumption that explains a difference. Each rule states its figures; if none fits, nothing is reported.

mod kv;
mod overhead;
mod parallel;
mod units;
mod weights;

use serde::Serialize;

use super::{ExternalEstimate, Facts, Term, TermComparison};
use crate::memory::Breakdown;

/// Tolerance of a ratio: allocators round, and tables do not count every tensor.
const TOLERANCE: f64 = 0.05;

/// A wrong assumption, and what shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The name of the term.
    pub about: &'static str,
    /// The assumption in one word: `gqa`, `kv_dtype`, `kv_tokens`, `kv_pool`, `weight_dtype`, `gb_gib`,
    /// `pool_as_overhead`, `tensor_parallel`, `all_layers_at_once`.
    pub assumption: &'static str,
    /// The figures, what follows from them, and what to do.
    pub text: String,
}

/// A difference to explain.
pub(super) struct Case<'a> {
    pub(super) measured: &'a Breakdown,
    /// What the measured side knows about its settings.
    pub(super) measured_facts: &'a Facts,
    pub(super) external: &'a ExternalEstimate,
    /// What either side knows about the model.
    pub(super) facts: &'a Facts,
    pub(super) rows: &'a [TermComparison],
}

pub(super) fn all(case: &Case<'_>) -> Vec<Explanation> {
    let mut found = Vec::new();
    found.extend(weights::explain(case));
    found.extend(kv::explain(case));
    found.extend(overhead::explain(case));
    found.extend(parallel::explain(case));
    found.extend(units::explain(case));
    found
}

impl Case<'_> {
    /// The estimate and the measured value of a term, if both are above zero.
    fn both(&self, term: Term) -> Option<(i64, i64)> {
        let row = self.rows.iter().find(|row| row.term == term)?;
        let (said, measured) = (row.said?, row.measured?);
        (said > 0 && measured > 0).then_some((said, measured))
    }
}

/// `a` divided by `b`.
fn ratio(a: i64, b: i64) -> f64 {
    a as f64 / b as f64
}

/// Whether a ratio is within the tolerance of the expected one.
fn near(ratio: f64, expected: f64) -> bool {
    (ratio / expected - 1.0).abs() <= TOLERANCE
}

#[cfg(test)]
mod tests;
