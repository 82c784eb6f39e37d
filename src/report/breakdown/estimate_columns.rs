//! Two columns of the breakdown table: the architecture's estimate, and the difference from it.

use crate::memory::{Breakdown, Component};

pub(super) const HEADINGS: [&str; 2] = ["estimate", "off by"];

/// The cells of a component of which `bytes` were measured, if any.
pub(super) fn component(
    estimate: &Breakdown,
    component: Component,
    bytes: Option<i64>,
    gib: impl Fn(i64) -> String,
) -> [String; 2] {
    let part = estimate.part(component).filter(|_| has(estimate, component));
    pair(part.map(|part| part.bytes), bytes, gib)
}

/// The cells of the total.
pub(super) fn total(estimate: &Breakdown, bytes: u64, gib: impl Fn(i64) -> String) -> [String; 2] {
    let whole = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
    pair(Some(whole(estimate.total)), Some(whole(bytes)), gib)
}

/// Whether the estimate covers the component. It never has an unexplained part.
pub(super) fn has(estimate: &Breakdown, component: Component) -> bool {
    component != Component::Unexplained && estimate.part(component).is_some()
}

fn pair(expected: Option<i64>, found: Option<i64>, gib: impl Fn(i64) -> String) -> [String; 2] {
    let difference = found.zip(expected).map(|(found, expected)| {
        let text = gib(found - expected);
        // A value that rounds to zero has no sign.
        let signed = text.starts_with('-') || !text.contains(|letter: char| ('1'..='9').contains(&letter));
        if signed { text } else { format!("+{text}") }
    });
    let none = || "-".to_owned();
    [expected.map_or_else(none, &gib), difference.unwrap_or_else(none)]
}
