//! Differences of setup between the baseline and the other inputs.

use serde::Serialize;

use super::label;
use crate::compare::ComparisonInput;

/// Properties whose difference is stated before any metric.
const IMPORTANT: [&str; 5] = [
    "model",
    "GPU",
    "memory of the GPUs, bytes",
    "engine",
    "simulated profile",
];

/// Properties that differ from run to run and explain no difference; listed last.
const INCIDENTAL: [&str; 3] = ["machine", "seed", "profiler"];

/// A property in which two inputs differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetupDifference {
    /// Index of the other input; the baseline is 0.
    pub subject: usize,
    /// The property: `model`, `GPU`, `parameter input`.
    pub name: String,
    /// Value in the baseline.
    pub before: String,
    /// Value in the other input.
    pub after: String,
    /// Whether the difference makes the metrics hard to compare.
    pub first: bool,
}

impl SetupDifference {
    /// `different GPU: A, B in [2]`.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!(
            "different {}: {}, {} in {}",
            self.name,
            self.before,
            self.after,
            label(self.subject)
        )
    }
}

/// Setup differences between the baseline and each run, most important first. A property recorded by only one
/// run is skipped, except parameters.
pub(super) fn setup_differences(inputs: &[ComparisonInput]) -> Vec<SetupDifference> {
    let Some((first, others)) = inputs.split_first() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (index, other) in others.iter().enumerate() {
        for name in names(first, other) {
            let (before, after) = (property(first, name), property(other, name));
            let optional = name.starts_with("parameter ") && !first.setup.is_empty() && !other.setup.is_empty();
            let (before, after) = match (before, after) {
                (Some(before), Some(after)) => (before, after),
                (before, after) if optional => (before.unwrap_or("none"), after.unwrap_or("none")),
                _ => continue,
            };
            if before != after {
                found.push(SetupDifference {
                    subject: index + 1,
                    name: name.to_owned(),
                    before: before.to_owned(),
                    after: after.to_owned(),
                    first: IMPORTANT.contains(&name),
                });
            }
        }
    }
    found
}

fn names<'a>(first: &'a ComparisonInput, other: &'a ComparisonInput) -> Vec<&'a str> {
    let rest = first.setup.keys().chain(other.setup.keys()).map(String::as_str);
    let mut rest: Vec<&str> = rest.filter(|name| !IMPORTANT.contains(name)).collect();
    rest.sort_unstable_by_key(|name| (INCIDENTAL.contains(name), *name));
    rest.dedup();
    IMPORTANT.into_iter().chain(rest).collect()
}

/// The value of a property.
pub(super) fn property<'a>(input: &'a ComparisonInput, name: &str) -> Option<&'a str> {
    match name {
        "model" => input.model.as_deref(),
        "engine" => input.engine.as_deref(),
        name => input.setup.get(name).map(String::as_str),
    }
}
