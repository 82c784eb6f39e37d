//! Attention with query heads and as many KV heads or fewer (MHA, GQA, MQA).

use crate::memory::shape::{Layer, PerToken, Phase, Split, Tensor};

/// Norms of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory::shape) enum QkNorm {
    /// There are none.
    Absent,
    /// Over each head, one vector for all heads.
    Head,
    /// Over all heads together.
    All,
}

/// One attention.
pub(in crate::memory::shape) struct Attention {
    pub(in crate::memory::shape) hidden: u64,
    pub(in crate::memory::shape) heads: u64,
    pub(in crate::memory::shape) kv_heads: u64,
    pub(in crate::memory::shape) head: u64,
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
    /// Its tensors, its keys and values, and what a pass holds.
    pub(in crate::memory::shape) fn layer(&self) -> Layer {
        let queries = self.heads.saturating_mul(self.head);
        let keys = self.kv_heads.saturating_mul(self.head);
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
            tensors.push(Tensor::vector("attention output bias", self.hidden, Split::Whole));
        }
        match self.qk_norm {
            QkNorm::Absent => {}
            QkNorm::Head => tensors.push(Tensor::vector("query and key norms", self.head, Split::Whole).times(2)),
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
                width: self.head.saturating_mul(2),
                window: self.window,
            }),
            phases: vec![Phase {
                tensors: "attention: residual, normed input, queries, keys, values and output; log-sum-exp of each head in float32",
                whole: self.hidden.saturating_mul(2),
                shared: query_rows
                    .saturating_add(keys.saturating_mul(2))
                    .saturating_add(queries),
                whole_f32: 0,
                shared_f32: self.heads,
            }],
            ..Layer::default()
        }
    }
}
