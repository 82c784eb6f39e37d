//! A model's shape: its tensors, and what it keeps per token and per sequence.
//!
//! Parameters and bytes of the weights come from the headers of the safetensors files, if there are any ([`headers`]).
//! What headers do not say is read from `config.json`: what each layer keeps per token and per sequence, and what a pass
//! through it holds ([`parts`]); a table has what the keys do not say of a family ([`family`]). Without headers, the
//! tensors follow from the same keys. Unknown families are refused rather than guessed.

mod config;
mod dtype;
mod family;
mod headers;
mod model;
mod parts;

pub(crate) use config::Config;
pub use dtype::Dtype;
pub use headers::Headers;
#[cfg(test)]
pub(crate) use model::Split;
pub(crate) use model::{Layer, Phase, Role, Shape, Tensor, count_equal};

use crate::fault::Result;

/// The shape that a `config.json` describes, or for an unknown family what the headers of its files say.
///
/// # Errors
///
/// `usage` for an unknown family without sufficient headers, and for a missing or absurd value.
pub(crate) fn read(config: &Config, headers: Option<&Headers>) -> Result<Shape> {
    match headers {
        Some(headers) if !family::is_known(config) => headers::read(config, headers),
        _ => family::read(config),
    }
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
