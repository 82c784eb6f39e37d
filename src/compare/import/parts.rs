//! Builds a memory breakdown from another tool's figures. What does not fit together is left out and noted.

use crate::fault::Result;
use crate::memory::{Breakdown, Component, Part, Provenance};

#[derive(Default)]
pub(super) struct Parts(Vec<Part>);

impl Parts {
    /// Adds a part, if the source has a value.
    pub(super) fn add(
        &mut self,
        component: Component,
        bytes: Option<i64>,
        provenance: Provenance,
        source: impl Into<String>,
    ) {
        if let Some(bytes) = bytes {
            self.0.push(Part {
                component,
                bytes,
                provenance,
                source: source.into(),
                within: None,
            });
        }
    }

    pub(super) fn bytes(&self, component: Component) -> Option<i64> {
        self.0
            .iter()
            .find(|part| part.component == component)
            .map(|part| part.bytes)
    }

    /// The breakdown of `total` bytes. KV in use becomes part of the pool; if it exceeds the pool, it is left
    /// out.
    pub(super) fn breakdown(mut self, total: Option<i64>) -> Result<Option<Breakdown>> {
        let Some(total) = total.and_then(|total| u64::try_from(total).ok()) else {
            return Ok(None);
        };
        if let Some(pool) = self.bytes(Component::KvPool) {
            self.0
                .retain(|part| part.component != Component::KvUsed || part.bytes <= pool);
            for part in &mut self.0 {
                if part.component == Component::KvUsed {
                    part.within = Some(Component::KvPool);
                }
            }
        }
        Breakdown::new(None, total, self.0).map(Some)
    }
}
