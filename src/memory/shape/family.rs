//! Model families: what the keys of `config.json` do not say of them. All else is read by its keys, whatever the
//! family ([`Reader`]). The table is `families.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use super::config::Config;
use super::model::Shape;
use super::parts::Reader;
use crate::fault::{Fault, Result};

/// Where a family has biases unless `config.json` says otherwise.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bias {
    #[default]
    No,
    /// Queries, keys and values, but never the output of the attention.
    Queries,
    All,
}

/// Norms of queries and keys.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum QkNorm {
    #[default]
    No,
    /// Per head, with one vector for all heads.
    Head,
    /// Over all heads together.
    All,
}

/// Which layers are of which kind, unless `layer_types` lists them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Layers {
    /// Every layer attends to every token.
    #[default]
    Full,
    /// Every layer has the window, if there is one.
    Window,
    /// All layers but every n-th have the window; `sliding_window_pattern` may override n.
    WindowExceptEvery(u64),
    /// Qwen: layers from `max_window_layers` on, and only with `use_sliding_window`.
    WindowFrom,
    /// Llama 4: attention within chunks, except in the layers without rotary positions.
    Chunks,
    /// Recurrent, with attention in the layers that a key names, else in every n-th, of 0 in none.
    Hybrid(u64),
    /// Jamba: Mamba, with attention in every `attn_layer_period`-th layer and experts in every `expert_layer_period`-th.
    Periods,
    /// Attention and a recurrent part side by side in every layer.
    Parallel,
}

/// A family.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Family {
    /// Values of `model_type`.
    names: Vec<String>,
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
    /// Norms per layer; two if none are stated.
    norms: Option<u64>,
    /// As in GPT-2: LayerNorm with a bias, and a feed-forward part without a gate.
    pub(super) classic: bool,
    pub(super) layers: Layers,
}

#[derive(Deserialize)]
struct Table {
    families: Vec<Family>,
}

static FAMILIES: LazyLock<Vec<Family>> = LazyLock::new(|| {
    let table: Table = toml::from_str(include_str!("families.toml")).expect("the table is valid");
    table.families
});

impl Family {
    pub(super) fn norms(&self) -> u64 {
        self.norms.unwrap_or(2)
    }
}

fn find(name: &str) -> Option<&'static Family> {
    FAMILIES
        .iter()
        .find(|family| family.names.iter().any(|known| known == name))
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
    let mut known: Vec<&str> = FAMILIES
        .iter()
        .flat_map(|family| &family.names)
        .map(String::as_str)
        .collect();
    known.sort_unstable();
    Fault::usage(format!(
        "the family `{name}` is not known: its tensors and its KV cache per token cannot be derived from `config.json`"
    ))
    .hint(format!(
        "the headers of its safetensors files would decide it: give a folder that has them; known are {}",
        known.join(", ")
    ))
}
