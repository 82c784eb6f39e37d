//! The metrics to which `--fail-above` applies: those that both sides have. A threshold that can never be
//! exceeded is an error.

use std::collections::BTreeSet;

use crate::fault::{Fault, Result};
use crate::memory::compare::Comparison as MemoryComparison;
use crate::report::Comparison;

/// The metrics chosen with `--only`; all if empty.
pub(super) struct MetricFilter<'a>(pub(super) &'a [String]);

impl MetricFilter<'_> {
    pub(super) fn includes(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|chosen| chosen == name)
    }

    /// Rejects a threshold on metrics that cannot be compared.
    ///
    /// # Errors
    ///
    /// `usage` if both sides have no metric in common, or lack a chosen one.
    pub(super) fn check(&self, both: &BTreeSet<&str>) -> Result<()> {
        let list = || both.iter().copied().collect::<Vec<_>>().join(", ");
        if both.is_empty() {
            return Err(
                Fault::usage("no figure is on both sides: `--fail-above` could never be exceeded")
                    .hint("compare runs with common figures, or leave out `--fail-above`"),
            );
        }
        match self.0.iter().find(|chosen| !both.contains(chosen.as_str())) {
            None => Ok(()),
            Some(missing) => Err(
                Fault::usage(format!("`{missing}` is not on both sides and cannot be compared"))
                    .hint(format!("on both sides are: {}", list())),
            ),
        }
    }
}

/// The components that both sides of any of these comparisons have.
pub(super) fn components<'a>(comparisons: impl Iterator<Item = &'a MemoryComparison>) -> BTreeSet<&'a str> {
    let rows = comparisons.flat_map(|comparison| &comparison.rows);
    rows.filter(|row| row.difference.is_some())
        .map(|row| row.term.name())
        .collect()
}

/// The metrics that the baseline and another input have.
pub(super) fn figures(comparison: &Comparison) -> BTreeSet<&str> {
    let lines = comparison.sections.iter().flat_map(|section| &section.lines);
    lines
        .filter(|line| line.values.first().is_some_and(Option::is_some))
        .map(|line| line.name.as_str())
        .collect()
}
