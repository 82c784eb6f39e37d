//! The request: the workload to estimate memory for, and the model's files that were available.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fault::{Fault, Result};
use crate::memory::compare::size;
use crate::memory::shape::Headers;

const MOST_RANKS: u64 = 1024;

/// The workload and the model's settings. Keys in JSON and in scripts, options of `profiler estimate`.
#[derive(clap::Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EstimateRequest {
    /// Input tokens of each sequence
    #[arg(long, value_name = "TOKENS", default_value_t = Self::default().input)]
    pub input: u64,
    /// Output tokens of each sequence
    #[arg(long, value_name = "TOKENS", default_value_t = Self::default().output)]
    pub output: u64,
    /// Concurrent sequences
    #[arg(long, value_name = "N", default_value_t = Self::default().concurrency)]
    pub concurrency: u64,
    /// Type of the weights instead of the model's own: bfloat16, float16, float32
    #[arg(long)]
    pub dtype: Option<String>,
    /// Quantization of the weights instead of the model's own: awq, gptq, fp8, `nf4`, mxfp4, `q4_k`, …
    #[arg(long)]
    pub quantization: Option<String>,
    /// Type of the KV cache: auto (that of the weights), fp8, `q8_0`, …
    #[arg(long, value_name = "DTYPE")]
    pub kv_cache_dtype: Option<String>,
    /// GPUs that share each layer
    #[arg(long, value_name = "N", default_value_t = Self::default().tensor_parallel)]
    pub tensor_parallel: u64,
    /// Tokens of a full step of the prefill (vLLM's `max_num_batched_tokens`); all input of a sequence when absent
    #[arg(long, value_name = "TOKENS")]
    pub prefill_chunk: Option<u64>,
    /// Memory of each GPU, in bytes or with a unit (80GiB, 80GB): shows what fits; exit status 1 if a model does not
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub gpu_memory: Option<u64>,
    /// Share of that memory which may be used
    #[arg(long, value_name = "SHARE", default_value_t = Self::default().memory_fraction)]
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

/// Parses bytes with or without a unit.
fn bytes(text: &str) -> Result<u64, String> {
    // A small number without a unit is probably missing one.
    let (number, least) = match size(text) {
        Some((number, Some(unit))) => (number * unit, 1.0),
        Some((number, None)) => (number, 1_048_576.0),
        None => (0.0, 1.0),
    };
    if !(least..9e15).contains(&number) {
        return Err("bytes, or a number with a unit behind it: 80GiB, 80GB".to_owned());
    }
    Ok(number as u64)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_bytes_or_say_their_unit() {
        assert_eq!(bytes("80GiB"), Ok(80 << 30));
        assert_eq!(bytes("139.80 GiB"), Ok(150_109_106_995));
        assert_eq!(bytes("80GB"), Ok(80_000_000_000));
        assert_eq!(bytes("1048576"), Ok(1 << 20));
        for wrong in ["80", "-1GiB", "infGiB", "nanGiB", "GiB", ""] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
