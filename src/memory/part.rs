//! One component of a breakdown.

use serde::{Deserialize, Serialize};

use super::{Component, Provenance};

/// The memory of one component on one device, or on all devices of an engine together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The component.
    pub component: Component,
    /// Bytes. Negative only for what is unexplained.
    pub bytes: i64,
    /// Where the figure comes from.
    pub provenance: Provenance,
    /// How it was derived, for people: the log line, the formula, the name of the counter.
    pub source: String,
    /// The component that contains this part, so that it does not count twice: the KV cache in use lies within the
    /// pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Component>,
}
