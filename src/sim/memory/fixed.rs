//! Fixed style: weights, scratch memory and the KV cache of the whole context are allocated at the start.

use super::{mib, visible_bytes};
use crate::sim::profile::Fixed;

/// Memory of a fixed engine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FixedPlan {
    /// Size of the device as reported by NVML.
    pub(crate) total: u64,
    /// In use before anything starts.
    pub(crate) reserved: u64,
    /// Available to the process on an empty device.
    pub(crate) free: u64,
    pub(crate) weights: u64,
    pub(crate) kv: u64,
    /// Scratch memory of a step.
    pub(crate) compute: u64,
    pub(crate) output: u64,
    context: u64,
}

impl FixedPlan {
    /// For `ctx_size` tokens over all slots.
    pub(crate) fn new(profile: &Fixed, ctx_size: u64, limit: Option<u64>) -> Self {
        let reserved = mib(profile.reserved_mib);
        let device = visible_bytes(mib(profile.total_mib), reserved, limit);
        let context = mib(profile.context_mib);
        Self {
            total: device + reserved,
            reserved,
            free: device.saturating_sub(context),
            weights: mib(profile.weights_mib),
            kv: ctx_size.saturating_mul(profile.kv.bytes_per_token),
            compute: mib(profile.compute_mib),
            output: mib(profile.output_mib),
            context,
        }
    }

    /// Bytes in use with the context and the first `parts` of weights, cache and scratch.
    pub(crate) fn used(&self, parts: usize) -> u64 {
        self.reserved + self.context + self.sum(parts)
    }

    /// Whether the first `parts` of weights, cache and scratch fit.
    pub(crate) fn fits(&self, parts: usize) -> bool {
        self.sum(parts) <= self.free
    }

    fn sum(&self, parts: usize) -> u64 {
        [self.weights, self.kv, self.compute.saturating_add(self.output)]
            .into_iter()
            .take(parts)
            .fold(0, u64::saturating_add)
    }
}
