//! An adapter's words, read once: compiled patterns, metric names, and where the engine tells about itself.

use super::facts::FactRules;
use super::failure::FailureRules;
use super::{Adapter, InfoRule, MetricRules};
use crate::fault::Result;

/// What the functions `facts()` and `failures()` of an adapter gave, ready for use.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    pub(super) facts: FactRules,
    pub(super) failures: FailureRules,
    pub(super) metrics: MetricRules,
    pub(super) info: Vec<(String, InfoRule)>,
}

impl Rules {
    /// Asks the adapter and compiles what it says.
    pub(super) fn of(adapter: &dyn Adapter) -> Result<Self> {
        let facts = adapter.facts()?;
        Ok(Self {
            facts: FactRules::new(&facts.log)?,
            failures: FailureRules::new(adapter.failures()?)?,
            metrics: facts.metrics,
            info: facts.info.into_iter().collect(),
        })
    }
}
