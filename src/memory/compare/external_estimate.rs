//! Memory figures from elsewhere: a calculator, an estimate, another tool's file, another run; and facts about model
//! and settings that explain differences. Figures that cannot be right are detected before anything is concluded from
//! them.

use serde::Serialize;

use super::{Term, size};
use crate::fault::{Fault, Result, name_hint};
use crate::fmt::{GIB, Gib};
use crate::memory::{Breakdown, Component, Provenance};

/// An external estimate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ExternalEstimate {
    /// The source, for people.
    pub by: String,
    /// Bytes of each term; a term comes once.
    pub figures: Vec<(Term, i64)>,
    /// What the source knows about model and settings.
    pub facts: Facts,
    /// How the figures were read.
    pub notes: Vec<String>,
}

impl ExternalEstimate {
    /// Reads figures given by hand: `weights=13.5,kv=0.4,activations=0.9,overhead=600MiB`. A figure without a unit is
    /// in GiB.
    ///
    /// # Errors
    ///
    /// `usage` with what can be written.
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
            facts: Facts::default(),
            notes,
        })
    }

    /// The figures of a breakdown: an estimate, or what another tool measured.
    pub fn from_breakdown(by: impl Into<String>, breakdown: &Breakdown, facts: Facts) -> Self {
        let known = breakdown
            .parts
            .iter()
            .filter_map(|part| Some((Term::from_component(part.component)?, part.bytes)));
        let mut figures: Vec<(Term, i64)> = known.collect();
        // The remainder stands for overhead only if nothing names it more precisely.
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
            .map(|part| format!("{} of what is said is assumed: {}", part.component, part.source));
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

/// The facts, and how one side completes the other.
macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// What is known about the model and the settings. `None` means unknown.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct Facts {
            $($(#[$doc])* pub $name: Option<$type>,)*
        }

        impl Facts {
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

impl Facts {
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

/// The share of the total by which parts may exceed it: figures have two decimals, and readings differ in time.
const SLACK: f64 = 0.02;

/// An implausible figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Implausible {
    /// `weights_above_peak`, `baseline_full`, `parts_exceed_whole`, `above_capacity`, `nothing_measured`.
    pub name: &'static str,
    /// The figures, and why they cannot be right.
    pub text: String,
}

/// What is implausible in a breakdown.
pub fn implausible(breakdown: Option<&Breakdown>, facts: &Facts) -> Vec<Implausible> {
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

    fn names(total: i64, parts: &[(Component, i64)], facts: &Facts) -> Vec<&'static str> {
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
        assert!(names(20 * GIB, &parts, &Facts::default()).is_empty());
        // Two decimals of each part may add up to a little more.
        let parts = [
            (Component::Weights, 15 * GIB),
            (Component::Activations, 5 * GIB + GIB / 10),
        ];
        assert!(names(20 * GIB, &parts, &Facts::default()).is_empty());
        assert!(implausible(None, &Facts::default()).is_empty());
    }

    #[test]
    fn what_cannot_be_is_named() {
        let full = [(Component::OtherTenants, 5 * GIB)];
        assert_eq!(names(20 * GIB, &full, &Facts::default()), ["baseline_full"]);
        let parts = [(Component::Weights, 15 * GIB), (Component::KvPool, 6 * GIB)];
        assert_eq!(names(20 * GIB, &parts, &Facts::default()), ["parts_exceed_whole"]);
        assert_eq!(names(0, &[], &Facts::default()), ["nothing_measured"]);
        let small = Facts {
            capacity: Some(16 * GIB),
            ..Facts::default()
        };
        assert_eq!(names(20 * GIB, &[], &small), ["above_capacity"]);
    }
}
