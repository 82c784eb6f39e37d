//! Model families: what the keys of `config.json` do not say of them. All else is read by its keys, whatever the
//! family ([`Reader`]). Each row of the table was checked against transformers' parameter count (`tests/data/shapes/`).

use super::config::Config;
use super::model::Shape;
use super::parts::Reader;
use crate::fault::{Fault, Result};

/// Where a family has biases unless `config.json` says otherwise.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bias {
    No,
    /// Queries, keys and values, but never the output of the attention.
    Queries,
    All,
}

/// Norms of queries and keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum QkNorm {
    No,
    /// Per head, with one vector for all heads.
    Head,
    /// Over all heads together.
    All,
}

/// Which layers are of which kind, unless `layer_types` lists them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layers {
    /// Every layer attends to every token.
    Full,
    /// Every layer has the window, if there is one.
    Window,
    /// All layers but every n-th have the window; `sliding_window_pattern` may override n.
    WindowExceptEvery(u64),
    /// Qwen: layers from `max_window_layers` on, and only with `use_sliding_window`.
    WindowFrom,
    /// Llama 4: attention within chunks, except in the layers without rotary positions.
    Chunks,
    /// Recurrent, with attention in the layers that a key names, else in every n-th.
    Hybrid(Option<u64>),
    /// Jamba: Mamba, with attention in every `attn_layer_period`-th layer and experts in every `expert_layer_period`-th.
    Periods,
    /// Attention and a recurrent part side by side in every layer.
    Parallel,
}

/// A family.
pub(super) struct Family {
    /// Values of `model_type`.
    names: &'static [&'static str],
    /// Whether the output matrix is the embedding by default.
    pub(super) tied: bool,
    /// The default size of a head, if it is not its share of the hidden state.
    pub(super) head_dim: Option<u64>,
    pub(super) bias: Bias,
    pub(super) qk_norm: QkNorm,
    /// One learned number per head that takes part in the softmax.
    pub(super) sinks: bool,
    /// Queries carry a gate of their own size.
    pub(super) gated_queries: bool,
    /// Multi-head latent attention (MLA).
    pub(super) latent: bool,
    /// Routed experts (MoE).
    pub(super) experts: bool,
    /// Norms per layer.
    pub(super) norms: u64,
    /// As in GPT-2: LayerNorm with a bias, and a feed-forward part without a gate.
    pub(super) classic: bool,
    pub(super) layers: Layers,
}

/// What most families have; rows of the table state the differences.
const PLAIN: Family = Family {
    names: &[],
    tied: false,
    head_dim: None,
    bias: Bias::No,
    qk_norm: QkNorm::No,
    sinks: false,
    gated_queries: false,
    latent: false,
    experts: false,
    norms: 2,
    classic: false,
    layers: Layers::Full,
};

const FAMILIES: &[Family] = &[
    Family {
        names: &["llama", "granite", "smollm3"],
        ..PLAIN
    },
    Family {
        names: &["mistral", "ministral", "ministral3", "phi3"],
        layers: Layers::Window,
        ..PLAIN
    },
    Family {
        names: &["mixtral"],
        experts: true,
        layers: Layers::Window,
        ..PLAIN
    },
    Family {
        names: &["qwen2"],
        bias: Bias::Queries,
        layers: Layers::WindowFrom,
        ..PLAIN
    },
    Family {
        names: &["qwen2_moe"],
        bias: Bias::Queries,
        experts: true,
        layers: Layers::WindowFrom,
        ..PLAIN
    },
    Family {
        names: &["qwen3"],
        head_dim: Some(128),
        qk_norm: QkNorm::Head,
        layers: Layers::WindowFrom,
        ..PLAIN
    },
    Family {
        names: &["qwen3_moe"],
        qk_norm: QkNorm::Head,
        experts: true,
        layers: Layers::WindowFrom,
        ..PLAIN
    },
    Family {
        names: &["qwen3_next"],
        head_dim: Some(256),
        qk_norm: QkNorm::Head,
        gated_queries: true,
        experts: true,
        layers: Layers::Hybrid(Some(4)),
        ..PLAIN
    },
    Family {
        names: &["gemma"],
        tied: true,
        head_dim: Some(256),
        ..PLAIN
    },
    Family {
        names: &["gemma2"],
        tied: true,
        head_dim: Some(256),
        norms: 4,
        layers: Layers::WindowExceptEvery(2),
        ..PLAIN
    },
    Family {
        names: &["gemma3_text"],
        tied: true,
        head_dim: Some(256),
        qk_norm: QkNorm::Head,
        norms: 4,
        layers: Layers::WindowExceptEvery(6),
        ..PLAIN
    },
    Family {
        names: &["gpt_oss"],
        head_dim: Some(64),
        bias: Bias::All,
        sinks: true,
        experts: true,
        layers: Layers::WindowExceptEvery(2),
        ..PLAIN
    },
    Family {
        names: &["gpt_neox"],
        bias: Bias::All,
        classic: true,
        ..PLAIN
    },
    Family {
        names: &["gpt2"],
        tied: true,
        bias: Bias::All,
        classic: true,
        ..PLAIN
    },
    Family {
        names: &["starcoder2"],
        tied: true,
        bias: Bias::All,
        classic: true,
        layers: Layers::Window,
        ..PLAIN
    },
    Family {
        names: &["olmo2"],
        qk_norm: QkNorm::All,
        ..PLAIN
    },
    Family {
        names: &["llama4_text"],
        head_dim: Some(128),
        experts: true,
        layers: Layers::Chunks,
        ..PLAIN
    },
    // Layers for multi-token prediction are not part of the served model.
    Family {
        names: &["deepseek_v2", "deepseek_v3", "kimi_k2"],
        latent: true,
        experts: true,
        ..PLAIN
    },
    Family {
        names: &["bamba"],
        layers: Layers::Hybrid(None),
        ..PLAIN
    },
    Family {
        names: &["granitemoehybrid"],
        experts: true,
        layers: Layers::Hybrid(None),
        ..PLAIN
    },
    Family {
        names: &["jamba"],
        experts: true,
        layers: Layers::Periods,
        ..PLAIN
    },
    Family {
        names: &["falcon_h1"],
        layers: Layers::Parallel,
        ..PLAIN
    },
];

fn find(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.names.contains(&name))
}

pub(super) fn is_known(config: &Config) -> bool {
    config.family().is_ok_and(|name| find(name).is_some())
}

/// The shape that a `config.json` describes.
pub(super) fn read(config: &Config) -> Result<Shape> {
    let name = config.family()?;
    let family = find(name).ok_or_else(|| unknown(name))?;
    Reader::new(config, family)?.shape(name)
}

fn unknown(name: &str) -> Fault {
    let mut known: Vec<&str> = FAMILIES.iter().flat_map(|family| family.names).copied().collect();
    known.sort_unstable();
    Fault::usage(format!(
        "the family `{name}` is not known: its tensors and its KV cache per token cannot be derived from `config.json`"
    ))
    .hint(format!(
        "the headers of its safetensors files would decide it: give a folder that has them; known are {}",
        known.join(", ")
    ))
}
