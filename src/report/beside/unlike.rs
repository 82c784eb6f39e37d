//! In what the subjects were made differently: what a difference of their figures may come from.

use serde::Serialize;

use super::letter;
use crate::compare::ComparisonInput;

/// What changes so much that it must be said before any figure.
const FIRST: [&str; 5] = [
    "model",
    "GPU",
    "memory of the GPUs, bytes",
    "engine",
    "simulated profile",
];

/// What differs from run to run and explains no figure.
const PASSING: [&str; 3] = ["machine", "seed", "profiler"];

/// Something that two subjects were made with differently.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unlike {
    /// The other subject's index; the first is 0.
    pub subject: usize,
    /// What it is: `model`, `GPU`, `parameter input`.
    pub name: String,
    /// What the first has.
    pub before: String,
    /// What the other has.
    pub after: String,
    /// Whether the figures are therefore of different things.
    pub first: bool,
}

impl Unlike {
    /// `not the same GPU: A, and B in [2]`.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!(
            "not the same {}: {}, and {} in {}",
            self.name,
            self.before,
            self.after,
            letter(self.subject)
        )
    }
}

/// What the first and each other were made with differently, the weightiest first. Of what only one tells, nothing can be said; but a parameter that only one has is a difference.
pub(super) fn unlike(subjects: &[ComparisonInput]) -> Vec<Unlike> {
    let Some((first, others)) = subjects.split_first() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (index, other) in others.iter().enumerate() {
        for name in names(first, other) {
            let (before, after) = (told(first, name), told(other, name));
            let optional = name.starts_with("parameter ") && !first.setup.is_empty() && !other.setup.is_empty();
            let (before, after) = match (before, after) {
                (Some(before), Some(after)) => (before, after),
                (before, after) if optional => (before.unwrap_or("none"), after.unwrap_or("none")),
                _ => continue,
            };
            if before != after {
                found.push(Unlike {
                    subject: index + 1,
                    name: name.to_owned(),
                    before: before.to_owned(),
                    after: after.to_owned(),
                    first: FIRST.contains(&name),
                });
            }
        }
    }
    found
}

fn names<'a>(first: &'a ComparisonInput, other: &'a ComparisonInput) -> Vec<&'a str> {
    let rest = first.setup.keys().chain(other.setup.keys()).map(String::as_str);
    let mut rest: Vec<&str> = rest.filter(|name| !FIRST.contains(name)).collect();
    rest.sort_unstable_by_key(|name| (PASSING.contains(name), *name));
    rest.dedup();
    FIRST.into_iter().chain(rest).collect()
}

/// What a subject tells of it.
pub(super) fn told<'a>(subject: &'a ComparisonInput, name: &str) -> Option<&'a str> {
    match name {
        "model" => subject.model.as_deref(),
        "engine" => subject.engine.as_deref(),
        name => subject.setup.get(name).map(String::as_str),
    }
}
