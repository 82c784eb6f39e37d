//! Jamba: Mamba with periodic attention layers, and experts in every second layer.

use super::common::Common;
use crate::fault::Result;
use crate::memory::shape::parts::{Attention, Experts, FeedForward, Mamba, QkNorm, norms};
use crate::memory::shape::{Config, Layer};

pub(super) fn layers(config: &Config, common: &Common) -> Result<Vec<Layer>> {
    let hidden = common.hidden;
    let intermediate = config.number(&["intermediate_size"])?;
    let attention = Attention {
        hidden,
        heads: common.heads,
        kv_heads: common.kv_heads(config)?,
        head_dim: common.head_dim(config, None)?,
        qkv_bias: false,
        out_bias: false,
        qk_norm: QkNorm::Absent,
        sinks: false,
        gated: false,
        window: None,
    }
    .layer();
    let dt_rank = match config.get(&["mamba_dt_rank"]).and_then(|value| value.as_str()) {
        // "auto"
        Some(_) => hidden.div_ceil(16),
        None => config
            .optional(&["mamba_dt_rank"])?
            .unwrap_or_else(|| hidden.div_ceil(16)),
    };
    let mamba = Mamba {
        hidden,
        inner: config.optional(&["mamba_expand"])?.unwrap_or(2) * hidden,
        state: config.number(&["mamba_d_state"])?,
        kernel: config.number(&["mamba_d_conv"])?,
        dt_rank,
        convolution_bias: config.flag("mamba_conv_bias", true)?,
        bias: config.flag("mamba_proj_bias", false)?,
    }
    .layer();
    let dense = FeedForward {
        hidden,
        intermediate,
        gated: true,
        bias: false,
    }
    .layer();
    let experts = Experts {
        hidden,
        experts: config.number(&["num_experts"])?,
        experts_per_token: config.number(&["num_experts_per_tok"])?,
        intermediate,
        bias: false,
        shared: None,
    };
    let sparse = if experts.experts > 1 {
        experts.layer()
    } else {
        dense.clone()
    };
    let (attends, routes) = (
        Period::read(config, "attn_layer")?,
        Period::read(config, "expert_layer")?,
    );
    Ok((0..common.layers)
        .map(|layer| {
            let mixer = if attends.holds(layer) { &attention } else { &mamba };
            let forward = if routes.holds(layer) { &sparse } else { &dense };
            mixer.clone().with(forward.clone()).with(norms(2, hidden, false))
        })
        .collect())
}

/// Every `period`-th layer.
struct Period {
    period: u64,
    offset: u64,
}

impl Period {
    fn read(config: &Config, name: &str) -> Result<Self> {
        Ok(Self {
            period: config.number(&[&format!("{name}_period")])?,
            offset: config.number_or_zero(&format!("{name}_offset"))?,
        })
    }

    fn holds(&self, layer: u64) -> bool {
        layer % self.period == self.offset
    }
}
