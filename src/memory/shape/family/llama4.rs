//! Llama 4: experts in every layer or in some, chunked attention in all but every fourth layer.

use super::common::Common;
use crate::fault::Result;
use crate::memory::shape::parts::{Attention, Experts, FeedForward, QkNorm, SharedExpert, norms};
use crate::memory::shape::{Config, Layer};

pub(super) fn layers(config: &Config, common: &Common) -> Result<Vec<Layer>> {
    let hidden = common.hidden;
    let bias = config.flag("attention_bias", false)?;
    let (kv_heads, head_dim) = (common.kv_heads(config)?, common.head_dim(config, Some(128))?);
    let attention = |window| {
        Attention {
            hidden,
            heads: common.heads,
            kv_heads,
            head_dim,
            qkv_bias: bias,
            out_bias: bias,
            // A norm without parameters.
            qk_norm: QkNorm::Absent,
            sinks: false,
            gated: false,
            window,
        }
        .layer()
    };
    let intermediate = config.number(&["intermediate_size"])?;
    let experts = Experts {
        hidden,
        experts: config.number(&["num_local_experts"])?,
        experts_per_token: config.number(&["num_experts_per_tok"])?,
        intermediate,
        bias: false,
        shared: Some(SharedExpert {
            intermediate,
            gated: false,
            bias: false,
        }),
    }
    .layer();
    let dense = FeedForward {
        hidden,
        intermediate: config.number(&["intermediate_size_mlp", "intermediate_size"])?,
        gated: true,
        bias: false,
    }
    .layer();
    let step = config.optional(&["interleave_moe_layer_step"])?.unwrap_or(1);
    let named = config.numbers("moe_layers");
    let routed = |layer: u64| match &named {
        Some(layers) => layers.contains(&layer),
        None => (layer + 1).is_multiple_of(step),
    };
    let chunk = config.optional(&["attention_chunk_size"])?;
    let rotated = config.numbers("no_rope_layers").filter(|layers| !layers.is_empty());
    let interval = config.optional(&["no_rope_layer_interval"])?.unwrap_or(4);
    let in_chunks = |layer: u64| match &rotated {
        // Despite its name, the list has a 1 where positions are rotated.
        Some(rotated) => usize::try_from(layer).ok().and_then(|layer| rotated.get(layer)) == Some(&1),
        None => !(layer + 1).is_multiple_of(interval),
    };
    Ok((0..common.layers)
        .map(|layer| {
            let mixer = attention(chunk.filter(|_| in_chunks(layer)));
            let forward = if routed(layer) { &experts } else { &dense };
            mixer.with(forward.clone()).with(norms(2, hidden, false))
        })
        .collect())
}
