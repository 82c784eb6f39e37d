//! Attention with query heads and as many or fewer KV heads (MHA, GQA, MQA).

use crate::memory::shape::{Layer, PerToken, Phase, Split, Tensor};

/// Norms of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory::shape) enum QkNorm {
    Absent,
    /// Per head, with one vector for all heads.
    Head,
    /// Over all heads together.
    All,
}

pub(in crate::memory::shape) struct Attention {
    pub(in crate::memory::shape) hidden: u64,
    pub(in crate::memory::shape) heads: u64,
    pub(in crate::memory::shape) kv_heads: u64,
    pub(in crate::memory::shape) head_dim: u64,
    pub(in crate::memory::shape) qkv_bias: bool,
    pub(in crate::memory::shape) out_bias: bool,
    pub(in crate::memory::shape) qk_norm: QkNorm,
    /// One learned number per head that takes part in the softmax.
    pub(in crate::memory::shape) sinks: bool,
    /// Queries carry a gate of their own size.
    pub(in crate::memory::shape) gated: bool,
    pub(in crate::memory::shape) window: Option<u64>,
}

impl Attention {
    pub(in crate::memory::shape) fn layer(&self) -> Layer {
        let queries = self.heads.saturating_mul(self.head_dim);
        let keys = self.kv_heads.saturating_mul(self.head_dim);
        let query_rows = queries.saturating_mul(if self.gated { 2 } else { 1 });
        let kv = Split::Heads(self.kv_heads);
        let mut tensors = vec![
            Tensor::linear("query projection", query_rows, self.hidden, Split::Heads(self.heads)),
            Tensor::linear("key projection", keys, self.hidden, kv),
            Tensor::linear("value projection", keys, self.hidden, kv),
            Tensor::linear("attention output", self.hidden, queries, Split::Columns),
        ];
        if self.qkv_bias {
            tensors.push(Tensor::vector("query bias", query_rows, Split::Heads(self.heads)));
            tensors.push(Tensor::vector("key and value bias", keys, kv).times(2));
        }
        if self.out_bias {
            tensors.push(Tensor::vector("attention output bias", self.hidden, Split::Replicated));
        }
        match self.qk_norm {
            QkNorm::Absent => {}
            QkNorm::Head => {
                tensors.push(Tensor::vector("query and key norms", self.head_dim, Split::Replicated).times(2))
            }
            QkNorm::All => {
                tensors.push(Tensor::vector("query norm", queries, Split::Heads(self.heads)));
                tensors.push(Tensor::vector("key norm", keys, kv));
            }
        }
        if self.sinks {
            tensors.push(Tensor::vector("sinks", self.heads, Split::Rows));
        }
        Layer {
            tensors,
            per_token: Some(PerToken {
                heads: self.kv_heads,
                width: self.head_dim.saturating_mul(2),
                window: self.window,
            }),
            phases: vec![Phase {
                tensors: "attention: residual, normed input, queries, keys, values and output; log-sum-exp of each head in float32",
                replicated: self.hidden.saturating_mul(2),
                sharded: query_rows
                    .saturating_add(keys.saturating_mul(2))
                    .saturating_add(queries),
                replicated_f32: 0,
                sharded_f32: self.heads,
            }],
            ..Layer::default()
        }
    }
}
