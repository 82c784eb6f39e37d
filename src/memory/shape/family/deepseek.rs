//! DeepSeek V2 and V3: latent attention, routed and shared experts, dense first layers.

use super::common::Common;
use crate::fault::Result;
use crate::memory::shape::parts::{Experts, FeedForward, LatentAttention, SharedExpert, norms};
use crate::memory::shape::{Config, Layer};

/// Multi-token prediction (MTP) layers are not part of the served model.
pub(super) fn layers(config: &Config, common: &Common) -> Result<Vec<Layer>> {
    let hidden = common.hidden;
    let bias = config.flag("mlp_bias", false)?;
    let attention = LatentAttention {
        hidden,
        heads: common.heads,
        q_lora_rank: config.optional(&["q_lora_rank"])?,
        kv_lora_rank: config.number(&["kv_lora_rank"])?,
        qk_nope_head_dim: config.number(&["qk_nope_head_dim"])?,
        qk_rope_head_dim: config.number(&["qk_rope_head_dim"])?,
        v_head_dim: config.number(&["v_head_dim"])?,
        bias: config.flag("attention_bias", false)?,
    }
    .layer()
    .with(norms(2, hidden, false));
    let dense = FeedForward {
        hidden,
        intermediate: config.number(&["intermediate_size"])?,
        gated: true,
        bias,
    };
    let dense_layers = config.number_or_zero("first_k_dense_replace")?.min(common.layers);
    let dense_layer = attention.clone().with(dense.layer());
    if dense_layers == common.layers {
        return Ok(vec![dense_layer; usize::try_from(dense_layers).unwrap_or(usize::MAX)]);
    }
    let size = config.number(&["moe_intermediate_size"])?;
    let shared = config.number_or_zero("n_shared_experts")?;
    let experts = Experts {
        hidden,
        experts: config.number(&["n_routed_experts", "num_experts"])?,
        experts_per_token: config.number(&["num_experts_per_tok"])?,
        intermediate: size,
        bias: false,
        shared: (shared > 0).then_some(SharedExpert {
            intermediate: size * shared,
            gated: false,
            bias,
        }),
    };
    let routed_layer = attention.with(experts.layer());
    Ok((0..common.layers)
        .map(|layer| {
            if layer < dense_layers {
                dense_layer.clone()
            } else {
                routed_layer.clone()
            }
        })
        .collect())
}
