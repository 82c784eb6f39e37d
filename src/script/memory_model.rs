//! The handle by which scripts hold a fitted memory model, and the arguments to fit one.

use std::sync::Arc;

use serde::Deserialize;

use crate::boundary::Point;
use crate::boundary::model::{MemoryModel, Prior, Sample};

/// A fitted model, shared by all copies of its handle.
#[derive(Clone)]
pub(super) struct ModelHandle(pub(super) Arc<MemoryModel>);

/// A sample given by a script.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SampleOptions {
    point: Point,
    /// Bytes.
    peak: f64,
    #[serde(default)]
    at_most: bool,
}

impl From<SampleOptions> for Sample {
    fn from(given: SampleOptions) -> Self {
        Self {
            point: given.point,
            peak: given.peak,
            at_most: given.at_most,
        }
    }
}

/// Options of `memory_model`: the architecture. `()` means unknown.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Architecture {
    weight_bytes: Option<f64>,
    kv_bytes_per_token: Option<f64>,
    block: Option<f64>,
}

impl From<Architecture> for Prior {
    fn from(given: Architecture) -> Self {
        let none = Self::default();
        Self {
            weights: given.weight_bytes.unwrap_or(none.weights),
            kv_bytes_per_token: given.kv_bytes_per_token.unwrap_or(none.kv_bytes_per_token),
            block: given.block.unwrap_or(none.block),
        }
    }
}
