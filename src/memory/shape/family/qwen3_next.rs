//! Qwen3-Next: three layers of the gated delta rule per layer of full attention, all with experts.

use super::common::Common;
use crate::fault::{Fault, Result};
use crate::memory::shape::parts::{Attention, DeltaNet, Experts, FeedForward, QkNorm, SharedExpert, norms};
use crate::memory::shape::{Config, Layer};

pub(super) fn layers(config: &Config, common: &Common) -> Result<Vec<Layer>> {
    let hidden = common.hidden;
    let bias = config.flag("attention_bias", false)?;
    let attention = Attention {
        hidden,
        heads: common.heads,
        kv_heads: common.kv_heads(config)?,
        head_dim: common.head_dim(config, Some(256))?,
        qkv_bias: bias,
        out_bias: bias,
        qk_norm: QkNorm::Head,
        sinks: false,
        gated: true,
        window: None,
    }
    .layer();
    let delta = DeltaNet {
        hidden,
        key_heads: config.number(&["linear_num_key_heads"])?,
        value_heads: config.number(&["linear_num_value_heads"])?,
        key: config.number(&["linear_key_head_dim"])?,
        value: config.number(&["linear_value_head_dim"])?,
        kernel: config.number(&["linear_conv_kernel_dim"])?,
        state_dtype: Common::state_dtype(config)?,
    }
    .layer();
    let experts = Experts {
        hidden,
        experts: config.number(&["num_experts"])?,
        experts_per_token: config.number(&["num_experts_per_tok"])?,
        intermediate: config.number(&["moe_intermediate_size"])?,
        bias: false,
        shared: Some(SharedExpert {
            intermediate: config.number(&["shared_expert_intermediate_size"])?,
            gated: true,
            bias: false,
        }),
    }
    .layer();
    let dense = FeedForward {
        hidden,
        intermediate: config.number(&["intermediate_size"])?,
        gated: true,
        bias: false,
    }
    .layer();
    let dense_only = config.numbers("mlp_only_layers").unwrap_or_default();
    let step = config.optional(&["decoder_sparse_step"])?.unwrap_or(1);
    let full = full_attention(config, common.layers)?;
    Ok((0..)
        .zip(full)
        .map(|(layer, full): (u64, bool)| {
            let mixer = if full { &attention } else { &delta };
            let sparse = (layer + 1).is_multiple_of(step) && !dense_only.contains(&layer);
            let forward = if sparse { &experts } else { &dense };
            mixer.clone().with(forward.clone()).with(norms(2, hidden, false))
        })
        .collect())
}

/// Which layers attend to every token.
fn full_attention(config: &Config, layers: u64) -> Result<Vec<bool>> {
    let Some(types) = config.names("layer_types") else {
        let interval = config.optional(&["full_attention_interval"])?.unwrap_or(4);
        return Ok((1..=layers).map(|layer| layer.is_multiple_of(interval)).collect());
    };
    if types.len() as u64 != layers {
        return Err(Fault::usage(
            "`config.json`: `layer_types` does not have an entry for each layer",
        ));
    }
    Ok(types.iter().map(|name| *name == "full_attention").collect())
}
