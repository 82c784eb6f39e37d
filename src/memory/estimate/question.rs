//! What an estimate is asked for.

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Result};

/// More ranks than any engine shares a layer among.
const MOST_RANKS: u64 = 1024;

/// What is to be held. Keys in JSON and in scripts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Question {
    /// Input tokens of each sequence.
    pub input: u64,
    /// Output tokens of each sequence.
    pub output: u64,
    /// Sequences held at once.
    pub concurrency: u64,
    /// Type of the weights in place of the model's own.
    pub dtype: Option<String>,
    /// Quantization of the weights in place of the model's own.
    pub quantization: Option<String>,
    /// Type of the KV cache; `auto`, the default, is that of the weights.
    pub kv_cache_dtype: Option<String>,
    /// Ranks that share each layer.
    pub tensor_parallel: u64,
    /// Tokens that go through the model in one full step of the prefill, which an engine tries out before it serves; all input of one
    /// sequence by default.
    pub prefill_chunk: Option<u64>,
    /// Bytes of each GPU; with it, what fits is told.
    pub gpu_memory: Option<u64>,
    /// Share of each GPU's memory that may be used.
    pub memory_fraction: f64,
}

impl Default for Question {
    fn default() -> Self {
        Self {
            input: 2048,
            output: 256,
            concurrency: 1,
            dtype: None,
            quantization: None,
            kv_cache_dtype: None,
            tensor_parallel: 1,
            prefill_chunk: None,
            gpu_memory: None,
            memory_fraction: 0.9,
        }
    }
}

impl Question {
    /// Refuses what makes no sense.
    pub(super) fn check(&self) -> Result<()> {
        let above_zero = [
            ("concurrency", Some(self.concurrency)),
            ("tensor_parallel", Some(self.tensor_parallel)),
            ("prefill_chunk", self.prefill_chunk),
            ("gpu_memory", self.gpu_memory),
        ];
        for (name, value) in above_zero {
            if value == Some(0) {
                return Err(Fault::usage(format!("`{name}` cannot be 0")));
            }
        }
        if self.input.saturating_add(self.output) == 0 {
            return Err(Fault::usage("a sequence has at least one token, input or output"));
        }
        if self.tensor_parallel > MOST_RANKS {
            return Err(Fault::usage(format!(
                "`tensor_parallel` cannot be {}: at most {MOST_RANKS}",
                self.tensor_parallel
            )));
        }
        if !(self.memory_fraction > 0.0 && self.memory_fraction <= 1.0) {
            return Err(Fault::usage(format!(
                "`memory_fraction` must be above 0 and at most 1, and is {}",
                self.memory_fraction
            )));
        }
        Ok(())
    }

    /// Tokens of one sequence.
    pub(super) fn tokens(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Tokens of one step of the prefill. A chunk that was given is a full one, whatever is asked for: engines with chunks try one out
    /// before they serve (vLLM, TensorRT-LLM), and keep the memory.
    pub(super) fn step(&self) -> u64 {
        self.prefill_chunk.unwrap_or(self.input.max(1))
    }
}
