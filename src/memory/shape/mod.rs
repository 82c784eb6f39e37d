//! A model's shape: its tensors, and what it keeps per token and per sequence.
//!
//! Parameters and bytes of the weights come from the headers of the safetensors files, if there are any ([`headers`]).
//! What headers do not say is read from `config.json`, by its keys whatever the family: what each layer keeps per token
//! and per sequence, and what a pass through it holds ([`parts`]); the table `families.toml` has what the keys do not
//! say of a family. Without headers, the tensors follow from the same keys. Unknown families are refused rather than
//! guessed.

mod config;
mod headers;
mod model;
mod parts;

pub(crate) use config::Config;

pub use headers::Headers;

use std::sync::LazyLock;

use parts::Reader;
use serde::Deserialize;

use crate::fault::{Fault, Result};

pub use model::Dtype;
#[cfg(test)]
pub(crate) use model::Split;
pub(crate) use model::{Layer, Phase, Role, Shape, Tensor, count_equal};

/// The shape that a `config.json` describes, or for an unknown family what the headers of its files say.
///
/// # Errors
///
/// `usage` for an unknown family without sufficient headers, and for a missing or absurd value.
pub(crate) fn read(config: &Config, headers: Option<&Headers>) -> Result<Shape> {
    match headers {
        Some(headers) if !is_known(config) => headers::read(config, headers),
        _ => read_family(config),
    }
}

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

fn is_known(config: &Config) -> bool {
    config.family().is_ok_and(|name| find(name).is_some())
}

/// The shape that a `config.json` describes.
fn read_family(config: &Config) -> Result<Shape> {
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

#[cfg(test)]
mod tests {
    //! Compares what layers keep with what transformers really keeps of one sequence.

    use std::path::Path;

    use serde_json::Value;

    use super::model::PerSequence;
    use super::*;

    #[test]
    fn layers_keep_what_transformers_keeps() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/shapes/caches.json");
        let known: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let tokens = known["tokens"].as_u64().unwrap();
        let caches = known["caches"].as_object().unwrap();
        assert!(caches.len() >= 9);
        for (name, cache) in caches {
            let config = Config::new(&cache["config"]).unwrap();
            let layers = read(&config, None).unwrap().layers;
            let sum = |of: &dyn Fn(&Layer) -> u64| layers.iter().map(|layer| layer.count * of(layer)).sum::<u64>();
            let keys_and_values = sum(&|layer| {
                let kept = layer.per_token.as_ref();
                // Between two steps transformers keeps one token fewer than the window: the next one completes it.
                kept.map_or(0, |kept| {
                    kept.on_rank(1) * kept.window.map_or(tokens, |window| tokens.min(window - 1))
                })
            });
            // And one input of the convolution more than engines need: all that its kernel covers.
            let kernel = config
                .optional(&["mamba_d_conv", "linear_conv_kernel_dim"])
                .unwrap()
                .unwrap_or(2);
            let state = |of: &dyn Fn(&PerSequence) -> u64| sum(&|layer| layer.per_sequence.as_ref().map_or(0, of));
            let convolution = state(&|state| state.convolution / (kernel - 1) * kernel);
            let recurrent = state(&|state| state.recurrent);
            assert_eq!(cache["keys_and_values"], keys_and_values, "{name}");
            assert_eq!(cache["convolution"], convolution, "{name}");
            assert_eq!(cache["recurrent"], recurrent, "{name}");
        }
    }
}
