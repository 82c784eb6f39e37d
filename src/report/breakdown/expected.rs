//! What was expected by the model's architecture, as two columns beside what was found: the figure, and how far from it that was.

use crate::memory::{Breakdown, Component};

/// The headings.
pub(super) const HEADINGS: [&str; 2] = ["estimate", "off by"];

/// The columns of a component: `bytes` were found, where any were.
pub(super) fn component(
    estimate: &Breakdown,
    component: Component,
    bytes: Option<i64>,
    gib: impl Fn(i64) -> String,
) -> [String; 2] {
    let part = estimate.part(component).filter(|_| has(estimate, component));
    pair(part.map(|part| part.bytes), bytes, gib)
}

/// The columns of the physical figure.
pub(super) fn total(estimate: &Breakdown, bytes: u64, gib: impl Fn(i64) -> String) -> [String; 2] {
    let whole = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
    pair(Some(whole(estimate.total)), Some(whole(bytes)), gib)
}

/// Whether it says anything of a component: it leaves nothing unexplained.
pub(super) fn has(estimate: &Breakdown, component: Component) -> bool {
    component != Component::Unexplained && estimate.part(component).is_some()
}

fn pair(expected: Option<i64>, found: Option<i64>, gib: impl Fn(i64) -> String) -> [String; 2] {
    let apart = found.zip(expected).map(|(found, expected)| {
        let text = gib(found - expected);
        // What rounds to nothing has no sign.
        let signed = text.starts_with('-') || !text.contains(|letter: char| ('1'..='9').contains(&letter));
        if signed { text } else { format!("+{text}") }
    });
    let none = || "-".to_owned();
    [expected.map_or_else(none, &gib), apart.unwrap_or_else(none)]
}
