//! The fixed style: weights, scratch and the KV cache of the whole context are taken at the start, or nothing is.

use super::{mib, visible};
use crate::sim::profile::Fixed;

/// The memory of a fixed engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FixedPlan {
    /// Bytes of the device as NVML tells them.
    pub(crate) total: u64,
    /// Bytes before anything starts.
    pub(crate) reserved: u64,
    /// Bytes that an empty device offers the process.
    pub(crate) free: u64,
    /// Weights.
    pub(crate) weights: u64,
    /// The KV cache.
    pub(crate) kv: u64,
    /// Scratch of a step.
    pub(crate) compute: u64,
    /// Logits.
    pub(crate) output: u64,
    context: u64,
}

impl FixedPlan {
    /// For `ctx_size` tokens over all slots.
    pub(crate) fn new(profile: &Fixed, ctx_size: u64, limit: Option<u64>) -> Self {
        let reserved = mib(profile.reserved_mib);
        let device = visible(mib(profile.total_mib), reserved, limit);
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
