//! Bamba: Mamba-2, with attention in the layers listed in `attn_layer_indices`; no experts.

use super::common::Common;
use crate::fault::Result;
use crate::memory::shape::parts::{Attention, FeedForward, Mamba2, QkNorm, norms};
use crate::memory::shape::{Config, Layer};

pub(super) fn layers(config: &Config, common: &Common) -> Result<Vec<Layer>> {
    let attends = config.numbers("attn_layer_indices").unwrap_or_default();
    let (attention, mamba) = (attention(config, common)?, mamba2(config, common)?.layer());
    let forward = FeedForward {
        hidden: common.hidden,
        intermediate: config.number(&["intermediate_size"])?,
        gated: true,
        bias: config.flag("mlp_bias", false)?,
    }
    .layer()
    .with(norms(2, common.hidden, false));
    Ok((0..common.layers)
        .map(|layer| {
            let mixer = if attends.contains(&layer) { &attention } else { &mamba };
            mixer.clone().with(forward.clone())
        })
        .collect())
}

/// The attention of hybrids with Mamba-2.
pub(super) fn attention(config: &Config, common: &Common) -> Result<Layer> {
    let bias = config.flag("attention_bias", false)?;
    Ok(Attention {
        hidden: common.hidden,
        heads: common.heads,
        kv_heads: common.kv_heads(config)?,
        head_dim: common.head_dim(config, None)?,
        qkv_bias: bias,
        out_bias: bias,
        qk_norm: QkNorm::Absent,
        sinks: false,
        gated: false,
        window: None,
    }
    .layer())
}

/// The mixer by Bamba's `config.json` keys; related families change parts of it.
pub(super) fn mamba2(config: &Config, common: &Common) -> Result<Mamba2> {
    let bias = config.flag("mamba_proj_bias", false)?;
    Ok(Mamba2 {
        hidden: common.hidden,
        inner: config.optional(&["mamba_expand"])?.unwrap_or(2) * common.hidden,
        heads: config.number(&["mamba_n_heads"])?,
        groups: config.number(&["mamba_n_groups"])?,
        state: config.number(&["mamba_d_state"])?,
        kernel: config.number(&["mamba_d_conv"])?,
        convolution_bias: config.flag("mamba_conv_bias", true)?,
        in_bias: bias,
        out_bias: bias,
        norm: true,
        state_dtype: Common::state_dtype(config)?,
    })
}
