//! The pool style: what is left of the engine's budget after weights and the profiling step's peak becomes KV cache.
//!
//! The budget of vLLM is utilization · what torch sees, counted from after the CUDA context (so the context lies outside it; the
//! measured starts agree within 3 MiB). Graphs and what the warm-up keeps come after the cache and lie outside it too.

use super::{mib, visible};
use crate::sim::profile::Pool;

/// What a start asks of the pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PoolAsk {
    /// Share of the device.
    pub(crate) utilization: f64,
    /// Prompt tokens of the profiling step.
    pub(crate) batch_tokens: u64,
    /// No graphs, no compilation.
    pub(crate) eager: bool,
    /// An 8-bit KV cache.
    pub(crate) fp8: bool,
    /// With n-gram speculation.
    pub(crate) speculate: bool,
    /// Bytes that the device seems to have.
    pub(crate) limit: Option<u64>,
}

/// Memory of a pool engine from its start to its service, in bytes. Amounts in use are as NVML tells them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PoolPlan {
    /// The device as NVML tells it.
    pub(crate) total: u64,
    /// The device as torch sees it.
    pub(crate) device: u64,
    /// Free when the engine starts, its context taken.
    pub(crate) free: u64,
    /// What the engine may use.
    pub(crate) budget: u64,
    /// Weights.
    pub(crate) weights: u64,
    /// Left for KV cache: below zero when weights and activations do not fit into the budget.
    pub(crate) available: i64,
    /// Bytes of a block.
    pub(crate) block_bytes: u64,
    /// Blocks of the pool.
    pub(crate) blocks: u64,
    /// Tokens of a block.
    pub(crate) block_tokens: u64,
    /// Graphs as estimated before the cache is sized, where this engine does so.
    pub(crate) graphs_estimated: u64,
    /// Graphs as captured.
    pub(crate) graphs: u64,
    /// In use before anything starts.
    pub(crate) used_baseline: u64,
    /// In use with the context.
    pub(crate) used_context: u64,
    /// In use with the weights.
    pub(crate) used_weights: u64,
    /// In use at the peak of profiling.
    pub(crate) used_peak: u64,
    /// In use with the KV cache.
    pub(crate) used_kv: u64,
    /// In use with graphs.
    pub(crate) used_graphs: u64,
    /// In use when requests are taken.
    pub(crate) used_ready: u64,
    /// In use from the first request on.
    pub(crate) used_serving: u64,
}

impl PoolPlan {
    /// What this start takes.
    pub(crate) fn new(profile: &Pool, ask: &PoolAsk) -> Self {
        let reserved = mib(profile.reserved_mib);
        let device = visible(mib(profile.total_mib), reserved, ask.limit);
        let context = mib(profile.context_mib);
        let weights = mib(profile.weights_mib + if ask.fp8 { profile.fp8_mib } else { 0.0 });
        let (mut activation, mut graphs, mut graphs_estimated) = (
            profile.activation_mib * ask.batch_tokens as f64 / profile.activation_tokens as f64,
            0.0,
            0.0,
        );
        if !ask.eager {
            activation += profile.compile_mib;
            graphs = profile.graphs_mib;
        }
        if let Some(speculation) = profile.speculation.filter(|_| ask.speculate) {
            activation += speculation.activation_mib;
            if !ask.eager {
                graphs = speculation.graphs_mib;
                graphs_estimated = speculation.graphs_estimated_mib;
            }
        }
        let (activation, graphs, graphs_estimated) = (mib(activation), mib(graphs), mib(graphs_estimated));
        let budget = (device as f64 * ask.utilization) as u64;
        let left = budget as i64 - (weights + activation + graphs_estimated) as i64;
        let available = if left > 0 {
            (left as f64 * profile.kv_share) as i64
        } else {
            left
        };

        let per_token = if ask.fp8 {
            profile.kv.bytes_per_token / 2
        } else {
            profile.kv.bytes_per_token
        };
        let block_bytes = per_token.max(1) * profile.kv.block_tokens;
        let blocks = available.max(0) as u64 / block_bytes;

        let used_weights = reserved + context + weights;
        let used_graphs = used_weights + blocks * block_bytes + graphs;
        let warm_up = if ask.eager {
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

    /// Tokens that the pool holds.
    pub(crate) fn kv_tokens(&self) -> u64 {
        self.blocks * self.block_tokens
    }

    /// Bytes of KV cache that one sequence of this length needs.
    pub(crate) fn needs(&self, tokens: u64) -> u64 {
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
            let ask = PoolAsk { utilization: share, batch_tokens: 8192, eager, fp8, speculate, limit: None };
            let less = PoolPlan::new(&profile, &ask);
            let plan = PoolPlan::new(&profile, &PoolAsk { utilization: share + more, ..ask });
            prop_assert!(less.blocks <= plan.blocks);
            prop_assert!(plan.blocks * plan.block_bytes <= plan.available.max(0) as u64);
            prop_assert!(plan.used_context <= plan.used_weights && plan.used_weights <= plan.used_kv);
            prop_assert!(plan.used_kv <= plan.used_graphs && plan.used_ready <= plan.used_serving);
        }
    }
}
