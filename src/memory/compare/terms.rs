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

impl Term {
    /// Every term, in display order.
    pub const ALL: [Term; 9] = [
        Term::Weights,
        Term::Kv,
        Term::KvPool,
        Term::KvUsed,
        Term::Activations,
        Term::CudaGraphs,
        Term::RuntimeContext,
        Term::Overhead,
        Term::Total,
    ];

    /// The name in JSON and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Term::Weights => Component::Weights.name(),
            Term::Kv => "kv",
            Term::KvPool => Component::KvPool.name(),
            Term::KvUsed => Component::KvUsed.name(),
            Term::Activations => Component::Activations.name(),
            Term::CudaGraphs => Component::CudaGraphs.name(),
            Term::RuntimeContext => Component::RuntimeContext.name(),
            Term::Overhead => "overhead",
            Term::Total => "total",
        }
    }

    /// The term of a component; `None` for other tenants and for what is unexplained.
    pub fn from_component(component: Component) -> Option<Self> {
        Some(match component {
            Component::Weights => Term::Weights,
            Component::KvPool => Term::KvPool,
            Component::KvUsed => Term::KvUsed,
            Component::Activations => Term::Activations,
            Component::CudaGraphs => Term::CudaGraphs,
            Component::RuntimeContext => Term::RuntimeContext,
            Component::OtherTenants | Component::Unexplained => return None,
        })
    }

    /// The bytes of this term in a breakdown, and what they cover, for people. `listed` are the terms with figures of
    /// their own.
    pub(super) fn measured(self, breakdown: &Breakdown, listed: &[Term]) -> Option<(i64, String)> {
        let part = |component: Component| {
            let part = breakdown.part(component)?;
            Some((part.bytes, part.provenance.to_string()))
        };
        match self {
            Term::Weights => part(Component::Weights),
            Term::Kv => {
                let used = part(Component::KvUsed).map(|(bytes, from)| (bytes, format!("KV used, {from}")));
                let pool = || part(Component::KvPool).map(|(bytes, from)| (bytes, format!("KV pool, {from}")));
                used.or_else(pool)
            }
            Term::KvPool => part(Component::KvPool),
            Term::KvUsed => part(Component::KvUsed),
            Term::Activations => part(Component::Activations),
            Term::CudaGraphs => part(Component::CudaGraphs),
            Term::RuntimeContext => part(Component::RuntimeContext),
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
const UNITS: [(&str, f64); 8] = [
    ("GiB", GIB),
    ("MiB", GIB / 1024.0),
    ("KiB", GIB / 1024.0 / 1024.0),
    ("TiB", GIB * 1024.0),
    ("GB", 1e9),
    ("MB", 1e6),
    ("TB", 1e12),
    ("B", 1.0),
];

/// Parses a size (`13.5GB`, `600 MiB`, `80`): the number, and the bytes of its unit if there is one. `None` for
/// anything else.
pub fn size(text: &str) -> Option<(f64, Option<f64>)> {
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
    let number = unit.map_or(text, |(unit, _)| &text[..text.len() - unit.len()]);
    let value: f64 = number.trim().parse().ok()?;
    value.is_finite().then_some((value, unit.map(|(_, bytes)| *bytes)))
}
