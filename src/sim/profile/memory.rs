//! Memory section of a profile. MiB are 2^20 bytes; the arithmetic is in `sim/memory.rs`.

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Result};

/// The three ways in which engines allocate memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "style", rename_all = "snake_case")]
pub enum MemoryProfile {
    /// vLLM, SGLang, TensorRT-LLM, TGI: the rest of a share of the device becomes a pool of KV blocks at the start.
    Pool(Pool),
    /// transformers: memory grows with each request, through a caching allocator.
    Dynamic(Dynamic),
    /// llama.cpp and Ollama: the KV cache of the whole context is allocated at the start.
    Fixed(Fixed),
}

/// KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kv {
    /// Tokens in a block.
    pub block_tokens: u64,
    /// Bytes per token in the model's type: 2 · layers · KV heads · head size · bytes per element.
    pub bytes_per_token: u64,
}

/// The pool style.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Size of the device as reported by NVML.
    pub total_mib: f64,
    /// In use by the driver before anything starts; neither free nor the engine's.
    pub reserved_mib: f64,
    /// CUDA context and libraries, before the weights. Not part of the engine's budget.
    pub context_mib: f64,
    /// Weights as logged by the engine.
    pub weights_mib: f64,
    /// Activation peak of the profiling step with `activation_tokens` tokens; proportional to its tokens.
    pub activation_mib: f64,
    /// Tokens of the step at which `activation_mib` was measured.
    pub activation_tokens: u64,
    /// Additional activation if the model is compiled (no `enforce_eager`).
    pub compile_mib: f64,
    /// CUDA graphs, captured after the KV cache is allocated, outside the budget.
    pub graphs_mib: f64,
    /// Kept by the warm-up, eager.
    pub warm_up_eager_mib: f64,
    /// Kept by the warm-up, with CUDA graphs.
    pub warm_up_graphs_mib: f64,
    /// Allocated by the first request and kept.
    pub serving_mib: f64,
    /// Additional weights with an 8-bit KV cache (its scales).
    pub fp8_mib: f64,
    /// Changes with n-gram speculation, if known.
    pub speculation: Option<Speculation>,
    /// Share of the rest of the budget that becomes KV cache.
    pub kv_share: f64,
    /// When blocks are allocated.
    pub reservation: Reservation,
    /// KV cache.
    pub kv: Kv,
}

/// Changes with n-gram speculation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speculation {
    /// Additional activation.
    pub activation_mib: f64,
    /// CUDA graphs as estimated beforehand, inside the budget.
    pub graphs_estimated_mib: f64,
    /// CUDA graphs as captured.
    pub graphs_mib: f64,
}

/// When a sequence's blocks are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reservation {
    /// Token by token; if none is left, the newest sequence is preempted and recomputed later (vLLM).
    Grow,
    /// At admission, for the input and up to 1024 tokens of output; a request that does not fit waits (TGI).
    Slice,
}

/// The dynamic style, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dynamic {
    /// Size of the device as reported by NVML.
    pub total_mib: f64,
    /// In use by the driver before anything starts.
    pub reserved_mib: f64,
    /// Maximum bytes that the allocator may reserve. Default: the rest of the device.
    pub cap_bytes: Option<u64>,
    /// CUDA context and libraries, outside the allocator.
    pub context_bytes: u64,
    /// Allocated without requests: weights and workspaces.
    pub base_bytes: u64,
    /// Allocated per prompt token at the peak of a prefill, including its KV cache.
    pub prefill_bytes_per_token: u64,
    /// KV cache per token.
    pub kv_bytes_per_token: u64,
    /// Reserved beyond the allocated bytes without requests.
    pub cache_bytes: u64,
    /// Reserved per byte allocated beyond the base: fragmentation.
    pub cache_ratio: f64,
}

/// The fixed style.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixed {
    /// Size of the device.
    pub total_mib: f64,
    /// In use before anything starts.
    pub reserved_mib: f64,
    /// CUDA context and libraries.
    pub context_mib: f64,
    /// Weights.
    pub weights_mib: f64,
    /// Scratch memory of a step.
    pub compute_mib: f64,
    /// Logits.
    pub output_mib: f64,
    /// Number of layers, for the log.
    pub layers: u64,
    /// KV cache.
    pub kv: Kv,
}

impl MemoryProfile {
    /// Size of each device in bytes.
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
            Some(size) => Err(Fault::usage(format!("a size is {size}, not a number >= 0"))),
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
