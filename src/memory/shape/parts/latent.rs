//! Multi-head latent attention (DeepSeek): keys and values of all heads are kept as one latent and one rotary key.

use crate::memory::shape::{Layer, PerToken, Phase, Split, Tensor};

/// Sizes by their keys in `config.json`.
pub(in crate::memory::shape) struct LatentAttention {
    pub(in crate::memory::shape) hidden: u64,
    pub(in crate::memory::shape) heads: u64,
    /// `None`: queries are projected directly.
    pub(in crate::memory::shape) q_lora_rank: Option<u64>,
    pub(in crate::memory::shape) kv_lora_rank: u64,
    pub(in crate::memory::shape) qk_nope_head_dim: u64,
    pub(in crate::memory::shape) qk_rope_head_dim: u64,
    pub(in crate::memory::shape) v_head_dim: u64,
    pub(in crate::memory::shape) bias: bool,
}

impl LatentAttention {
    /// The latent's size is `kv_lora_rank` plus the decoupled rotary key (DeepSeek-V2, arXiv 2405.04434, section
    /// 2.1). Every rank keeps all of it.
    pub(in crate::memory::shape) fn layer(&self) -> Layer {
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
