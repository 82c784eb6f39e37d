//! Pool style: what remains of the engine's budget after weights and the peak of the profiling step becomes KV cache.
//!
//! vLLM's budget is utilization · visible memory and does not include the CUDA context (measured starts agree within
//! 3 MiB). CUDA graphs and memory kept by the warm-up are allocated after the cache and are not part of the budget
//! either.

use super::{mib, visible_bytes};
use crate::sim::profile::Pool;

/// Launch options that affect the pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PoolOptions {
    /// Share of the device.
    pub(crate) utilization: f64,
    /// Prompt tokens of the profiling step.
    pub(crate) batch_tokens: u64,
    /// No CUDA graphs, no compilation.
    pub(crate) eager: bool,
    /// 8-bit KV cache.
    pub(crate) fp8: bool,
    /// N-gram speculation.
    pub(crate) speculate: bool,
    /// Visible bytes of the device.
    pub(crate) limit: Option<u64>,
}

/// Memory of a pool engine at each stage of its start, in bytes. `used_*` is device memory in use as reported by
/// NVML.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PoolPlan {
    /// Size of the device as reported by NVML.
    pub(crate) total: u64,
    /// Size of the device as seen by torch.
    pub(crate) device: u64,
    /// Free after the CUDA context is created.
    pub(crate) free: u64,
    pub(crate) budget: u64,
    pub(crate) weights: u64,
    /// For the KV cache; negative if weights and activations exceed the budget.
    pub(crate) available: i64,
    pub(crate) block_bytes: u64,
    pub(crate) blocks: u64,
    pub(crate) block_tokens: u64,
    /// CUDA graphs as estimated before the cache is sized, if this engine does so.
    pub(crate) graphs_estimated: u64,
    /// CUDA graphs as captured.
    pub(crate) graphs: u64,
    /// Before anything starts.
    pub(crate) used_baseline: u64,
    pub(crate) used_context: u64,
    pub(crate) used_weights: u64,
    /// At the peak of profiling.
    pub(crate) used_peak: u64,
    pub(crate) used_kv: u64,
    pub(crate) used_graphs: u64,
    /// When requests are accepted.
    pub(crate) used_ready: u64,
    /// From the first request on.
    pub(crate) used_serving: u64,
}

impl PoolPlan {
    pub(crate) fn new(profile: &Pool, options: &PoolOptions) -> Self {
        let reserved = mib(profile.reserved_mib);
        let device = visible_bytes(mib(profile.total_mib), reserved, options.limit);
        let context = mib(profile.context_mib);
        let weights = mib(profile.weights_mib + if options.fp8 { profile.fp8_mib } else { 0.0 });
        let (mut activation, mut graphs, mut graphs_estimated) = (
            profile.activation_mib * options.batch_tokens as f64 / profile.activation_tokens as f64,
            0.0,
            0.0,
        );
        if !options.eager {
            activation += profile.compile_mib;
            graphs = profile.graphs_mib;
        }
        if let Some(speculation) = profile.speculation.filter(|_| options.speculate) {
            activation += speculation.activation_mib;
            if !options.eager {
                graphs = speculation.graphs_mib;
                graphs_estimated = speculation.graphs_estimated_mib;
            }
        }
        let (activation, graphs, graphs_estimated) = (mib(activation), mib(graphs), mib(graphs_estimated));
        let budget = (device as f64 * options.utilization) as u64;
        let left = budget as i64 - (weights + activation + graphs_estimated) as i64;
        let available = if left > 0 {
            (left as f64 * profile.kv_share) as i64
        } else {
            left
        };

        let per_token = if options.fp8 {
            profile.kv.bytes_per_token / 2
        } else {
            profile.kv.bytes_per_token
        };
        let block_bytes = per_token.max(1) * profile.kv.block_tokens;
        let blocks = available.max(0) as u64 / block_bytes;

        let used_weights = reserved + context + weights;
        let used_graphs = used_weights + blocks * block_bytes + graphs;
        let warm_up = if options.eager {
            profile.warm_up_eager_mib
        } else {
            profile.warm_up_graphs_mib
        };
        let used_ready = used_graphs + mib(warm_up);
        Self {
            total: device + reserved,
            device,
            free: device.saturating_sub(context),
            budget,
            weights,
            available,
            block_bytes,
            blocks,
            block_tokens: profile.kv.block_tokens,
            graphs_estimated,
            graphs,
            used_baseline: reserved,
            used_context: reserved + context,
            used_weights,
            used_peak: used_weights + activation,
            used_kv: used_weights + blocks * block_bytes,
            used_graphs,
            used_ready,
            used_serving: used_ready + mib(profile.serving_mib),
        }
    }

    pub(crate) fn kv_tokens(&self) -> u64 {
        self.blocks * self.block_tokens
    }

    /// Bytes of KV cache for a sequence of this length.
    pub(crate) fn kv_bytes_for(&self, tokens: u64) -> u64 {
        tokens.div_ceil(self.block_tokens).saturating_mul(self.block_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sim::profile::{MemoryProfile, Profile};

    proptest! {
        #[test]
        fn more_budget_never_gives_fewer_blocks(share in 0.05_f64..0.95, more in 0.0_f64..0.05, eager: bool, fp8: bool, speculate: bool) {
            let MemoryProfile::Pool(profile) = Profile::load("llama-8b-h200-vllm").unwrap().memory else { panic!() };
            let options = PoolOptions { utilization: share, batch_tokens: 8192, eager, fp8, speculate, limit: None };
            let less = PoolPlan::new(&profile, &options);
            let plan = PoolPlan::new(&profile, &PoolOptions { utilization: share + more, ..options });
            prop_assert!(less.blocks <= plan.blocks);
            prop_assert!(plan.blocks * plan.block_bytes <= plan.available.max(0) as u64);
            prop_assert!(plan.used_context <= plan.used_weights && plan.used_weights <= plan.used_kv);
            prop_assert!(plan.used_kv <= plan.used_graphs && plan.used_ready <= plan.used_serving);
        }
    }
}
