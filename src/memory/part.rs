//! One component of a breakdown.

use serde::{Deserialize, Serialize};

use super::{Component, Provenance};

/// What one component takes on one device, or on all devices of an engine together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// What it is used for.
    pub component: Component,
    /// Bytes. Below zero only for what is unexplained.
    pub bytes: i64,
    /// Where the figure comes from.
    pub provenance: Provenance,
    /// How it was got, for people: the log line, the formula, the name of the counter.
    pub source: String,
    /// The part that this one lies within, and does not add to: the KV cache in use lies within the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Component>,
}
