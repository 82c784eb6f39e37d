//! The terms of memory calculators: our components, and coarser ones; and the sizes they are written in.

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
