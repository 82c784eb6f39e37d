//! A model's shape: its tensors, and what its layers keep of tokens and of sequences.
//!
//! A model is a list of layers of mechanisms ([`schedule`]): attention to all tokens or to a window, a latent, layers that
//! share keys and values, compressed entries, recurrent states, attention to an image. The headers of the safetensors
//! files ([`headers`]) say best which tensors there are and what layers keep ([`stored`]); `config.json` says the rest
//! ([`config`], [`parts`], [`attention`], [`recurrent`], [`feed_forward`]), with the defaults of its family where it is silent ([`family`]). Only defaults
//! depend on the name of a family. What neither says is refused or noted by name, rather than guessed.

mod attention;
mod config;
mod family;
mod feed_forward;
mod headers;
mod model;
mod parts;
mod recurrent;
mod schedule;
mod stored;

pub use headers::Headers;
pub use model::Dtype;

pub(crate) use config::Config;
#[cfg(test)]
pub(crate) use model::Split;
pub(crate) use model::{Layer, ModelShape, PerToken, Phase, Role, Tensor, count_equal};
pub(crate) use stored::Stored;

use crate::fault::{Fault, Result};
use parts::Reader;
use stored::Agreement;

/// The shape that the headers of a model's files and its `config.json` describe.
///
/// # Errors
///
/// `usage` for a missing or absurd value, and for layers of which it cannot be said what they keep.
pub(crate) fn read(config: &Config, stored: Option<&Stored>) -> Result<ModelShape> {
    let family = config.family()?;
    if config.defaults().is_none() {
        let why = format!("the family `{family}` is not known");
        return match stored {
            Some(stored) => stored::read(config, stored, &why).or_else(|fault| by_keys(config).map_err(|_| fault)),
            None => by_keys(config),
        };
    }
    let shape = Reader::new(config).and_then(|reader| reader.shape());
    match (shape, stored) {
        (Err(fault), Some(stored)) => {
            let why = format!("`config.json` does not describe the model ({})", fault.message);
            stored::read(config, stored, &why).map_err(|_| fault)
        }
        (Ok(mut shape), Some(stored)) => match stored::agree(&mut shape, stored, config) {
            Agreement::Full => Ok(shape),
            Agreement::Sizes(layers) => {
                shape.notes.push(format!(
                    "keys and values in {} have the sizes of the matrices in the files, which are not those of `config.json`",
                    schedule::layers_named(layers)
                ));
                Ok(shape)
            }
            Agreement::None => stored::read(config, stored, "the layers in the files are not those of `config.json`"),
        },
        (shape, None) => shape,
    }
}

/// The shape of an unknown family without headers: only if `config.json` states the sizes, and no key that may change what
/// layers keep is left over.
fn by_keys(config: &Config) -> Result<ModelShape> {
    let family = config.family()?;
    let needed = [
        "hidden_size",
        "num_attention_heads",
        "num_hidden_layers",
        "num_key_value_heads",
        "vocab_size",
    ];
    let strange: Vec<&str> = config.keys().filter(|key| may_change_layers(config, key)).collect();
    if needed.iter().any(|key| config.get(&[key]).is_none()) || !strange.is_empty() {
        return Err(unknown_family(family, &strange));
    }
    let mut shape = Reader::new(config)?.shape()?;
    shape.notes.push(format!(
        "the family `{family}` is not known: it is assumed to be as the keys of `config.json` say, and to have nothing that they do not say"
    ));
    Ok(shape)
}

/// Words in keys that say what layers keep.
const WORDS: [&str; 20] = [
    "attn",
    "attention",
    "window",
    "layer",
    "block",
    "pattern",
    "ssm",
    "mamba",
    "state",
    "conv",
    "latent",
    "lora",
    "compress",
    "index",
    "sparse",
    "chunk",
    "share",
    "kv",
    "recurrent",
    "hybrid",
];
/// Keys with such words that are read here, or that change nothing.
const UNDERSTOOD: [&str; 62] = [
    "_attn_implementation",
    "attention_bias",
    "attention_chunk_size",
    "attention_dropout",
    "attention_multiplier",
    "attention_probs_dropout_prob",
    "attn_implementation",
    "attn_layer_indices",
    "attn_layer_offset",
    "attn_layer_period",
    "attn_logit_softcapping",
    "attn_output_gate",
    "attn_pdrop",
    "block_configs",
    "cross_attention_layers",
    "decoder_sparse_step",
    "expert_layer_offset",
    "expert_layer_period",
    "first_k_dense_replace",
    "full_attention_interval",
    "hidden_size_per_layer_input",
    "hybrid_layer_pattern",
    "hybrid_override_pattern",
    "image_token_index",
    "index_head_dim",
    "index_n_heads",
    "index_topk",
    "interleave_moe_layer_step",
    "kv_lora_rank",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "layer_types",
    "layernorm_epsilon",
    "layers_block_type",
    "linear_attn_config",
    "mamba_conv_bias",
    "mamba_d_conv",
    "mamba_d_head",
    "mamba_d_ssm",
    "mamba_d_state",
    "mamba_expand",
    "mamba_n_groups",
    "mamba_n_heads",
    "mamba_ssm_dtype",
    "max_window_layers",
    "mlp_layer_types",
    "mlp_only_layers",
    "moe_layer_freq",
    "n_shared_experts",
    "no_rope_layer_interval",
    "no_rope_layers",
    "num_attention_heads",
    "num_hidden_layers",
    "num_kv_shared_layers",
    "num_nextn_predict_layers",
    "q_lora_rank",
    "query_pre_attn_scalar",
    "shared_expert_intermediate_size",
    "sliding_window",
    "sliding_window_pattern",
    "use_sliding_window",
    "linear_conv_kernel_dim",
];

/// Whether a key may say something of the layers that is not read here. A key that is null, false or 0 says nothing.
fn may_change_layers(config: &Config, key: &str) -> bool {
    let says = config.get(&[key]).is_some_and(|value| value != false && value != 0);
    says && WORDS.iter().any(|word| key.contains(word)) && !UNDERSTOOD.contains(&key)
}

fn unknown_family(name: &str, strange: &[&str]) -> Fault {
    let keys: Vec<String> = strange.iter().map(|key| format!("`{key}`")).collect();
    let why = match keys.len() {
        0 => String::new(),
        _ => format!(" (unknown there: {})", keys.join(", ")),
    };
    Fault::usage(format!(
        "the family `{name}` is not known: its tensors and its KV cache per token cannot be derived from `config.json`{why}"
    ))
    .hint(format!(
        "the headers of its safetensors files would decide it: give a folder that has them; known are {}",
        family::names().join(", ")
    ))
}

#[cfg(test)]
mod tests {
    //! Compares what layers keep with what transformers keeps of one sequence, by `config.json` and by headers alone.

    use std::path::Path;

    use serde_json::{Map, Value, json};

    use super::headers::StoredTensor;
    use super::model::PerSequence;
    use super::*;

    /// Made-up small models of many families, with what transformers keeps and the shapes of their tensors.
    fn caches() -> (u64, Map<String, Value>) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/shapes/caches.json");
        let known: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let caches = known["caches"].as_object().unwrap().clone();
        assert!(caches.len() >= 24);
        (known["tokens"].as_u64().unwrap(), caches)
    }

    fn sum(shape: &ModelShape, of: impl Fn(&Layer) -> u64) -> u64 {
        shape.layers.iter().map(of).sum()
    }

    fn state(shape: &ModelShape, of: impl Fn(&PerSequence) -> u64) -> u64 {
        sum(shape, |layer| layer.per_sequence.as_ref().map_or(0, &of))
    }

    fn widths(shape: &ModelShape) -> Vec<u64> {
        let layers = shape.layers.iter();
        layers
            .map(|layer| layer.per_token.iter().map(|cache| cache.heads * cache.width).sum())
            .collect()
    }

    #[test]
    fn layers_keep_what_transformers_keeps() {
        let (tokens, caches) = caches();
        for (name, cache) in &caches {
            let config = Config::new(&cache["config"]).unwrap();
            let shape = read(&config, None).unwrap();
            // Between two steps transformers keeps one token fewer than the window; the next one completes it.
            let kept = |cache: &PerToken| cache.window.map_or(tokens, |window| tokens.min(window - 1));
            let keys_and_values = sum(&shape, |layer| {
                let caches = layer.per_token.iter();
                caches.map(|cache| cache.heads * cache.width * kept(cache)).sum()
            });
            // It also keeps one input of the convolution more than engines need: as many as the kernel covers.
            let kernels = ["mamba_d_conv", "linear_conv_kernel_dim", "conv_kernel", "conv_L_cache"];
            let kernel = config.optional(&kernels).unwrap().unwrap_or(4);
            let convolution = state(&shape, |state| state.convolution / (kernel - 1) * kernel);
            // It keeps the latents of MLA expanded, for every head.
            if config.get(&["kv_lora_rank"]).is_none() {
                assert_eq!(cache["keys_and_values"], keys_and_values, "{name}");
            }
            assert_eq!(cache["convolution"], convolution, "{name}");
            assert_eq!(cache["recurrent"], state(&shape, |state| state.recurrent), "{name}");
            let tensors = cache["tensors"].as_object().unwrap();
            let stored = tensors.values().map(|dims| {
                dims.as_array()
                    .unwrap()
                    .iter()
                    .map(|one| one.as_u64().unwrap())
                    .product::<u64>()
            });
            assert_eq!(shape.parameters(), stored.sum::<u64>(), "{name}");
        }
    }

    fn headers(cache: &Value) -> Headers {
        let tensor = |(name, dims): (&String, &Value)| {
            let dims: Vec<u64> = dims
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one.as_u64().unwrap())
                .collect();
            StoredTensor {
                name: name.clone(),
                dtype: "F32".into(),
                bytes: dims.iter().product::<u64>() * 4,
                dims,
            }
        };
        Headers {
            tensors: cache["tensors"].as_object().unwrap().iter().map(tensor).collect(),
        }
    }

    /// Without the name of the family the headers give the same, or say what they do not give.
    #[test]
    fn headers_suffice_without_the_name_of_the_family() {
        let mut states = 0;
        for (name, cache) in &caches().1 {
            let known = read(&Config::new(&cache["config"]).unwrap(), None).unwrap();
            let mut renamed = cache["config"].clone();
            renamed["model_type"] = json!("renamed");
            let config = Config::new(&renamed).unwrap();
            let stored = Stored::new(&headers(cache), &config).unwrap();
            let found = read(&config, Some(&stored)).unwrap();
            assert_eq!(widths(&found), widths(&known), "{name}: {:?}", found.notes);
            let recurrent = state(&known, |state| state.recurrent + state.convolution);
            let unknown = found.notes.iter().any(|note| note.contains("unknown state in layer"));
            if !unknown {
                assert_eq!(
                    state(&found, |state| state.recurrent + state.convolution),
                    recurrent,
                    "{name}"
                );
                states += u64::from(recurrent > 0);
            }
            assert!(found.by_headers && found.parameters() > 0, "{name}");
        }
        assert!(states >= 6, "{states}");
    }

    /// Headers that agree with a known family change nothing.
    #[test]
    fn headers_agree_with_the_keys() {
        for (name, cache) in &caches().1 {
            let config = Config::new(&cache["config"]).unwrap();
            let stored = Stored::new(&headers(cache), &config).unwrap();
            let (with, without) = (read(&config, Some(&stored)).unwrap(), read(&config, None).unwrap());
            assert!(with == without, "{name}: {:?}", with.notes);
        }
    }

    #[test]
    fn an_unknown_family_is_read_by_its_keys_only_if_all_are_understood() {
        let mut json = json!({"model_type": "renamed", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
                              "num_hidden_layers": 2, "intermediate_size": 64, "tie_word_embeddings": true});
        let shape = read(&Config::new(&json).unwrap(), None).unwrap();
        assert_eq!(widths(&shape), [64, 64]);
        assert!(shape.notes[0].contains("`renamed` is not known"), "{:?}", shape.notes);
        json["memory_layers"] = json!([1]);
        let refused = read(&Config::new(&json).unwrap(), None).unwrap_err();
        assert!(refused.message.contains("`memory_layers`"), "{}", refused.message);
    }
}
