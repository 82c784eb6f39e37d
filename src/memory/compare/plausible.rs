//! What cannot be: a gate that figures pass before anybody draws conclusions from them.

use serde::Serialize;

use super::{Facts, Gib};
use crate::memory::{Breakdown, Component};

/// More than this in use before the start, and the growth says little of the engine: bytes. LLM-sizer's own validation fails there.
const FULL_BASELINE: i64 = 5_000_000_000;

/// The share of the whole by which parts may exceed it: figures of two decimals, and two readings at two instants.
const SLACK: f64 = 0.02;

/// Something that cannot be as it is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Implausible {
    /// `weights_above_peak`, `baseline_full`, `parts_exceed_whole`, `peak_after_exit`, `above_capacity`, `nothing_measured`.
    pub name: &'static str,
    /// What is said, with its figures, and why that cannot be.
    pub text: String,
}

/// What cannot be in a breakdown.
#[must_use]
pub fn implausible(breakdown: Option<&Breakdown>, facts: &Facts) -> Vec<Implausible> {
    let mut found = Vec::new();
    let mut say = |name, text: String| found.push(Implausible { name, text });
    let Some(breakdown) = breakdown else { return found };
    let peak = i64::try_from(breakdown.total).unwrap_or(i64::MAX);
    let part = |component| breakdown.part(component).map(|part| part.bytes);
    let weights = part(Component::Weights);
    if facts.read_after_exit {
        say(
            "peak_after_exit",
            format!(
                "what is called the peak, {}, was read after the engine had exited: nothing of the engine is in it",
                Gib(peak)
            ),
        );
    }
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
                "{} were in use by others before the start: what the engine took cannot be told from what they did meanwhile",
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
            format!(
                "{} in use are more than the {} that are there",
                Gib(peak),
                Gib(capacity)
            ),
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
mod tests;
