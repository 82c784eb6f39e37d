//! Model of GPU memory in bytes (pure): allocations of an engine at its start and for requests, and when memory runs
//! out.
//!
//! [`StartMemory`] models a start, in three styles; [`BlockPool`] and [`DynamicMemory`] model requests.

use std::fmt;

use serde::Serialize;

use super::options::Setup;
use super::profile::{Dynamic, Fixed, PoolProfile};
use crate::fmt::GIB;

/// Bytes of a MiB.
pub(super) const MIB: f64 = 1_048_576.0;

/// Converts a profile's size in MiB to bytes.
pub(super) fn mib(size: f64) -> u64 {
    (size * MIB).round() as u64
}

/// Size of the device as seen by torch: without the driver's share, and at most `limit`.
pub(super) fn visible_bytes(total: u64, reserved: u64, limit: Option<u64>) -> u64 {
    total.saturating_sub(reserved).min(limit.unwrap_or(u64::MAX))
}

/// Memory of an engine at each stage of its start, in bytes. `used_*` is device memory in use as reported by
/// NVML.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct StartMemory {
    /// Size of the device as reported by NVML.
    pub(crate) total: u64,
    /// Size of the device as seen by torch.
    pub(crate) device: u64,
    /// Free after the CUDA context is created.
    pub(crate) free: u64,
    pub(crate) budget: u64,
    pub(crate) weights: u64,
    /// Left for the KV cache; negative if weights and activations exceed the budget.
    pub(crate) available: i64,
    pub(crate) block_bytes: u64,
    pub(crate) blocks: u64,
    pub(crate) block_tokens: u64,
    /// Blocks that each sequence takes for its recurrent state; 0 unless the model has such layers.
    pub(crate) state_blocks: u64,
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

impl StartMemory {
    /// Pool style: the rest of a share of the device becomes a pool of blocks.
    pub(crate) fn pool(profile: &PoolProfile, setup: &Setup) -> Self {
        let (reserved, context) = (mib(profile.reserved_mib), mib(profile.context_mib));
        let device = visible_bytes(mib(profile.total_mib), reserved, setup.options.memory_limit);
        let weights = mib(profile.weights_mib + if setup.fp8 { profile.fp8_mib } else { 0.0 });
        let speculation = profile.speculation.filter(|_| setup.draft_tokens > 0);
        let unless_eager = |size: f64| if setup.eager { 0.0 } else { size };
        let step = profile.activation_mib * setup.step_tokens as f64 / profile.activation_tokens as f64;
        let compiled = unless_eager(profile.compile_mib);
        let activation = mib(step + compiled + speculation.map_or(0.0, |more| more.activation_mib));
        let graphs = speculation.map_or(profile.graphs_mib, |speculation| speculation.graphs_mib);
        let graphs_estimated = mib(unless_eager(speculation.map_or(0.0, |more| more.graphs_estimated_mib)));
        let budget = (device as f64 * setup.utilization) as u64;
        let left = budget as i64 - (weights + activation + graphs_estimated) as i64;
        let available = if left > 0 {
            (left as f64 * profile.kv_share) as i64
        } else {
            left
        };
        let halves = if setup.fp8 { 2 } else { 1 };
        let block_bytes = (profile.kv.bytes_per_token / halves).max(1) * profile.kv.block_tokens;
        let warm_up = if setup.eager {
            profile.warm_up_eager_mib
        } else {
            profile.warm_up_graphs_mib
        };
        let memory = Self {
            device,
            budget,
            weights,
            available,
            block_bytes,
            blocks: available.max(0) as u64 / block_bytes,
            block_tokens: profile.kv.block_tokens,
            state_blocks: profile.kv.state_blocks,
            graphs_estimated,
            graphs: mib(unless_eager(graphs)),
            ..Self::default()
        };
        memory.with_stages(reserved, context, activation, mib(warm_up), mib(profile.serving_mib))
    }

    /// Fixed style: a KV cache of `tokens`, whatever the size of the device. A block is a token.
    pub(crate) fn fixed(profile: &Fixed, tokens: u64, limit: Option<u64>) -> Self {
        let (reserved, context) = (mib(profile.reserved_mib), mib(profile.context_mib));
        let memory = Self {
            device: visible_bytes(mib(profile.total_mib), reserved, limit),
            weights: mib(profile.weights_mib),
            block_bytes: profile.kv.bytes_per_token,
            blocks: tokens,
            block_tokens: 1,
            ..Self::default()
        };
        memory.with_stages(reserved, context, 0, mib(profile.compute_mib + profile.output_mib), 0)
    }

    /// Dynamic style: only the engine itself is allocated; requests allocate as needed.
    pub(crate) fn dynamic(memory: &DynamicMemory) -> Self {
        let (reserved, context) = (mib(memory.profile.reserved_mib), memory.profile.context_bytes);
        let memory = Self {
            device: memory.device,
            weights: memory.reserved,
            block_tokens: 1,
            ..Self::default()
        };
        memory.with_stages(reserved, context, 0, 0, 0)
    }

    /// Adds the memory in use at each stage: all earlier stages plus its own. Activations are freed afterwards.
    fn with_stages(self, reserved: u64, context: u64, activation: u64, warm_up: u64, serving: u64) -> Self {
        let used_weights = reserved + context + self.weights;
        let used_kv = used_weights.saturating_add(self.blocks.saturating_mul(self.block_bytes));
        let used_graphs = used_kv.saturating_add(self.graphs);
        let used_ready = used_graphs.saturating_add(warm_up);
        Self {
            total: self.device + reserved,
            free: self.device.saturating_sub(context),
            used_baseline: reserved,
            used_context: reserved + context,
            used_weights,
            used_peak: used_weights + activation,
            used_kv,
            used_graphs,
            used_ready,
            used_serving: used_ready + serving,
            ..self
        }
    }

    /// Tokens of the longest sequence that the pool holds.
    pub(crate) fn longest(&self) -> u64 {
        self.blocks.saturating_sub(self.state_blocks) * self.block_tokens
    }

    /// Sequences of this length that the pool holds.
    pub(crate) fn sequences(&self, tokens: u64) -> f64 {
        self.blocks as f64 / self.blocks_for(tokens).max(1) as f64
    }

    /// Size of the pool in tokens, as the engine reports it: with recurrent states, those of sequences of this length.
    pub(crate) fn kv_tokens(&self, length: u64) -> u64 {
        match self.state_blocks {
            0 => self.blocks * self.block_tokens,
            _ => (self.sequences(length) * length as f64) as u64,
        }
    }

    fn blocks_for(&self, tokens: u64) -> u64 {
        tokens.div_ceil(self.block_tokens) + self.state_blocks
    }

    /// Bytes of KV cache for a sequence of this length.
    pub(crate) fn kv_bytes_for(&self, tokens: u64) -> u64 {
        self.blocks_for(tokens).saturating_mul(self.block_bytes)
    }

    /// The blocks that requests can have. vLLM never uses one; it counts only where blocks are large.
    pub(crate) fn block_pool(&self) -> BlockPool {
        BlockPool {
            total: self.blocks.saturating_sub(self.state_blocks.min(1)),
            state: self.state_blocks,
            ..BlockPool::new(0, self.block_tokens)
        }
    }
}

/// A pool of KV cache blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockPool {
    total: u64,
    used: u64,
    tokens: u64,
    /// Blocks of each sequence for its recurrent state.
    state: u64,
}

impl BlockPool {
    /// `total` free blocks of `tokens` tokens each.
    pub(crate) fn new(total: u64, tokens: u64) -> Self {
        Self {
            total,
            used: 0,
            tokens,
            state: 0,
        }
    }

    /// Number of blocks needed for a sequence of `tokens`.
    pub(crate) fn blocks_for(&self, tokens: u64) -> u64 {
        tokens.div_ceil(self.tokens) + self.state
    }

    /// Allocates all blocks, or none.
    pub(crate) fn allocate(&mut self, blocks: u64) -> bool {
        let fits = blocks <= self.total - self.used;
        if fits {
            self.used += blocks;
        }
        fits
    }

    pub(crate) fn release(&mut self, blocks: u64) {
        self.used = self.used.saturating_sub(blocks);
    }

    pub(crate) fn free(&self) -> u64 {
        self.total - self.used
    }

    /// Share in use, 0 to 1.
    pub(crate) fn usage(&self) -> f64 {
        if self.total == 0 {
            0.0
        } else {
            self.used as f64 / self.total as f64
        }
    }
}

/// Segment size in which the allocator requests memory from the driver.
const SEGMENT: u64 = 2 << 20;

#[derive(Clone, Debug)]
pub(crate) struct DynamicMemory {
    profile: Dynamic,
    device: u64,
    cap: u64,
    reserved: u64,
}

impl DynamicMemory {
    /// Memory after the start. `limit` is the size of the device as seen by torch.
    pub(crate) fn new(profile: &Dynamic, limit: Option<u64>) -> Self {
        let device = visible_bytes(mib(profile.total_mib), mib(profile.reserved_mib), limit);
        let room = device.saturating_sub(profile.context_bytes);
        let mut memory = Self {
            profile: profile.clone(),
            device,
            cap: profile.cap_bytes.map_or(room, |cap| cap.min(room)),
            reserved: 0,
        };
        memory.reserved = memory.reserved_for(profile.base_bytes);
        memory
    }

    /// Bytes allocated at the peak of a prefill, while other sequences hold `resident` tokens.
    pub(crate) fn prefill(&self, tokens: u64, resident: u64) -> u64 {
        self.profile.base_bytes
            + self.profile.prefill_bytes_per_token.saturating_mul(tokens)
            + self.profile.kv_bytes_per_token.saturating_mul(resident)
    }

    /// Bytes allocated while `resident` tokens are held.
    pub(crate) fn decode(&self, resident: u64) -> u64 {
        self.prefill(0, resident)
    }

    /// Bytes reserved for this many allocated bytes.
    pub(crate) fn reserved_for(&self, allocated: u64) -> u64 {
        let grown = allocated.saturating_sub(self.profile.base_bytes) as f64;
        let cached =
            self.profile.base_bytes as f64 + self.profile.cache_bytes as f64 + self.profile.cache_ratio * grown;
        (cached.ceil() as u64).div_ceil(SEGMENT).saturating_mul(SEGMENT)
    }

    /// Grows to this many allocated bytes, or fails. A failure empties the cache.
    pub(crate) fn grow(&mut self, allocated: u64) -> Result<(), CudaOom> {
        let reserved = self.reserved_for(allocated);
        if reserved <= self.cap {
            self.reserved = self.reserved.max(reserved);
            return Ok(());
        }
        let base = self.profile.base_bytes + self.profile.cache_bytes;
        let possible =
            self.profile.base_bytes + (self.cap.saturating_sub(base) as f64 / self.profile.cache_ratio.max(1.0)) as u64;
        self.reserved = self.reserved_for(self.profile.base_bytes);
        Err(CudaOom {
            tried: allocated.saturating_sub(possible).max(SEGMENT),
            capacity: self.device,
            process: self.cap + self.profile.context_bytes,
            allowed: self.profile.cap_bytes,
            allocated: possible.min(self.cap),
            reserved: self.cap,
        })
    }

    /// Whether the engine itself fits.
    pub(crate) fn check_start(&self) -> Result<(), CudaOom> {
        self.clone().grow(self.profile.base_bytes)
    }

    /// Bytes in use on the device: driver, context, and the reserved maximum.
    pub(crate) fn used(&self) -> u64 {
        mib(self.profile.reserved_mib) + self.profile.context_bytes + self.reserved
    }
}

/// A failed allocation. All sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CudaOom {
    /// Bytes requested.
    pub(crate) tried: u64,
    /// Size of the device as seen by torch.
    pub(crate) capacity: u64,
    /// Used by the process, including its CUDA context.
    pub(crate) process: u64,
    /// Limit of the allocator, if it is capped.
    pub(crate) allowed: Option<u64>,
    pub(crate) allocated: u64,
    /// Reserved, including the allocated bytes.
    pub(crate) reserved: u64,
}

impl fmt::Display for CudaOom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of {} of which {} is free. \
             Including non-PyTorch memory, this process has {} memory in use. ",
            Size(self.tried),
            Size(self.capacity),
            Size(self.capacity.saturating_sub(self.process)),
            Size(self.process),
        )?;
        if let Some(allowed) = self.allowed {
            write!(f, "{} allowed; ", Size(allowed))?;
        }
        write!(
            f,
            "Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch but unallocated.",
            Size(self.allocated),
            Size(self.reserved.saturating_sub(self.allocated)),
        )
    }
}

/// Bytes as torch writes them: two decimals, in the largest unit with a value of at least one.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1024 => write!(f, "{} bytes", self.0),
            1024..1_048_576 => write!(f, "{:.2} KiB", bytes / 1024.0),
            1_048_576..1_073_741_824 => write!(f, "{:.2} MiB", bytes / MIB),
            _ => write!(f, "{:.2} GiB", bytes / GIB),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sim::options::Options;
    use crate::sim::profile::{MemoryProfile, Profile};

    proptest! {
        #[test]
        fn more_budget_never_gives_fewer_blocks(share in 0.05_f64..0.95, more in 0.0_f64..0.05, eager: bool, fp8: bool, speculate: bool) {
            let profile = Profile::load("llama-8b-h200-vllm").unwrap();
            let MemoryProfile::Pool(pool) = profile.memory.clone() else { panic!() };
            let setup = Setup::new(profile, &Options::default()).unwrap();
            let setup = Setup { utilization: share, eager, fp8, draft_tokens: speculate.into(), ..setup };
            let less = StartMemory::pool(&pool, &setup);
            let plan = StartMemory::pool(&pool, &Setup { utilization: share + more, ..setup });
            prop_assert!(less.blocks <= plan.blocks);
            prop_assert!(plan.blocks * plan.block_bytes <= plan.available.max(0) as u64);
            prop_assert!(plan.used_context <= plan.used_weights && plan.used_weights <= plan.used_kv);
            prop_assert!(plan.used_kv <= plan.used_graphs && plan.used_ready <= plan.used_serving);
        }
    }

    #[test]
    fn the_message_matches_the_known_pattern() {
        let oom = CudaOom {
            tried: 1_610_612_736,
            capacity: 150_109_000_000,
            process: 13_196_000_000,
            allowed: Some(12 << 30),
            allocated: 9_513_000_000,
            reserved: 12_337_000_000,
        };
        let text = oom.to_string();
        let pattern = regex::Regex::new(concat!(
            r"CUDA out of memory\. Tried to allocate ([\d.]+) (bytes|KiB|MiB|GiB)\. GPU (\d+) has a total capacity of ",
            r"([\d.]+) (MiB|GiB) of which ([\d.]+) (bytes|KiB|MiB|GiB) is free"
        ))
        .unwrap();
        let found = pattern.captures(&text).unwrap();
        assert_eq!((&found[1], &found[2], &found[4]), ("1.50", "GiB", "139.80"));
        assert!(text.contains("12.00 GiB allowed; "));
    }

    fn memory() -> DynamicMemory {
        match Profile::load("llama-1b-12gib-transformers").unwrap().memory {
            MemoryProfile::Dynamic(profile) => DynamicMemory::new(&profile, None),
            other => panic!("not dynamic: {other:?}"),
        }
    }

    proptest! {
        #[test]
        fn memory_never_shrinks_as_tokens_grow(tokens in 0_u64..200_000, more in 0_u64..10_000, resident in 0_u64..50_000) {
            let memory = memory();
            let small = memory.prefill(tokens, resident);
            let large = memory.prefill(tokens + more, resident);
            prop_assert!(small <= large);
            prop_assert!(memory.decode(resident) <= memory.decode(resident + more));
            prop_assert!(memory.reserved_for(small) <= memory.reserved_for(large));
            prop_assert!(memory.reserved_for(small) >= small);
        }

        #[test]
        fn fitting_is_monotone_and_reserved_stays_below_the_cap(sizes in prop::collection::vec(0_u64..150_000, 1..20)) {
            let mut memory = memory();
            for size in sizes {
                let fits = memory.grow(memory.prefill(size, 0)).is_ok();
                prop_assert_eq!(fits, memory.clone().grow(memory.prefill(size, 0)).is_ok());
                prop_assert!(memory.reserved <= memory.cap);
                if fits && size > 0 {
                    let smaller = memory.prefill(size - 1, 0);
                    prop_assert!(memory.clone().grow(smaller).is_ok());
                }
            }
        }
    }

    #[test]
    fn usage_stays_after_a_request_and_drops_after_a_failure() {
        let mut memory = memory();
        let idle = memory.used();
        memory.grow(memory.prefill(32_768, 0)).unwrap();
        let high = memory.used();
        assert!(high > idle);
        memory.grow(memory.prefill(512, 0)).unwrap();
        assert_eq!(memory.used(), high);
        memory.grow(memory.prefill(98_304, 0)).unwrap_err();
        assert_eq!(memory.used(), idle);
    }
}
