//! A measured breakdown and a claim, side by side.

use serde::Serialize;

use super::{Claim, Explanation, Facts, Term, explain};
use crate::memory::Breakdown;

/// One term on both sides. Bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is of.
    pub term: Term,
    /// What was measured; none where nothing is known of it.
    pub measured: Option<i64>,
    /// What the measured figure is of, and where it is from, for people.
    pub measured_as: Option<String>,
    /// What is said; none where nothing is said of it.
    pub said: Option<i64>,
    /// Said less measured.
    pub difference: Option<i64>,
    /// The difference relative to the measured, in hundredths; none where nothing was measured, or nothing is there.
    pub percent: Option<f64>,
}

/// A measured breakdown beside a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The terms of either side.
    pub rows: Vec<Row>,
    /// Which assumptions explain the differences.
    pub explanations: Vec<Explanation>,
}

impl Comparison {
    /// Compares. `facts` is what is known of model and setting on the measured side.
    #[must_use]
    pub fn new(measured: &Breakdown, facts: &Facts, claim: &Claim) -> Self {
        let rows = rows(measured, claim);
        let explanations = explain::all(&explain::Case {
            measured,
            measured_facts: facts,
            claim,
            facts: &facts.or(&claim.facts),
            rows: &rows,
        });
        Self { rows, explanations }
    }

    /// The row of a term.
    #[must_use]
    pub fn row(&self, term: Term) -> Option<&Row> {
        self.rows.iter().find(|row| row.term == term)
    }

    /// The rows that differ by more than so many hundredths. What was measured as nothing and is said to be something does.
    #[must_use]
    pub fn beyond(&self, percent: f64) -> Vec<&Row> {
        let beyond = |row: &&Row| match (row.percent, row.difference) {
            (Some(apart), _) => apart.abs() > percent,
            (None, Some(difference)) => difference != 0,
            (None, None) => false,
        };
        self.rows.iter().filter(beyond).collect()
    }
}

fn rows(measured: &Breakdown, claim: &Claim) -> Vec<Row> {
    let apart: Vec<Term> = claim.figures.iter().map(|(term, _)| *term).collect();
    let mut rows: Vec<Row> = Vec::new();
    for (term, said) in &claim.figures {
        rows.push(row(*term, term.measured(measured, &apart), Some(*said)));
    }
    // What only the measured side has. A word that covers it is enough.
    let covers = |term: Term| match term {
        Term::KvPool | Term::KvUsed => {
            apart.contains(&Term::Kv) && Term::Kv.measured(measured, &[]) == as_kv(term, measured)
        }
        Term::CudaGraphs | Term::RuntimeContext => apart.contains(&Term::Overhead),
        _ => false,
    };
    for part in &measured.parts {
        if let Some(term) = Term::of(part.component)
            && !apart.contains(&term)
            && !covers(term)
        {
            rows.push(row(term, term.measured(measured, &apart), None));
        }
    }
    // Only a claim that names what is left over says something of the whole.
    let whole = [Term::Overhead, Term::RuntimeContext];
    if !apart.contains(&Term::Total) && apart.contains(&Term::Weights) && whole.iter().any(|term| apart.contains(term))
    {
        let pool = apart.contains(&Term::KvPool);
        let counted = claim
            .figures
            .iter()
            .filter(|(term, _)| !(pool && *term == Term::KvUsed));
        let total = counted.map(|(_, bytes)| *bytes).sum();
        rows.push(row(Term::Total, Term::Total.measured(measured, &apart), Some(total)));
    }
    rows.sort_by_key(|row| row.term);
    rows
}

/// What a term of the KV cache would be under the name of KV cache alone.
fn as_kv(term: Term, measured: &Breakdown) -> Option<(i64, String)> {
    let (bytes, from) = term.measured(measured, &[])?;
    let name = if term == Term::KvUsed { "KV used" } else { "KV pool" };
    Some((bytes, format!("{name}, {from}")))
}

fn row(term: Term, measured: Option<(i64, String)>, said: Option<i64>) -> Row {
    let (measured, measured_as) = measured.unzip();
    let difference = said.zip(measured).map(|(said, measured)| said - measured);
    let percent = match (difference, measured) {
        (Some(0), Some(_)) => Some(0.0),
        // Relative to less than nothing, no sign would be right.
        (Some(difference), Some(measured)) if measured > 0 => Some(100.0 * difference as f64 / measured as f64),
        _ => None,
    };
    Row {
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

    fn claim(figures: &[(Term, i64)]) -> Claim {
        Claim {
            figures: figures.to_vec(),
            ..Claim::default()
        }
    }

    #[test]
    fn too_high_is_above_zero_and_relative_to_the_measured() {
        let said = claim(&[(Term::Weights, 1500), (Term::Kv, 50), (Term::Overhead, 230)]);
        let comparison = Comparison::new(&measured(), &Facts::default(), &said);
        let percent = |term| comparison.row(term).unwrap().percent.unwrap();
        assert!((percent(Term::Weights) - 50.0).abs() < 1e-9);
        assert!(
            (percent(Term::Kv) + 50.0).abs() < 1e-9,
            "beside what is in use, not the pool"
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
        let beyond: Vec<Term> = comparison.beyond(10.0).iter().map(|row| row.term).collect();
        assert_eq!(beyond, [Term::Weights, Term::Kv]);
    }

    #[test]
    fn something_beside_nothing_is_beyond_any_threshold() {
        let parts = vec![part(Component::Activations, 0, None)];
        let nothing = Breakdown::new(None, 0, parts).unwrap();
        let comparison = Comparison::new(&nothing, &Facts::default(), &claim(&[(Term::Activations, 5)]));
        assert_eq!(comparison.row(Term::Activations).unwrap().percent, None);
        assert_eq!(comparison.beyond(1e9).len(), 1);
        let equal = Comparison::new(&nothing, &Facts::default(), &claim(&[(Term::Activations, 0)]));
        assert!(equal.beyond(0.0).is_empty());
    }

    proptest! {
        #[test]
        fn a_breakdown_beside_itself_differs_nowhere(weights in 0..1_i64 << 40, pool in 0..1_i64 << 40, rest in 0..1_i64 << 30) {
            let parts = vec![part(Component::Weights, weights, None), part(Component::KvPool, pool, None)];
            let total = u64::try_from(weights + pool + rest).unwrap();
            let breakdown = Breakdown::new(None, total, parts).unwrap();
            let said = Claim::of("itself", &breakdown, Facts::default());
            let comparison = Comparison::new(&breakdown, &Facts::default(), &said);
            prop_assert!(comparison.beyond(0.0).is_empty());
            prop_assert!(comparison.explanations.is_empty(), "{:?}", comparison.explanations);
        }
    }
}
