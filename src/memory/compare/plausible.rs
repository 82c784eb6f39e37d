//! Detects figures that cannot be right, before anything is concluded from them.

use serde::Serialize;

use super::Facts;
use crate::fmt::Gib;
use crate::memory::{Breakdown, Component};

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
    let mut found = Vec::new();
    let mut say = |name, text: String| found.push(Implausible { name, text });
    let Some(breakdown) = breakdown else { return found };
    let peak = i64::try_from(breakdown.total).unwrap_or(i64::MAX);
    let part = |component| breakdown.part(component).map(|part| part.bytes);
    let weights = part(Component::Weights);
    if let Some(weights) = weights.filter(|weights| *weights > peak) {
        say(
            "weights_above_peak",
            format!(
                "the weights, {}, are more than the whole peak, {}",
                Gib(weights),
                Gib(peak)
            ),
        );
    }
    if let Some(baseline) = part(Component::OtherTenants).filter(|baseline| *baseline > FULL_BASELINE) {
        say(
            "baseline_full",
            format!(
                "{} were in use by other processes before the start: the engine's memory cannot be separated from theirs",
                Gib(baseline)
            ),
        );
    }
    let exceeds = -breakdown.unexplained() as f64 > SLACK * (peak as f64);
    if exceeds {
        say(
            "parts_exceed_whole",
            format!(
                "the parts add up to {}, and only {} were in use",
                Gib(peak - breakdown.unexplained()),
                Gib(peak)
            ),
        );
    }
    if let Some(capacity) = facts.capacity.filter(|capacity| peak > *capacity && *capacity > 0) {
        say(
            "above_capacity",
            format!("{} in use are more than the device's {}", Gib(peak), Gib(capacity)),
        );
    }
    if peak == 0 {
        say(
            "nothing_measured",
            "nothing was in use at all: the device was idle, or could not be read".to_owned(),
        );
    }
    found
}

#[cfg(test)]
mod tests {
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
