//! A measured breakdown compared with an external estimate.

use serde::Serialize;

use super::explain::{self, Explanation};
use super::external_estimate::{ExternalEstimate, Facts};
use super::terms::{Term, TermComparison};
use crate::memory::Breakdown;

/// A measured breakdown compared with an external estimate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The terms of either side.
    pub rows: Vec<TermComparison>,
    /// The assumptions that explain the differences.
    pub explanations: Vec<Explanation>,
}

impl Comparison {
    /// Compares. `facts` is what is known about model and settings on the measured side.
    pub fn new(measured: &Breakdown, facts: &Facts, external: &ExternalEstimate) -> Self {
        let rows = rows(measured, external);
        let explanations = explain::all(&explain::Case {
            measured,
            measured_facts: facts,
            external,
            facts: &facts.or(&external.facts),
            rows: &rows,
        });
        Self { rows, explanations }
    }

    /// The row of a term.
    pub fn row(&self, term: Term) -> Option<&TermComparison> {
        self.rows.iter().find(|row| row.term == term)
    }
}

fn rows(measured: &Breakdown, external: &ExternalEstimate) -> Vec<TermComparison> {
    let listed: Vec<Term> = external.figures.iter().map(|(term, _)| *term).collect();
    let mut rows: Vec<TermComparison> = Vec::new();
    for (term, said) in &external.figures {
        rows.push(row(*term, term.measured(measured, &listed), Some(*said)));
    }
    // Terms that only the measured side has, unless a coarser listed term covers them.
    let covers = |term: Term| match term {
        Term::KvPool | Term::KvUsed => {
            listed.contains(&Term::Kv) && Term::Kv.measured(measured, &[]) == as_kv(term, measured)
        }
        Term::CudaGraphs | Term::RuntimeContext => listed.contains(&Term::Overhead),
        _ => false,
    };
    for part in &measured.parts {
        if let Some(term) = Term::from_component(part.component)
            && !listed.contains(&term)
            && !covers(term)
        {
            rows.push(row(term, term.measured(measured, &listed), None));
        }
    }
    // Only an estimate that includes the remainder says something about the total.
    let whole = [Term::Overhead, Term::RuntimeContext];
    if !listed.contains(&Term::Total)
        && listed.contains(&Term::Weights)
        && whole.iter().any(|term| listed.contains(term))
    {
        let pool = listed.contains(&Term::KvPool);
        let counted = external
            .figures
            .iter()
            .filter(|(term, _)| !(pool && *term == Term::KvUsed));
        let total = counted.map(|(_, bytes)| *bytes).sum();
        rows.push(row(Term::Total, Term::Total.measured(measured, &listed), Some(total)));
    }
    rows.sort_by_key(|row| row.term);
    rows
}

/// The measured value that `kv` would have if it stood for this term.
fn as_kv(term: Term, measured: &Breakdown) -> Option<(i64, String)> {
    let (bytes, from) = term.measured(measured, &[])?;
    let name = if term == Term::KvUsed { "KV used" } else { "KV pool" };
    Some((bytes, format!("{name}, {from}")))
}

fn row(term: Term, measured: Option<(i64, String)>, said: Option<i64>) -> TermComparison {
    let (measured, measured_as) = measured.unzip();
    let difference = said.zip(measured).map(|(said, measured)| said - measured);
    let percent = match (difference, measured) {
        (Some(0), Some(_)) => Some(0.0),
        // A percentage of a negative value would have a misleading sign.
        (Some(difference), Some(measured)) if measured > 0 => Some(100.0 * difference as f64 / measured as f64),
        _ => None,
    };
    TermComparison {
        term,
        measured,
        measured_as,
        said,
        difference,
        percent,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::memory::{Component, Part, Provenance};

    fn part(component: Component, bytes: i64, within: Option<Component>) -> Part {
        Part {
            component,
            bytes,
            provenance: Provenance::Measured,
            source: String::new(),
            within,
        }
    }

    fn measured() -> Breakdown {
        let parts = vec![
            part(Component::Weights, 1000, None),
            part(Component::KvPool, 500, None),
            part(Component::KvUsed, 100, Some(Component::KvPool)),
            part(Component::Activations, 200, None),
            part(Component::CudaGraphs, 30, None),
            part(Component::OtherTenants, 70, None),
        ];
        Breakdown::new(None, 2000, parts).unwrap()
    }

    fn external(figures: &[(Term, i64)]) -> ExternalEstimate {
        ExternalEstimate {
            figures: figures.to_vec(),
            ..ExternalEstimate::default()
        }
    }

    #[test]
    fn too_high_is_above_zero_and_relative_to_the_measured() {
        let said = external(&[(Term::Weights, 1500), (Term::Kv, 50), (Term::Overhead, 230)]);
        let comparison = Comparison::new(&measured(), &Facts::default(), &said);
        let percent = |term| comparison.row(term).unwrap().percent.unwrap();
        assert!((percent(Term::Weights) - 50.0).abs() < 1e-9);
        assert!(
            (percent(Term::Kv) + 50.0).abs() < 1e-9,
            "compared with what is in use, not the pool"
        );
        assert!(
            (percent(Term::Overhead)).abs() < 1e-9,
            "graphs and what is unexplained, without other tenants"
        );
        let total = comparison.row(Term::Total).unwrap();
        assert_eq!((total.measured, total.said), (Some(1930), Some(1780)));
        let activations = comparison.row(Term::Activations).unwrap();
        assert_eq!((activations.measured, activations.said), (Some(200), None));
        assert!(comparison.row(Term::KvPool).is_some() && comparison.row(Term::KvUsed).is_none());
    }

    proptest! {
        #[test]
        fn a_breakdown_does_not_differ_from_itself(weights in 0..1_i64 << 40, pool in 0..1_i64 << 40, rest in 0..1_i64 << 30) {
            let parts = vec![part(Component::Weights, weights, None), part(Component::KvPool, pool, None)];
            let total = u64::try_from(weights + pool + rest).unwrap();
            let breakdown = Breakdown::new(None, total, parts).unwrap();
            let said = ExternalEstimate::from_breakdown("itself", &breakdown, Facts::default());
            let comparison = Comparison::new(&breakdown, &Facts::default(), &said);
            prop_assert!(comparison.rows.iter().all(|row| row.difference.is_none_or(|difference| difference == 0)));
            prop_assert!(comparison.explanations.is_empty(), "{:?}", comparison.explanations);
        }
    }
}
