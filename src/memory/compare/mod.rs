//! Compares measured memory with estimates from elsewhere: differences, implausible figures, and the assumptions that
//! explain a difference.
//!
//! An [`ExternalEstimate`] comes from a calculator, another tool or another run; [`Comparison`] compares it with a
//! measured breakdown. Differences are estimate minus measured, relative to the measured value, so that an estimate
//! that is too high is positive.

mod explain;
mod external_estimate;

pub use explain::Explanation;
pub use external_estimate::{ExternalEstimate, Facts, Implausible, implausible};

use serde::{Serialize, Serializer};

use crate::fmt::GIB;
use crate::memory::{Breakdown, Component};

/// What a figure of an estimate stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    /// The model's parameters.
    Weights,
    /// KV cache without further detail. Compared with the KV cache in use if that is known, else with the pool.
    Kv,
    /// The reserved KV cache.
    KvPool,
    /// The KV cache in use.
    KvUsed,
    /// What a forward pass needs beyond weights and KV cache.
    Activations,
    /// Captured CUDA graphs.
    CudaGraphs,
    /// CUDA context, libraries, communication buffers.
    RuntimeContext,
    /// Everything but weights, KV cache and activations: CUDA graphs, runtime context, and what is unexplained.
    Overhead,
    /// All memory of the engine.
    Total,
}

/// The terms in display order: the name in JSON and on the command line, and the component that it stands for.
const TERMS: [(Term, &str, Option<Component>); 9] = [
    (Term::Weights, "weights", Some(Component::Weights)),
    (Term::Kv, "kv", None),
    (Term::KvPool, "kv_pool", Some(Component::KvPool)),
    (Term::KvUsed, "kv_used", Some(Component::KvUsed)),
    (Term::Activations, "activations", Some(Component::Activations)),
    (Term::CudaGraphs, "cuda_graphs", Some(Component::CudaGraphs)),
    (Term::RuntimeContext, "runtime_context", Some(Component::RuntimeContext)),
    (Term::Overhead, "overhead", None),
    (Term::Total, "total", None),
];

impl Term {
    /// Every term with its name, in display order.
    pub(super) fn all() -> impl Iterator<Item = (Term, &'static str)> {
        TERMS.into_iter().map(|(term, name, _)| (term, name))
    }

    /// The name in JSON and on the command line.
    pub fn name(self) -> &'static str {
        TERMS[self as usize].1
    }

    /// The term of a component; `None` for other tenants and for what is unexplained.
    pub fn from_component(component: Component) -> Option<Self> {
        let term = TERMS.iter().find(|(.., of)| *of == Some(component));
        term.map(|(term, ..)| *term)
    }

    /// The bytes of this term in a breakdown, and what they cover, for people. `listed` are the terms with figures of
    /// their own.
    pub(super) fn measured(self, breakdown: &Breakdown, listed: &[Term]) -> Option<(i64, String)> {
        let part = |component: Component| {
            let part = breakdown.part(component)?;
            Some((part.bytes, part.provenance.to_string()))
        };
        match self {
            Term::Kv => {
                let used = part(Component::KvUsed).map(|(bytes, from)| (bytes, format!("KV used, {from}")));
                let pool = || part(Component::KvPool).map(|(bytes, from)| (bytes, format!("KV pool, {from}")));
                used.or_else(pool)
            }
            Term::Overhead => {
                let parts = [Component::CudaGraphs, Component::RuntimeContext, Component::Unexplained];
                let counted = parts.into_iter().filter(|component| {
                    Term::from_component(*component).is_none_or(|term| !listed.contains(&term))
                        && breakdown.part(*component).is_some()
                });
                let counted: Vec<Component> = counted.collect();
                let bytes = counted
                    .iter()
                    .filter_map(|component| breakdown.part(*component))
                    .map(|part| part.bytes);
                let names: Vec<_> = counted.iter().map(|component| component.title()).collect();
                Some((bytes.sum(), names.join(" + ")))
            }
            Term::Total => {
                let others = breakdown.part(Component::OtherTenants).map_or(0, |part| part.bytes);
                let total = i64::try_from(breakdown.total).ok()?;
                let what = if others == 0 {
                    "all in use"
                } else {
                    "all in use less other tenants"
                };
                Some((total - others, what.to_owned()))
            }
            _ => part(TERMS[self as usize].2?),
        }
    }
}

impl Serialize for Term {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One term on both sides, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TermComparison {
    /// The term.
    pub term: Term,
    /// The measured value; `None` if unknown.
    pub measured: Option<i64>,
    /// What the measured value covers and where it comes from, for people.
    pub measured_as: Option<String>,
    /// The estimate; `None` if it has no such term.
    pub said: Option<i64>,
    /// Estimate minus measured.
    pub difference: Option<i64>,
    /// The difference in per cent of the measured value; `None` if nothing was measured or the value is not positive.
    pub percent: Option<f64>,
}

/// Units that may follow a number, longest first, and their bytes.
const UNITS: [(&str, f64); 13] = [
    ("kib", 1024.0),
    ("mib", GIB / 1024.0),
    ("gib", GIB),
    ("tib", GIB * 1024.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
    ("b", 1.0),
    ("k", 1e3),
    ("m", 1e6),
    ("g", 1e9),
    ("t", 1e12),
];

/// Parses a size (`13.5GB`, `600 MiB`, `20G`, `80`): the number, and the bytes of its unit if there is one. `None` for
/// anything else.
pub fn size(text: &str) -> Option<(f64, Option<f64>)> {
    let text = text.to_ascii_lowercase();
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
    let number = unit.and_then(|(unit, _)| text.strip_suffix(unit)).unwrap_or(&text);
    let value: f64 = number.trim().parse().ok()?;
    value.is_finite().then_some((value, unit.map(|(_, bytes)| *bytes)))
}

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
