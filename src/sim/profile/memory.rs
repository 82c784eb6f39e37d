//! Where the memory of a simulated device goes, as a profile writes it. MiB are 2^20 bytes; the arithmetic is in `sim/memory`.

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Result};

/// The three ways in which engines take memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "style", rename_all = "snake_case")]
pub enum MemoryProfile {
    /// vLLM and TGI: what is left of a fraction of the device becomes a pool of KV blocks at the start.
    Pool(Pool),
    /// transformers: memory grows with each request, through a caching allocator.
    Dynamic(Dynamic),
    /// llama.cpp and Ollama: the KV cache of the whole context is taken at the start.
    Fixed(Fixed),
}

/// KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kv {
    /// Tokens in a block.
    pub block_tokens: u64,
    /// Bytes per token in the model's own type: 2 · layers · KV heads · head size · bytes per element.
    pub bytes_per_token: u64,
}

/// The pool style.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The device, as NVML tells it.
    pub total_mib: f64,
    /// Taken by the driver before anything starts; neither free nor the engine's.
    pub reserved_mib: f64,
    /// CUDA context and libraries, before the weights. Outside the engine's budget, which counts from there.
    pub context_mib: f64,
    /// Weights, as the engine's log tells them.
    pub weights_mib: f64,
    /// Activation peak of the profiling step at `activation_tokens` tokens; proportional to the tokens of a step.
    pub activation_mib: f64,
    /// The step that `activation_mib` was measured at.
    pub activation_tokens: u64,
    /// More activation when the model is compiled (no `enforce_eager`).
    pub compile_mib: f64,
    /// CUDA graphs, captured after the KV cache is taken, outside the budget.
    pub graphs_mib: f64,
    /// Kept by the warm-up after the start, eager.
    pub warm_up_eager_mib: f64,
    /// Kept by the warm-up after the start, beside graphs.
    pub warm_up_graphs_mib: f64,
    /// Taken by the first request and kept.
    pub serving_mib: f64,
    /// More weights with an 8-bit KV cache (its scales).
    pub fp8_mib: f64,
    /// What n-gram speculation changes, where it is known.
    pub speculation: Option<Speculation>,
    /// Share of what is left of the budget that becomes KV cache.
    pub kv_share: f64,
    /// When blocks are taken.
    pub reservation: Reservation,
    /// The cache.
    pub kv: Kv,
}

/// What n-gram speculation changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speculation {
    /// More activation.
    pub activation_mib: f64,
    /// CUDA graphs as estimated beforehand, inside the budget.
    pub graphs_estimated_mib: f64,
    /// CUDA graphs as they turned out.
    pub graphs_mib: f64,
}

/// When a sequence's blocks are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reservation {
    /// As tokens come; when none is left the newest sequence is thrown out and computed again later (vLLM).
    Grow,
    /// For the input and up to 1024 tokens of output at admission; what does not fit waits (TGI).
    Slice,
}

/// The dynamic style. Bytes, as its two fitted lines need them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dynamic {
    /// The device, as NVML tells it.
    pub total_mib: f64,
    /// Taken by the driver before anything starts.
    pub reserved_mib: f64,
    /// Bytes that the allocator may reserve; the rest of the device where left out.
    pub cap_bytes: Option<u64>,
    /// CUDA context and libraries: counted by the device, not by the allocator.
    pub context_bytes: u64,
    /// Allocated with no request: weights and workspaces.
    pub base_bytes: u64,
    /// Allocated per prompt token at the peak of a prefill, its KV included.
    pub prefill_bytes_per_token: u64,
    /// KV cache per token.
    pub kv_bytes_per_token: u64,
    /// Reserved beyond allocated with no request.
    pub cache_bytes: u64,
    /// Reserved per byte allocated beyond the base: fragmentation.
    pub cache_ratio: f64,
}

/// The fixed style.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixed {
    /// The device.
    pub total_mib: f64,
    /// Taken before anything starts.
    pub reserved_mib: f64,
    /// Context and libraries.
    pub context_mib: f64,
    /// Weights.
    pub weights_mib: f64,
    /// Scratch of a step.
    pub compute_mib: f64,
    /// Logits.
    pub output_mib: f64,
    /// Layers of the model, for its log lines.
    pub layers: u64,
    /// The cache.
    pub kv: Kv,
}

impl MemoryProfile {
    /// Bytes of each device.
    #[must_use]
    pub fn total(&self) -> u64 {
        let (Self::Pool(Pool { total_mib, .. })
        | Self::Dynamic(Dynamic { total_mib, .. })
        | Self::Fixed(Fixed { total_mib, .. })) = self;
        (total_mib * f64::from(1 << 20)) as u64
    }

    pub(super) fn check(&self) -> Result<()> {
        let sizes: Vec<f64> = match self {
            Self::Pool(p) => {
                if !(p.kv_share > 0.0 && p.kv_share <= 1.0) || p.activation_tokens == 0 {
                    return Err(Fault::usage(
                        "`kv_share` must be in (0, 1] and `activation_tokens` at least 1",
                    ));
                }
                p.kv.check()?;
                vec![
                    p.total_mib,
                    p.reserved_mib,
                    p.context_mib,
                    p.weights_mib,
                    p.activation_mib,
                    p.compile_mib,
                    p.graphs_mib,
                    p.warm_up_eager_mib,
                    p.warm_up_graphs_mib,
                    p.serving_mib,
                    p.fp8_mib,
                ]
            }
            Self::Dynamic(d) => vec![d.total_mib, d.reserved_mib, d.cache_ratio - 1.0],
            Self::Fixed(f) => {
                f.kv.check()?;
                vec![
                    f.total_mib,
                    f.reserved_mib,
                    f.context_mib,
                    f.weights_mib,
                    f.compute_mib,
                    f.output_mib,
                ]
            }
        };
        match sizes.iter().find(|size| !(size.is_finite() && **size >= 0.0)) {
            Some(size) => Err(Fault::usage(format!("a size is {size}, not a number from 0 up"))),
            None => Ok(()),
        }
    }
}

impl Kv {
    fn check(self) -> Result<()> {
        if self.block_tokens == 0 || self.bytes_per_token == 0 {
            return Err(Fault::usage("`block_tokens` and `bytes_per_token` must be at least 1"));
        }
        Ok(())
    }
}
