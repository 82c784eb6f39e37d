//! Facts about model and settings that explain differences.

use serde::Serialize;

/// What is known about the model and the settings. `None` means unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// Parameters of the model.
    pub parameters: Option<f64>,
    /// Layers.
    pub layers: Option<u64>,
    /// Query heads.
    pub heads: Option<u64>,
    /// Key/value heads.
    pub kv_heads: Option<u64>,
    /// Elements per head.
    pub head_dim: Option<u64>,
    /// Elements of a hidden state.
    pub hidden_size: Option<u64>,
    /// Data type of the weights, as the source names it.
    pub weight_dtype: Option<String>,
    /// Data type of the KV cache, as the source names it.
    pub kv_dtype: Option<String>,
    /// Quantization of the weights, as the source names it.
    pub quantization: Option<String>,
    /// Tensor-parallel size.
    pub tensor_parallel: Option<u64>,
    /// Input tokens per sequence.
    pub input: Option<u64>,
    /// Output tokens per sequence.
    pub output: Option<u64>,
    /// Concurrent sequences.
    pub concurrency: Option<u64>,
    /// Tokens of one prefill step.
    pub prefill_chunk: Option<u64>,
    /// Tokens that the KV cache in use holds: input and output of all sequences.
    pub tokens: Option<u64>,
    /// Tokens that the KV pool can hold.
    pub kv_tokens: Option<u64>,
    /// Bytes of the devices.
    pub capacity: Option<i64>,
    /// Whether the peak was read after the engine had exited.
    pub read_after_exit: bool,
}

impl Facts {
    /// These facts, completed by those of `other`.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let (this, that) = (self.clone(), other.clone());
        Self {
            parameters: this.parameters.or(that.parameters),
            layers: this.layers.or(that.layers),
            heads: this.heads.or(that.heads),
            kv_heads: this.kv_heads.or(that.kv_heads),
            head_dim: this.head_dim.or(that.head_dim),
            hidden_size: this.hidden_size.or(that.hidden_size),
            weight_dtype: this.weight_dtype.or(that.weight_dtype),
            kv_dtype: this.kv_dtype.or(that.kv_dtype),
            quantization: this.quantization.or(that.quantization),
            tensor_parallel: this.tensor_parallel.or(that.tensor_parallel),
            input: this.input.or(that.input),
            output: this.output.or(that.output),
            concurrency: this.concurrency.or(that.concurrency),
            prefill_chunk: this.prefill_chunk.or(that.prefill_chunk),
            tokens: this.tokens.or(that.tokens),
            kv_tokens: this.kv_tokens.or(that.kv_tokens),
            capacity: this.capacity.or(that.capacity),
            read_after_exit: this.read_after_exit || that.read_after_exit,
        }
    }

    /// These facts with `tokens` computed, if the lengths are known.
    #[must_use]
    pub fn counted(mut self) -> Self {
        if let (None, Some(input), Some(output)) = (self.tokens, self.input, self.output) {
            self.tokens = Some(
                input
                    .saturating_add(output)
                    .saturating_mul(self.concurrency.unwrap_or(1)),
            );
        }
        self
    }
}
