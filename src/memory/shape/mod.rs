//! A model's shape: its tensors, and its state per token and per sequence.
//!
//! Parameters and bytes of the weights come from the headers of the safetensors files, if there are any ([`headers`]).
//! Everything else is read from the keys of `config.json`, by the same rules for every family: the state of each layer
//! per token and per sequence, and the memory of a pass through it ([`parts`]). The table `families.toml` adds the
//! properties of a family that the keys do not state. Without headers, the tensors follow from the same keys. Unknown
//! families are refused rather than guessed.

mod headers;
mod model;
mod parts;

use std::sync::LazyLock;

pub use headers::Headers;
pub use model::Dtype;
use parts::Reader;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::fault::{Fault, Result};

#[cfg(test)]
pub(crate) use model::Split;
pub(crate) use model::{Layer, ModelShape, Phase, Role, Tensor, count_equal};

/// The shape that a `config.json` describes; for an unknown family, the shape that the headers of its files describe.
///
/// # Errors
///
/// `usage` for an unknown family without sufficient headers, and for a missing or absurd value.
pub(crate) fn read(config: &Config, headers: Option<&Headers>) -> Result<ModelShape> {
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

/// The layout of layer kinds, unless `layer_types` lists them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Layers {
    /// Every layer attends to every token.
    #[default]
    Full,
    /// Every layer has the window, if the model has one.
    Window,
    /// All layers but every n-th have the window; `sliding_window_pattern` may override n.
    WindowExceptEvery(u64),
    /// Qwen: layers from `max_window_layers` on, and only with `use_sliding_window`.
    WindowFrom,
    /// Llama 4: attention within chunks, except in the layers without rotary positions.
    Chunks,
    /// Recurrent, with attention in the layers that a key names. Otherwise attention is in every n-th layer, or in none
    /// if n is 0.
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
    /// The default size of a head, if it is not the hidden size divided by the number of heads.
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
fn read_family(config: &Config) -> Result<ModelShape> {
    let name = config.family()?;
    let family = find(name).ok_or_else(|| unknown_family(name))?;
    Reader::new(config, family)?.shape(name)
}

fn unknown_family(name: &str) -> Fault {
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

/// Larger than any dimension of any model; small enough that products of two do not overflow.
const LARGEST: u64 = 1 << 26;
const MOST_LAYERS: u64 = 4096;

/// The part of a `config.json` that describes the language model.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    values: Map<String, Value>,
    /// Whether the file describes more than text, such as images or audio.
    multimodal: bool,
}

impl Config {
    /// The language model of a parsed `config.json`: the file itself, or its `text_config`.
    ///
    /// # Errors
    ///
    /// `usage` if it is not an object.
    pub(crate) fn new(json: &Value) -> Result<Self> {
        let Value::Object(outer) = json else {
            return Err(Fault::usage("`config.json` is not an object"));
        };
        let inner = ["text_config", "llm_config"]
            .iter()
            .find_map(|key| outer.get(*key)?.as_object());
        let Some(inner) = inner else {
            return Ok(Self {
                values: outer.clone(),
                multimodal: outer.contains_key("vision_config"),
            });
        };
        let mut values = inner.clone();
        // These keys are stated once for the whole file.
        for key in ["dtype", "torch_dtype", "quantization_config", "tie_word_embeddings"] {
            if let Some(value) = outer.get(key).filter(|_| !values.contains_key(key)) {
                values.insert(key.to_owned(), value.clone());
            }
        }
        Ok(Self {
            values,
            multimodal: true,
        })
    }

    pub(crate) fn is_multimodal(&self) -> bool {
        self.multimodal
    }

    /// `model_type`: the family.
    pub(crate) fn family(&self) -> Result<&str> {
        let name = self.get(&["model_type"]).and_then(Value::as_str);
        name.ok_or_else(|| unknown("model_type", "it names the model's family"))
    }

    /// The first non-null value under these keys.
    pub(crate) fn get(&self, names: &[&str]) -> Option<&Value> {
        names
            .iter()
            .find_map(|name| self.values.get(*name).filter(|value| !value.is_null()))
    }

    /// A positive integer under the first of these keys with a value.
    pub(crate) fn optional(&self, names: &[&str]) -> Result<Option<u64>> {
        let Some(value) = self.get(names) else {
            return Ok(None);
        };
        value
            .as_u64()
            .filter(|number| (1..=LARGEST).contains(number))
            .map(Some)
            .ok_or_else(|| {
                Fault::usage(format!("`config.json`: `{}` cannot be {}", names[0], short(value)))
                    .hint(format!("a whole number from 1 to {LARGEST}"))
            })
    }

    /// Like [`Config::optional`], but required.
    pub(crate) fn number(&self, names: &[&str]) -> Result<u64> {
        self.optional(names)?
            .ok_or_else(|| unknown(names[0], "without it the model's size is not known"))
    }

    /// Like [`Config::optional`], but 0 is allowed and is the default.
    pub(crate) fn number_or_zero(&self, names: &[&str]) -> Result<u64> {
        match self.get(names).and_then(Value::as_u64) {
            Some(0) => Ok(0),
            _ => Ok(self.optional(names)?.unwrap_or(0)),
        }
    }

    /// A boolean under the first of these keys with a value; else `default`.
    pub(crate) fn flag(&self, names: &[&str], default: bool) -> Result<bool> {
        match self.get(names) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| {
                Fault::usage(format!(
                    "`config.json`: `{}` must be true or false, and is {}",
                    names[0],
                    short(value)
                ))
            }),
        }
    }

    /// The number of layers.
    pub(crate) fn layers(&self) -> Result<u64> {
        let layers = self.number(&["num_hidden_layers", "n_layer"])?;
        if layers > MOST_LAYERS {
            return Err(Fault::usage(format!(
                "`config.json`: {layers} layers are more than any model has"
            )));
        }
        Ok(layers)
    }

    /// A list of names, one per layer: `layer_types`.
    pub(crate) fn names(&self, names: &[&str]) -> Option<Vec<&str>> {
        let list = self.get(names)?.as_array()?;
        list.iter().map(Value::as_str).collect()
    }

    /// A list of integers: `mlp_only_layers`.
    pub(crate) fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        let list = self.get(&[name])?.as_array()?;
        list.iter().map(Value::as_u64).collect()
    }

    /// The data type of the weights, if stated.
    pub(crate) fn dtype(&self) -> Result<Option<Dtype>> {
        match self.get(&["dtype", "torch_dtype"]).and_then(Value::as_str) {
            None | Some("auto") => Ok(None),
            Some(name) => name.parse().map(Some),
        }
    }
}

/// The error for a missing value, with the files that would replace it.
fn unknown(name: &str, why: &str) -> Fault {
    Fault::usage(format!("`config.json` has no `{name}`: {why}"))
        .hint("the headers of its safetensors files would decide it: give a folder that has them")
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    //! Compares the computed state of layers with the state that transformers keeps for one sequence.

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
                // Between two steps transformers keeps one token fewer than the window; the next one completes it.
                kept.map_or(0, |kept| {
                    kept.on_rank(1) * kept.window.map_or(tokens, |window| tokens.min(window - 1))
                })
            });
            // It also keeps one input of the convolution more than engines need: as many as the kernel covers.
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

#[cfg(test)]
mod config_tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_absurd_or_missing_is_named() {
        let config = Config::new(&json!({"hidden_size": -1, "n_layer": 5000, "flag": 3, "huge": 1_u64 << 40})).unwrap();
        let says = |result: Result<u64>, text: &str| assert!(result.unwrap_err().message.contains(text));
        says(config.number(&["hidden_size"]), "`hidden_size` cannot be -1");
        says(config.number(&["vocab_size"]), "no `vocab_size`");
        says(config.number(&["huge"]), "cannot be 1099511627776");
        says(config.layers(), "5000 layers");
        assert!(config.flag(&["flag"], true).is_err());
        assert!(Config::new(&json!([1])).is_err());
        assert!(config.family().unwrap_err().hint.unwrap().contains("safetensors"));
    }

    #[test]
    fn the_text_part_of_a_larger_model_is_read() {
        let json = json!({"model_type": "gemma3", "dtype": "bfloat16", "text_config": {"model_type": "gemma3_text", "hidden_size": 8}});
        let config = Config::new(&json).unwrap();
        assert_eq!(config.family().unwrap(), "gemma3_text");
        assert_eq!(config.dtype().unwrap(), Some(Dtype::Bfloat16));
        assert!(config.is_multimodal());
    }
}
