//! Compares measured memory with estimates from elsewhere: differences, implausible figures, and the assumptions that
//! explain a difference.
//!
//! An [`ExternalEstimate`] comes from a calculator, another tool or another run; [`EstimateComparison`] compares it with a
//! measured breakdown. Differences are estimate minus measured, relative to the measured value, so that an estimate
//! that is too high is positive.

mod explain;
mod ours;

use profiler_search::error::name_hint;
use serde::{Serialize, Serializer};

pub use explain::Explanation;
pub use ours::{model_facts, our_estimate};

use crate::fault::{Fault, Result};
use crate::fmt::{GIB, Gib};
use crate::memory::{Breakdown, Component, Provenance};

/// The meaning of a figure in an estimate.
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
    /// Memory of a forward pass beyond weights and KV cache.
    Activations,
    /// Captured CUDA graphs.
    CudaGraphs,
    /// CUDA context, libraries, communication buffers.
    RuntimeContext,
    /// Everything but weights, KV cache and activations: CUDA graphs, runtime context, and the unexplained remainder.
    Overhead,
    /// All memory of the engine.
    Total,
}

/// The terms in display order: the name in JSON and on the command line, and the corresponding component.
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

    /// The term of a component; `None` for other tenants and for the unexplained remainder.
    pub fn from_component(component: Component) -> Option<Self> {
        let term = TERMS.iter().find(|(.., of)| *of == Some(component));
        term.map(|(term, ..)| *term)
    }

    /// By how many per cent of the measured value an estimate of this term may be expected to differ: LLM-sizer's table.
    pub fn expected_variance(self) -> f64 {
        match self {
            Term::Weights => 2.0,
            Term::Total => 10.0,
            Term::Kv | Term::KvPool | Term::KvUsed => 15.0,
            Term::Activations => 30.0,
            Term::CudaGraphs | Term::RuntimeContext | Term::Overhead => 40.0,
        }
    }

    /// The bytes of this term in a breakdown and a description of what they cover, for people. `listed` are the terms
    /// with their own figures.
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
                let counted: Vec<Component> = parts
                    .into_iter()
                    .filter(|component| {
                        Term::from_component(*component).is_none_or(|term| !listed.contains(&term))
                            && breakdown.part(*component).is_some()
                    })
                    .collect();
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

/// How near an estimate of a term is to the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Within the term's expected variance.
    Good,
    /// Within twice the expected variance.
    Fair,
    /// Beyond it.
    Poor,
}

impl Mark {
    fn new(term: Term, percent: f64) -> Self {
        match percent.abs() / term.expected_variance() {
            within if within <= 1.0 => Self::Good,
            within if within <= 2.0 => Self::Fair,
            _ => Self::Poor,
        }
    }

    /// For people; by words as well, since colours and signs are lost in a log.
    pub fn text(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Fair => "fair",
            Self::Poor => "poor",
        }
    }
}

/// One term on both sides, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TermComparison {
    /// The term.
    pub term: Term,
    /// The measured value; `None` if unknown.
    pub measured: Option<i64>,
    /// Coverage and source of the measured value, for people.
    pub measured_as: Option<String>,
    /// The estimate; `None` if it has no such term.
    pub said: Option<i64>,
    /// Estimate minus measured.
    pub difference: Option<i64>,
    /// The difference in per cent of the measured value; `None` if nothing was measured or the value is not positive.
    pub percent: Option<f64>,
    /// How near that is, by the term's expected variance.
    pub mark: Option<Mark>,
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
pub struct EstimateComparison {
    /// The terms of either side.
    pub rows: Vec<TermComparison>,
    /// The assumptions that explain the differences.
    pub explanations: Vec<Explanation>,
}

impl EstimateComparison {
    /// Compares the two sides. `facts` describes model and settings on the measured side.
    pub fn new(measured: &Breakdown, facts: &ModelFacts, external: &ExternalEstimate) -> Self {
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
    // Add terms that only the measured side has, unless a coarser listed term covers them.
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
    // Only an estimate that includes the remainder makes a statement about the total.
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

/// The measured value that `kv` would have if it meant this term.
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
        mark: percent.map(|percent| Mark::new(term, percent)),
    }
}

/// An external estimate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ExternalEstimate {
    /// The source, for people.
    pub by: String,
    /// Bytes of each term; each term occurs once.
    pub figures: Vec<(Term, i64)>,
    /// Facts about model and settings from the source.
    pub facts: ModelFacts,
    /// Notes on how the figures were read.
    pub notes: Vec<String>,
}

impl ExternalEstimate {
    /// Reads figures given by hand: `weights=13.5,kv=0.4,activations=0.9,overhead=600MiB`. A figure without a unit is
    /// in GiB.
    ///
    /// # Errors
    ///
    /// `usage` with the accepted forms.
    pub fn parse(text: &str) -> Result<Self> {
        let mut figures: Vec<(Term, i64)> = Vec::new();
        let mut read = Vec::new();
        for part in text.split(',') {
            let (name, figure) = part.split_once('=').ok_or_else(|| {
                Fault::usage(format!("`{part}` is not `component=size`")).hint(
                    "write weights=13.5,kv=0.4,activations=0.9,overhead=0.6; GiB unless a unit follows, such as 13.5GB",
                )
            })?;
            let term = term(name.trim())?;
            if figures.iter().any(|(known, _)| *known == term) {
                return Err(Fault::usage(format!("`{}` is given twice", term.name())));
            }
            let (bytes, bare) =
                self::figure(figure.trim()).map_err(|fault| fault.while_doing(format!("`{}`", term.name())))?;
            figures.push((term, bytes));
            if bare {
                read.push(term.name());
            }
        }
        figures.sort_by_key(|(term, _)| *term);
        let notes = match read[..] {
            [] => Vec::new(),
            _ => vec![format!("figures without a unit are read as GiB: {}", read.join(", "))],
        };
        Ok(Self {
            by: "figures given by hand".to_owned(),
            figures,
            facts: ModelFacts::default(),
            notes,
        })
    }

    /// The figures of a breakdown: an estimate, or the measurement of another tool.
    pub fn from_breakdown(by: impl Into<String>, breakdown: &Breakdown, facts: ModelFacts) -> Self {
        let known = breakdown
            .parts
            .iter()
            .filter_map(|part| Some((Term::from_component(part.component)?, part.bytes)));
        let mut figures: Vec<(Term, i64)> = known.collect();
        // The remainder counts as overhead only if no figure names it more precisely.
        let named = [Term::CudaGraphs, Term::RuntimeContext];
        let closer = figures.iter().any(|(term, _)| named.contains(term));
        if !closer && breakdown.unexplained() != 0 {
            figures.push((Term::Overhead, breakdown.unexplained()));
        }
        if let Some((total, _)) = Term::Total.measured(breakdown, &[]) {
            figures.push((Term::Total, total));
        }
        figures.sort_by_key(|(term, _)| *term);
        let assumed = breakdown
            .parts
            .iter()
            .filter(|part| part.provenance == Provenance::Assumed)
            .map(|part| format!("{} is an assumption: {}", part.component, part.source));
        Self {
            by: by.into(),
            figures,
            facts,
            notes: assumed.collect(),
        }
    }

    /// The figure of a term.
    pub fn figure(&self, term: Term) -> Option<i64> {
        self.figures
            .iter()
            .find(|(known, _)| *known == term)
            .map(|(_, bytes)| *bytes)
    }

    /// The KV cache in use, else KV cache without further detail, else the pool.
    pub(super) fn kv(&self) -> Option<(Term, i64)> {
        let terms = [Term::KvUsed, Term::Kv, Term::KvPool];
        terms.into_iter().find_map(|term| Some((term, self.figure(term)?)))
    }
}

fn term(name: &str) -> Result<Term> {
    let known = Term::all().find(|(_, known)| *known == name);
    known.map(|(term, _)| term).ok_or_else(|| {
        let names: Vec<&str> = Term::all().map(|(_, name)| name).collect();
        let hint = name_hint(name, &names, "the components");
        Fault::usage(format!("there is no component `{name}`")).hint(hint)
    })
}

/// Bytes of a figure (GiB without a unit), and whether the unit is missing.
fn figure(text: &str) -> Result<(i64, bool)> {
    let wrong = |why: &str| {
        Fault::usage(format!("`{text}` is no size: {why}"))
            .hint("write a number of GiB, or one with a unit: 13.5, 13.5GiB, 13.5GB, 600MiB")
    };
    let (value, unit) = size(text).ok_or_else(|| wrong("it is not a number with a unit"))?;
    let bytes = value * unit.unwrap_or(GIB);
    if !(0.0..=9e15).contains(&bytes) {
        return Err(wrong("it must be zero or more, and less than any cluster has"));
    }
    Ok((bytes.round() as i64, unit.is_none()))
}

impl std::fmt::Display for ExternalEstimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let figures = self
            .figures
            .iter()
            .map(|(term, bytes)| format!("{} {}", term.name(), Gib(*bytes)));
        write!(f, "{}: {}", self.by, figures.collect::<Vec<_>>().join(", "))
    }
}

/// Defines [`ModelFacts`], and how one side completes the other.
macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// Known facts about the model and the settings. `None` means unknown.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct ModelFacts {
            $($(#[$doc])* pub $name: Option<$type>,)*
        }

        impl ModelFacts {
            /// These facts, completed by those of `other`.
            pub fn or(&self, other: &Self) -> Self {
                Self {
                    $($name: self.$name.clone().or_else(|| other.$name.clone()),)*
                }
            }
        }
    };
}

facts! {
    /// Parameters of the model.
    parameters: f64,
    /// Layers.
    layers: u64,
    /// Query heads.
    heads: u64,
    /// Key/value heads.
    kv_heads: u64,
    /// Elements per head.
    head_dim: u64,
    /// Elements of a hidden state.
    hidden_size: u64,
    /// Data type of the weights, as the source names it.
    weight_dtype: String,
    /// Data type of the KV cache, as the source names it.
    kv_dtype: String,
    /// Quantization of the weights, as the source names it.
    quantization: String,
    /// Tensor-parallel size.
    tensor_parallel: u64,
    /// Input tokens per sequence.
    input: u64,
    /// Output tokens per sequence.
    output: u64,
    /// Concurrent sequences.
    concurrency: u64,
    /// Tokens of one prefill step.
    prefill_chunk: u64,
    /// Tokens that the KV cache in use holds: input and output of all sequences.
    tokens: u64,
    /// Tokens that the KV pool can hold.
    kv_tokens: u64,
    /// Bytes of the devices.
    capacity: i64,
}

impl ModelFacts {
    /// These facts with `tokens` computed, if the lengths are known.
    pub fn counted(mut self) -> Self {
        if let (None, Some(input), Some(output)) = (self.tokens, self.input, self.output) {
            let each = input.saturating_add(output);
            self.tokens = Some(each.saturating_mul(self.concurrency.unwrap_or(1)));
        }
        self
    }
}

/// Bytes. With more in use before the start, the growth says little about the engine. LLM-sizer's own validation
/// fails there too.
const FULL_BASELINE: i64 = 5_000_000_000;

/// The tolerated excess of the parts over the total, as a share of it. Figures have two decimals, and readings are not
/// simultaneous.
const SLACK: f64 = 0.02;

/// An implausible figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Implausible {
    /// `weights_above_peak`, `baseline_full`, `parts_exceed_whole`, `above_capacity`, `nothing_measured`.
    pub name: &'static str,
    /// The figures, and why they cannot be right.
    pub text: String,
}

/// The implausible figures of a breakdown.
pub fn implausible(breakdown: Option<&Breakdown>, facts: &ModelFacts) -> Vec<Implausible> {
    let Some(breakdown) = breakdown else { return Vec::new() };
    let peak = i64::try_from(breakdown.total).unwrap_or(i64::MAX);
    let part = |component| breakdown.part(component).map_or(0, |part| part.bytes);
    let (weights, baseline) = (part(Component::Weights), part(Component::OtherTenants));
    let unexplained = breakdown.unexplained();
    let capacity = facts.capacity.filter(|capacity| *capacity > 0).unwrap_or(i64::MAX);
    let [total, parts, most] = [peak, peak.saturating_sub(unexplained), capacity].map(Gib);
    let all = [
        (
            weights > peak,
            "weights_above_peak",
            format!("the weights, {}, are more than the whole peak, {total}", Gib(weights)),
        ),
        (
            baseline > FULL_BASELINE,
            "baseline_full",
            format!(
                "{} were in use by other processes before the start: the engine's memory cannot be separated from theirs",
                Gib(baseline)
            ),
        ),
        (
            -unexplained as f64 > SLACK * (peak as f64),
            "parts_exceed_whole",
            format!("the parts add up to {parts}, and only {total} were in use"),
        ),
        (
            peak > capacity,
            "above_capacity",
            format!("{total} in use are more than the device's {most}"),
        ),
        (
            peak == 0,
            "nothing_measured",
            "nothing was in use at all: the device was idle, or could not be read".to_owned(),
        ),
    ];
    let wrong = all.into_iter().filter(|(is_wrong, ..)| *is_wrong);
    wrong.map(|(_, name, text)| Implausible { name, text }).collect()
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
        let comparison = EstimateComparison::new(&measured(), &ModelFacts::default(), &said);
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
            let said = ExternalEstimate::from_breakdown("itself", &breakdown, ModelFacts::default());
            let comparison = EstimateComparison::new(&breakdown, &ModelFacts::default(), &said);
            prop_assert!(comparison.rows.iter().all(|row| row.difference.is_none_or(|difference| difference == 0)));
            prop_assert!(comparison.explanations.is_empty(), "{:?}", comparison.explanations);
        }
    }
}

#[cfg(test)]
mod external_estimate_tests {
    use super::*;

    #[test]
    fn figures_are_gib_unless_a_unit_follows() {
        let external = ExternalEstimate::parse("weights=13.5, kv=0.4GB,overhead=600 MiB").unwrap();
        assert_eq!(external.figure(Term::Weights), Some(14_495_514_624));
        assert_eq!(external.figure(Term::Kv), Some(400_000_000));
        assert_eq!(external.figure(Term::Overhead), Some(600 << 20));
        assert_eq!(external.notes, ["figures without a unit are read as GiB: weights"]);
        assert!(ExternalEstimate::parse("kv=0.4GB").unwrap().notes.is_empty());
    }

    #[test]
    fn what_is_no_figure_is_refused_with_what_can_be_written() {
        let refused = |text: &str| ExternalEstimate::parse(text).unwrap_err();
        assert_eq!(refused("weigths=1").hint.as_deref(), Some("did you mean `weights`?"));
        for text in [
            "weights",
            "weights=x",
            "weights=-1",
            "weights=NaN",
            "weights=inf",
            "weights=1e30",
            "kv=1,kv=2",
            "",
        ] {
            let _ = refused(text);
        }
    }
}

#[cfg(test)]
mod plausible_tests {
    use super::*;
    use crate::memory::{Part, Provenance};

    const GIB: i64 = 1 << 30;

    fn names(total: i64, parts: &[(Component, i64)], facts: &ModelFacts) -> Vec<&'static str> {
        let part = |(component, bytes): &(Component, i64)| Part {
            component: *component,
            bytes: *bytes,
            provenance: Provenance::Measured,
            source: String::new(),
            within: None,
        };
        let parts = parts.iter().map(part).collect();
        let breakdown = Breakdown::new(None, u64::try_from(total).unwrap(), parts).unwrap();
        let found = implausible(Some(&breakdown), facts);
        found.iter().map(|found| found.name).collect()
    }

    #[test]
    fn what_can_be_passes() {
        let parts = [(Component::Weights, 15 * GIB), (Component::OtherTenants, GIB)];
        assert!(names(20 * GIB, &parts, &ModelFacts::default()).is_empty());
        // Two decimals of each part may add up to a little more.
        let parts = [
            (Component::Weights, 15 * GIB),
            (Component::Activations, 5 * GIB + GIB / 10),
        ];
        assert!(names(20 * GIB, &parts, &ModelFacts::default()).is_empty());
        assert!(implausible(None, &ModelFacts::default()).is_empty());
    }

    #[test]
    fn what_cannot_be_is_named() {
        let full = [(Component::OtherTenants, 5 * GIB)];
        assert_eq!(names(20 * GIB, &full, &ModelFacts::default()), ["baseline_full"]);
        let parts = [(Component::Weights, 15 * GIB), (Component::KvPool, 6 * GIB)];
        assert_eq!(names(20 * GIB, &parts, &ModelFacts::default()), ["parts_exceed_whole"]);
        assert_eq!(names(0, &[], &ModelFacts::default()), ["nothing_measured"]);
        let small = ModelFacts {
            capacity: Some(16 * GIB),
            ..ModelFacts::default()
        };
        assert_eq!(names(20 * GIB, &[], &small), ["above_capacity"]);
    }
}
