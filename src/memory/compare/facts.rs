//! What is known beside the parts: it explains differences.

use serde::Serialize;

/// What is known of the model and the setting. Whatever is not known is none, and then nothing is said of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// Parameters of the model.
    pub parameters: Option<f64>,
    /// Layers.
    pub layers: Option<u64>,
    /// Query heads.
    pub heads: Option<u64>,
    /// Heads that have keys and values of their own.
    pub kv_heads: Option<u64>,
    /// Elements of a head.
    pub head_dim: Option<u64>,
    /// Elements of a hidden state.
    pub hidden_size: Option<u64>,
    /// Type of the weights, as the source names it.
    pub weight_dtype: Option<String>,
    /// Type of the KV cache, as the source names it.
    pub kv_dtype: Option<String>,
    /// Quantization of the weights, as the source names it.
    pub quantization: Option<String>,
    /// Ranks that the weights are divided among.
    pub tensor_parallel: Option<u64>,
    /// Tokens that the KV in use stands for: of all sequences, input and output.
    pub tokens: Option<u64>,
    /// Tokens that the KV pool holds.
    pub kv_tokens: Option<u64>,
    /// Bytes that the devices have.
    pub capacity: Option<i64>,
    /// Whether what is called the peak was read when the engine had exited.
    pub read_after_exit: bool,
}

impl Facts {
    /// The same facts, and where they lack something, that of `other`.
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
            tokens: this.tokens.or(that.tokens),
            kv_tokens: this.kv_tokens.or(that.kv_tokens),
            capacity: this.capacity.or(that.capacity),
            read_after_exit: this.read_after_exit || that.read_after_exit,
        }
    }
}
