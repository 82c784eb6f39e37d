//! Families whose layers differ from one another: hybrids of attention and recurrent layers, and other mixtures.

use super::common::Common;
use crate::fault::{Fault, Result};
use crate::memory::shape::config::Config;
use crate::memory::shape::model::Layer;
use crate::memory::shape::parts::{
    Attention, DeltaNet, Experts, FeedForward, LatentAttention, Mamba, Mamba2, QkNorm, SharedExpert, norms,
};

/// Bamba: Mamba-2, with attention in the layers listed in `attn_layer_indices`; no experts.
pub(super) fn bamba(config: &Config, common: &Common) -> Result<Vec<Layer>> {
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
fn attention(config: &Config, common: &Common) -> Result<Layer> {
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
fn mamba2(config: &Config, common: &Common) -> Result<Mamba2> {
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

/// Falcon H1: attention and Mamba-2 side by side in every layer.
pub(super) fn falcon_h1(config: &Config, common: &Common) -> Result<Vec<Layer>> {
    let usual = mamba2(config, common)?;
    let mamba = Mamba2 {
        inner: config.optional(&["mamba_d_ssm"])?.unwrap_or(usual.inner),
        norm: config.flag("mamba_rms_norm", false)?,
        out_bias: config.flag("projectors_bias", false)?,
        ..usual
    };
    let forward = FeedForward {
        hidden: common.hidden,
        intermediate: config.number(&["intermediate_size"])?,
        gated: true,
        bias: config.flag("mlp_bias", false)?,
    };
    let layer = attention(config, common)?
        .with(mamba.layer())
        .with(forward.layer())
        .with(norms(2, common.hidden, false));
    Ok((0..common.layers).map(|_| layer.clone()).collect())
}

/// Granite 4: Mamba-2 or attention by `layer_types`, a shared feed-forward part, and optional experts.
pub(super) fn granite_hybrid(config: &Config, common: &Common) -> Result<Vec<Layer>> {
    let (attention, mamba) = (attention(config, common)?, mamba2(config, common)?.layer());
    let forward = granite_feed_forward(config, common.hidden)?.with(norms(2, common.hidden, false));
    let types = config
        .names("layer_types")
        .or_else(|| config.names("layers_block_type"))
        .unwrap_or_else(|| (0..common.layers).map(|_| "mamba").collect());
    check_layer_types(&types, common.layers)?;
    let one = |name: &&str| match *name {
        "attention" | "full_attention" => Ok(attention.clone().with(forward.clone())),
        "mamba" | "linear_attention" => Ok(mamba.clone().with(forward.clone())),
        other => Err(Fault::usage(format!(
            "`config.json`: the layer type `{other}` is not known here"
        ))),
    };
    types.iter().map(one).collect()
}

fn granite_feed_forward(config: &Config, hidden: u64) -> Result<Layer> {
    let intermediate = config.number(&["shared_intermediate_size"])?;
    let experts = config.number_or_zero("num_local_experts")?;
    if experts == 0 {
        return Ok(FeedForward {
            hidden,
            intermediate,
            gated: true,
            bias: false,
        }
        .layer());
    }
    Ok(Experts {
        hidden,
        experts,
        experts_per_token: config.number(&["num_experts_per_tok"])?,
        intermediate: config.number(&["intermediate_size"])?,
        bias: false,
        shared: Some(SharedExpert {
            intermediate,
            gated: false,
            bias: false,
        }),
    }
    .layer())
}

/// Jamba: Mamba with periodic attention layers, and experts in every second layer.
pub(super) fn jamba(config: &Config, common: &Common) -> Result<Vec<Layer>> {
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

/// Qwen3-Next: three layers of the gated delta rule per layer of full attention, all with experts.
pub(super) fn qwen3_next(config: &Config, common: &Common) -> Result<Vec<Layer>> {
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
    check_layer_types(&types, layers)?;
    Ok(types.iter().map(|name| *name == "full_attention").collect())
}

/// DeepSeek V2 and V3: latent attention, routed and shared experts, dense first layers. Multi-token prediction (MTP)
/// layers are not part of the served model.
pub(super) fn deepseek(config: &Config, common: &Common) -> Result<Vec<Layer>> {
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

/// Llama 4: experts in every layer or in some, chunked attention in all but every fourth layer.
pub(super) fn llama4(config: &Config, common: &Common) -> Result<Vec<Layer>> {
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

fn check_layer_types(types: &[&str], layers: u64) -> Result<()> {
    if types.len() as u64 == layers {
        return Ok(());
    }
    Err(Fault::usage(
        "`config.json`: `layer_types` does not have an entry for each layer",
    ))
}
