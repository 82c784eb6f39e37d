//! What `--fail-above` may be on: figures that both sides have. A threshold that nothing could exceed is refused, not passed.

use std::collections::BTreeSet;

use crate::fault::{Fault, Result};
use crate::memory::compare::Comparison;
use crate::report::Beside;

/// The figures chosen with `--only`; all of them where none is.
pub(super) struct Gate<'a>(pub(super) &'a [String]);

impl Gate<'_> {
    /// Whether a figure is among the chosen ones.
    pub(super) fn on(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|chosen| chosen == name)
    }

    /// Refuses a threshold on what cannot be compared.
    ///
    /// # Errors
    ///
    /// `usage` where no figure is on both sides, or one that was chosen is not.
    pub(super) fn check(&self, both: &BTreeSet<&str>) -> Result<()> {
        let list = || both.iter().copied().collect::<Vec<_>>().join(", ");
        if both.is_empty() {
            return Err(
                Fault::usage("no figure is on both sides: `--fail-above` could never be exceeded")
                    .hint("compare what has figures in common, or leave out `--fail-above`"),
            );
        }
        match self.0.iter().find(|chosen| !both.contains(chosen.as_str())) {
            None => Ok(()),
            Some(missing) => Err(Fault::usage(format!(
                "`{missing}` is not on both sides, so that nothing can be said of it"
            ))
            .hint(format!("on both sides are: {}", list()))),
        }
    }
}

/// The components that both sides of any of these comparisons have.
pub(super) fn components<'a>(comparisons: impl Iterator<Item = &'a Comparison>) -> BTreeSet<&'a str> {
    let rows = comparisons.flat_map(|comparison| &comparison.rows);
    rows.filter(|row| row.difference.is_some())
        .map(|row| row.term.name())
        .collect()
}

/// The figures that the first subject and another have.
pub(super) fn figures(beside: &Beside) -> BTreeSet<&str> {
    let lines = beside.sections.iter().flat_map(|section| &section.lines);
    lines
        .filter(|line| line.values.first().is_some_and(Option::is_some))
        .map(|line| line.name.as_str())
        .collect()
}
