//! Parts of a layer: the tensors of each, what it keeps, and what a pass through it holds.
//!
//! Sizes follow the model definitions in transformers, whose own counts the tests compare with (`tests/data/shapes/`).
//! What a pass holds is the sum of the outputs that live at the same time while a chunk of a prompt passes through,
//! with fused projections and without a matrix of attention scores, as in serving engines; residual and normed input
//! included.

use super::dtype::Dtype;
use super::model::{Layer, PerSequence, PerToken, Phase, Role, Split, Tensor};

/// Norms of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QkNorm {
    Absent,
    /// Per head, with one vector for all heads.
    Head,
    /// Over all heads together.
    All,
}

/// Attention with query heads and as many or fewer KV heads (MHA, GQA, MQA).
pub(super) struct Attention {
    pub(super) hidden: u64,
    pub(super) heads: u64,
    pub(super) kv_heads: u64,
    pub(super) head_dim: u64,
    pub(super) qkv_bias: bool,
    pub(super) out_bias: bool,
    pub(super) qk_norm: QkNorm,
    /// One learned number per head that takes part in the softmax.
    pub(super) sinks: bool,
    /// Queries carry a gate of their own size.
    pub(super) gated: bool,
    pub(super) window: Option<u64>,
}

impl Attention {
    pub(super) fn layer(&self) -> Layer {
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

/// Multi-head latent attention (DeepSeek): keys and values of all heads are kept as one latent and one rotary key.
/// Sizes by their keys in `config.json`.
pub(super) struct LatentAttention {
    pub(super) hidden: u64,
    pub(super) heads: u64,
    /// `None`: queries are projected directly.
    pub(super) q_lora_rank: Option<u64>,
    pub(super) kv_lora_rank: u64,
    pub(super) qk_nope_head_dim: u64,
    pub(super) qk_rope_head_dim: u64,
    pub(super) v_head_dim: u64,
    pub(super) bias: bool,
}

impl LatentAttention {
    /// The latent's size is `kv_lora_rank` plus the decoupled rotary key (DeepSeek-V2, arXiv 2405.04434, section
    /// 2.1). Every rank keeps all of it.
    pub(super) fn layer(&self) -> Layer {
        let query = self.qk_nope_head_dim.saturating_add(self.qk_rope_head_dim);
        let queries = self.heads.saturating_mul(query);
        let values = self.heads.saturating_mul(self.v_head_dim);
        let kept = self.kv_lora_rank.saturating_add(self.qk_rope_head_dim);
        let expanded = self
            .heads
            .saturating_mul(self.qk_nope_head_dim.saturating_add(self.v_head_dim));
        let heads = Split::Heads(self.heads);
        let mut tensors = vec![
            Tensor::linear("latent projection", kept, self.hidden, Split::Replicated),
            Tensor::vector("latent norm", self.kv_lora_rank, Split::Replicated),
            Tensor::linear("latent expansion", expanded, self.kv_lora_rank, heads),
            Tensor::linear("attention output", self.hidden, values, Split::Columns),
        ];
        match self.q_lora_rank {
            None => tensors.push(Tensor::linear("query projection", queries, self.hidden, heads)),
            Some(rank) => {
                tensors.push(Tensor::linear(
                    "query compression",
                    rank,
                    self.hidden,
                    Split::Replicated,
                ));
                tensors.push(Tensor::vector("query norm", rank, Split::Replicated));
                tensors.push(Tensor::linear("query expansion", queries, rank, heads));
                if self.bias {
                    tensors.push(Tensor::vector("query compression bias", rank, Split::Replicated));
                }
            }
        }
        if self.bias {
            tensors.push(Tensor::vector("latent projection bias", kept, Split::Replicated));
            tensors.push(Tensor::vector("attention output bias", self.hidden, Split::Replicated));
        }
        // Each head's keys include the rotary part once they are expanded for a prefill.
        let keys = queries;
        Layer {
            tensors,
            per_token: Some(PerToken {
                heads: 1,
                width: kept,
                window: None,
            }),
            phases: vec![Phase {
                tensors: "latent attention: residual, normed input, latents of queries and of keys; queries, expanded keys and values, output; \
                          log-sum-exp of each head in float32",
                replicated: (self.hidden.saturating_mul(2))
                    .saturating_add(kept)
                    .saturating_add(self.q_lora_rank.unwrap_or(0)),
                sharded: queries.saturating_add(keys).saturating_add(values.saturating_mul(2)),
                replicated_f32: 0,
                sharded_f32: self.heads,
            }],
            ..Layer::default()
        }
    }
}

/// The dense feed-forward part.
pub(super) struct FeedForward {
    pub(super) hidden: u64,
    pub(super) intermediate: u64,
    /// Two input matrices, one of which gates the other.
    pub(super) gated: bool,
    pub(super) bias: bool,
}

impl FeedForward {
    pub(super) fn layer(&self) -> Layer {
        let inputs = if self.gated { 2 } else { 1 };
        let mut tensors = vec![
            Tensor::linear("feed-forward in", self.intermediate, self.hidden, Split::Rows).times(inputs),
            Tensor::linear("feed-forward out", self.hidden, self.intermediate, Split::Columns),
        ];
        if self.bias {
            tensors.push(Tensor::vector("feed-forward in bias", self.intermediate, Split::Rows).times(inputs));
            tensors.push(Tensor::vector("feed-forward out bias", self.hidden, Split::Replicated));
        }
        Layer {
            tensors,
            phases: vec![Phase {
                tensors: "feed-forward: residual, normed input, outputs of the matrices in, their activation",
                replicated: self.hidden.saturating_mul(2),
                sharded: self.intermediate.saturating_mul(inputs + 1),
                replicated_f32: 0,
                sharded_f32: 0,
            }],
            ..Layer::default()
        }
    }
}

/// The expert that every token passes through.
pub(super) struct SharedExpert {
    pub(super) intermediate: u64,
    /// Its output has a gate of its own.
    pub(super) gated: bool,
    pub(super) bias: bool,
}

/// Routed experts (MoE) of equal size, with or without a shared expert.
pub(super) struct Experts {
    pub(super) hidden: u64,
    pub(super) experts: u64,
    /// Experts per token.
    pub(super) experts_per_token: u64,
    pub(super) intermediate: u64,
    /// Router and experts have biases.
    pub(super) bias: bool,
    pub(super) shared: Option<SharedExpert>,
}

impl Experts {
    /// What a pass holds: each token's hidden state and intermediate once per expert that it passes through.
    ///
    /// Every rank holds a share of each expert's intermediate size. Expert parallelism holds as many bytes, divided
    /// differently.
    pub(super) fn layer(&self) -> Layer {
        let expert = |name, rows, columns, split, each: u64| {
            Tensor::linear(name, rows, columns, split)
                .with_role(Role::Expert)
                .times(self.experts.saturating_mul(each))
        };
        let mut tensors = vec![
            Tensor::linear("router", self.experts, self.hidden, Split::Replicated).with_role(Role::Router),
            expert("experts in", self.intermediate, self.hidden, Split::Rows, 2),
            expert("experts out", self.hidden, self.intermediate, Split::Columns, 1),
        ];
        if self.bias {
            let twice = self.experts.saturating_mul(2);
            tensors.push(Tensor::vector("router bias", self.experts, Split::Replicated));
            tensors.push(Tensor::vector("experts in bias", self.intermediate, Split::Rows).times(twice));
            tensors.push(Tensor::vector("experts out bias", self.hidden, Split::Replicated).times(self.experts));
        }
        let mut layer = Layer {
            tensors,
            phases: vec![Phase {
                tensors: "experts: residual, normed input, output; for each chosen expert outputs of the matrices in, their activation and the \
                          output; router scores in float32",
                replicated: self.hidden.saturating_mul(self.experts_per_token.saturating_add(3)),
                sharded: self
                    .intermediate
                    .saturating_mul(3)
                    .saturating_mul(self.experts_per_token),
                replicated_f32: self.experts,
                sharded_f32: 0,
            }],
            ..Layer::default()
        };
        if let Some(shared) = &self.shared {
            let dense = FeedForward {
                hidden: self.hidden,
                intermediate: shared.intermediate,
                gated: true,
                bias: shared.bias,
            };
            layer = layer.with(dense.layer());
            if shared.gated {
                let gate = Tensor::linear("shared expert gate", 1, self.hidden, Split::Replicated);
                layer.tensors.push(gate.with_role(Role::Router));
            }
        }
        layer
    }
}

/// Mamba as in Jamba: a state per channel, and three inner norms.
pub(super) struct Mamba {
    pub(super) hidden: u64,
    pub(super) inner: u64,
    pub(super) state: u64,
    pub(super) kernel: u64,
    /// Rank of the compressed time step.
    pub(super) dt_rank: u64,
    pub(super) convolution_bias: bool,
    pub(super) bias: bool,
}

impl Mamba {
    pub(super) fn layer(&self) -> Layer {
        let compressed = self.dt_rank.saturating_add(self.state.saturating_mul(2));
        let mut tensors = vec![
            Tensor::linear("mamba in", self.inner.saturating_mul(2), self.hidden, Split::Rows),
            Tensor::linear("mamba out", self.hidden, self.inner, Split::Columns),
            Tensor::linear("time step, B and C", compressed, self.inner, Split::Columns),
            Tensor::linear("time step expansion", self.inner, self.dt_rank, Split::Rows),
            Tensor::vector("time step bias and D", self.inner, Split::Rows).times(2),
            Tensor::vector("A", self.inner, Split::Rows).times(self.state),
            Tensor::vector("convolution", self.inner, Split::Rows).times(self.kernel),
            Tensor::vector("time step, B and C norms", compressed, Split::Replicated),
        ];
        if self.convolution_bias {
            tensors.push(Tensor::vector("convolution bias", self.inner, Split::Rows));
        }
        if self.bias {
            tensors.push(Tensor::vector("mamba in bias", self.inner, Split::Rows).times(2));
            tensors.push(Tensor::vector("mamba out bias", self.hidden, Split::Replicated));
        }
        Layer {
            tensors,
            per_sequence: Some(PerSequence {
                convolution: self.inner.saturating_mul(self.kernel.saturating_sub(1)),
                recurrent: self.inner.saturating_mul(self.state),
                dtype: None,
            }),
            phases: vec![Phase {
                tensors: "mamba: residual, normed input; projected input, output of the convolution, time steps, output of the scan",
                replicated: self.hidden.saturating_mul(2).saturating_add(compressed),
                sharded: self.inner.saturating_mul(5),
                replicated_f32: 0,
                sharded_f32: 0,
            }],
            ..Layer::default()
        }
    }
}

/// Mamba-2 (Bamba, Falcon H1, Granite 4): a state per head, and the inputs that the convolution still needs. Sizes by
/// their keys in `config.json`.
pub(super) struct Mamba2 {
    pub(super) hidden: u64,
    /// Inner size: heads times their size.
    pub(super) inner: u64,
    pub(super) heads: u64,
    pub(super) groups: u64,
    pub(super) state: u64,
    pub(super) kernel: u64,
    pub(super) convolution_bias: bool,
    pub(super) in_bias: bool,
    pub(super) out_bias: bool,
    /// The gated norm before the output.
    pub(super) norm: bool,
    pub(super) state_dtype: Option<Dtype>,
}

impl Mamba2 {
    pub(super) fn layer(&self) -> Layer {
        let mixed = self
            .inner
            .saturating_add(self.groups.saturating_mul(self.state).saturating_mul(2));
        let projected = self.inner.saturating_add(mixed).saturating_add(self.heads);
        let mut tensors = vec![
            Tensor::linear("mamba in", projected, self.hidden, Split::Rows),
            Tensor::linear("mamba out", self.hidden, self.inner, Split::Columns),
            Tensor::vector("convolution", mixed, Split::Rows).times(self.kernel),
            Tensor::vector("time step bias, A and D", self.heads, Split::Rows).times(3),
        ];
        if self.convolution_bias {
            tensors.push(Tensor::vector("convolution bias", mixed, Split::Rows));
        }
        if self.in_bias {
            tensors.push(Tensor::vector("mamba in bias", projected, Split::Rows));
        }
        if self.out_bias {
            tensors.push(Tensor::vector("mamba out bias", self.hidden, Split::Replicated));
        }
        if self.norm {
            tensors.push(Tensor::vector("mamba norm", self.inner, Split::Rows));
        }
        Layer {
            tensors,
            per_sequence: Some(PerSequence {
                convolution: mixed.saturating_mul(self.kernel.saturating_sub(1)),
                recurrent: self.inner.saturating_mul(self.state),
                dtype: self.state_dtype,
            }),
            phases: vec![Phase {
                tensors: "mamba: residual, normed input; projected input, output of the convolution, output of the scan",
                replicated: self.hidden.saturating_mul(2),
                sharded: projected.saturating_add(mixed).saturating_add(self.inner),
                replicated_f32: 0,
                sharded_f32: 0,
            }],
            ..Layer::default()
        }
    }
}

/// The gated delta rule (Qwen3-Next): linear attention whose state is a matrix per head. Sizes by their keys in
/// `config.json`.
pub(super) struct DeltaNet {
    pub(super) hidden: u64,
    pub(super) key_heads: u64,
    pub(super) value_heads: u64,
    pub(super) key: u64,
    pub(super) value: u64,
    pub(super) kernel: u64,
    pub(super) state_dtype: Option<Dtype>,
}

impl DeltaNet {
    pub(super) fn layer(&self) -> Layer {
        let keys = self.key_heads.saturating_mul(self.key);
        let values = self.value_heads.saturating_mul(self.value);
        let mixed = keys.saturating_mul(2).saturating_add(values);
        let projected = mixed.saturating_add(values);
        Layer {
            tensors: vec![
                Tensor::linear("queries, keys, values and gate", projected, self.hidden, Split::Rows),
                Tensor::linear(
                    "beta and decay",
                    self.value_heads.saturating_mul(2),
                    self.hidden,
                    Split::Rows,
                ),
                Tensor::linear("delta net out", self.hidden, values, Split::Columns),
                Tensor::vector("convolution", mixed, Split::Rows).times(self.kernel),
                Tensor::vector("time step bias and A", self.value_heads, Split::Rows).times(2),
                Tensor::vector("delta net norm", self.value, Split::Replicated),
            ],
            per_sequence: Some(PerSequence {
                convolution: mixed.saturating_mul(self.kernel.saturating_sub(1)),
                recurrent: values.saturating_mul(self.key),
                dtype: self.state_dtype,
            }),
            phases: vec![Phase {
                tensors: "delta net: residual, normed input; projected input, output of the convolution, output of the rule",
                replicated: self.hidden.saturating_mul(2),
                sharded: projected.saturating_add(mixed).saturating_add(values),
                replicated_f32: 0,
                sharded_f32: 0,
            }],
            ..Layer::default()
        }
    }
}

/// `count` norms over the hidden state; LayerNorm also has a bias.
pub(super) fn norms(count: u64, hidden: u64, bias: bool) -> Layer {
    let vectors = count * if bias { 2 } else { 1 };
    Layer {
        tensors: vec![Tensor::vector("norms", hidden, Split::Replicated).times(vectors)],
        ..Layer::default()
    }
}

/// Tensors outside the layers: embeddings, the last norm, the output matrix.
pub(super) struct OuterTensors {
    pub(super) hidden: u64,
    pub(super) vocabulary: u64,
    /// Learned positions; 0 if positions are rotary or absent.
    pub(super) positions: u64,
    /// Whether the last norm has a bias.
    pub(super) norm_bias: bool,
    /// Whether the embedding is also the output matrix.
    pub(super) tied: bool,
}

impl OuterTensors {
    pub(super) fn tensors(&self) -> Vec<Tensor> {
        let matrix = |name, rows, split| Tensor::linear(name, rows, self.hidden, split);
        let mut tensors = vec![
            matrix("token embedding", self.vocabulary, Split::Vocabulary).with_role(Role::Embedding),
            Tensor::vector("last norm", self.hidden, Split::Replicated).times(if self.norm_bias { 2 } else { 1 }),
        ];
        if self.positions > 0 {
            tensors.push(matrix("position embedding", self.positions, Split::Replicated).with_role(Role::Embedding));
        }
        if !self.tied {
            tensors.push(matrix("output matrix", self.vocabulary, Split::Vocabulary).with_role(Role::Head));
        }
        tensors
    }
}
