//! Differences between the setups of compared inputs.

use serde::Serialize;

use crate::compare::ComparisonInput;

/// Properties whose differences are stated before any metric.
const IMPORTANT: [&str; 5] = ["model", "GPU", "memory of the GPUs", "engine", "simulated profile"];

/// Properties that differ from run to run and explain no difference; listed last.
const INCIDENTAL: [&str; 3] = ["machine", "seed", "profiler"];

/// A property that differs between two inputs.
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
    pub important: bool,
}

/// Setup differences between the baseline and each run, most important first. A property recorded by only one
/// run is skipped, except parameters.
pub(super) fn setup_differences(inputs: &[ComparisonInput]) -> Vec<SetupDifference> {
    let Some((first, others)) = inputs.split_first() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (index, other) in others.iter().enumerate() {
        let mut rest: Vec<&str> = first
            .setup
            .keys()
            .chain(other.setup.keys())
            .map(String::as_str)
            .filter(|name| !IMPORTANT.contains(name))
            .collect();
        rest.sort_unstable_by_key(|name| (INCIDENTAL.contains(name), *name));
        rest.dedup();
        for name in IMPORTANT.into_iter().chain(rest) {
            let (before, after) = (property(first, name), property(other, name));
            let optional = name.starts_with("parameter ") && !first.setup.is_empty() && !other.setup.is_empty();
            if before == after || !(optional || before.is_some() && after.is_some()) {
                continue;
            }
            let [before, after] = [before, after].map(|value| value.unwrap_or("none").to_owned());
            found.push(SetupDifference {
                subject: index + 1,
                name: name.to_owned(),
                before,
                after,
                important: IMPORTANT.contains(&name),
            });
        }
    }
    found
}

/// The value of a property.
pub(super) fn property<'a>(input: &'a ComparisonInput, name: &str) -> Option<&'a str> {
    match name {
        "model" => input.model.as_deref(),
        "engine" => input.engine.as_deref(),
        name => input.setup.get(name).map(String::as_str),
    }
}
