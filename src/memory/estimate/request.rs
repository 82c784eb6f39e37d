//! The request: the workload to estimate memory for, and the model's files that were available.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fault::{Fault, Result};
use crate::memory::shape::Headers;

const MOST_RANKS: u64 = 1024;

/// The workload and the model's settings. Keys in JSON and in scripts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EstimateRequest {
    /// Input tokens per sequence.
    pub input: u64,
    /// Output tokens per sequence.
    pub output: u64,
    /// Concurrent sequences.
    pub concurrency: u64,
    /// Data type of the weights instead of the model's own.
    pub dtype: Option<String>,
    /// Quantization of the weights instead of the model's own.
    pub quantization: Option<String>,
    /// Data type of the KV cache; `auto`, the default, is that of the weights.
    pub kv_cache_dtype: Option<String>,
    /// Ranks that share each layer.
    pub tensor_parallel: u64,
    /// Tokens of one full prefill step, which engines try out before they serve. By default the input of one
    /// sequence.
    pub prefill_chunk: Option<u64>,
    /// Bytes of each GPU; with it, the estimate says what fits.
    pub gpu_memory: Option<u64>,
    /// Usable share of each GPU's memory.
    pub memory_fraction: f64,
}

impl Default for EstimateRequest {
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

impl EstimateRequest {
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

    /// Tokens per sequence.
    pub(super) fn tokens(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Tokens of one prefill step. A given chunk counts in full, whatever the request: engines with chunked prefill
    /// try one out before they serve (vLLM, TensorRT-LLM), and keep the memory.
    pub(super) fn step(&self) -> u64 {
        self.prefill_chunk.unwrap_or(self.input.max(1))
    }
}

/// The contents of a model's files that say how large it is.
#[derive(Clone, Debug, Default)]
pub struct ModelFiles {
    /// `config.json`.
    pub config: Value,
    /// The headers of all its safetensors files.
    pub headers: Option<Headers>,
    /// `metadata.total_size` of its `model.safetensors.index.json`: bytes of all tensors.
    pub indexed: Option<u64>,
    /// Bytes of its GGUF files, all of one model.
    pub gguf: Option<u64>,
    /// Why something of the above is missing although it was looked for, for people.
    pub notes: Vec<String>,
}
