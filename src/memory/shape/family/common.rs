//! The keys of `config.json` that all families share.

use crate::fault::{Fault, Result};
use crate::memory::shape::config::Config;
use crate::memory::shape::dtype::Dtype;
use crate::memory::shape::model::{Layer, Shape, group_equal};
use crate::memory::shape::parts::OuterTensors;

/// Sizes that nearly all parts need.
pub(super) struct Common {
    pub(super) hidden: u64,
    pub(super) heads: u64,
    pub(super) layers: u64,
    vocabulary: u64,
    tied: bool,
    max_positions: Option<u64>,
}

impl Common {
    pub(super) fn read(config: &Config, tied: bool) -> Result<Self> {
        Ok(Self {
            hidden: config.number(&["hidden_size", "n_embd"])?,
            heads: config.number(&["num_attention_heads", "n_head"])?,
            layers: config.layers()?,
            vocabulary: config.number(&["vocab_size"])?,
            tied: config.flag("tie_word_embeddings", tied)?,
            max_positions: config.optional(&["max_position_embeddings", "n_positions"])?,
        })
    }

    /// KV heads. The default is the number of query heads, as in transformers.
    pub(super) fn kv_heads(&self, config: &Config) -> Result<u64> {
        let kv_heads = config.optional(&["num_key_value_heads"])?.unwrap_or(self.heads);
        if kv_heads > self.heads {
            return Err(Fault::usage(format!(
                "`config.json`: {kv_heads} KV heads cannot serve {} query heads",
                self.heads
            )));
        }
        Ok(kv_heads)
    }

    /// The size of a head. The default is the family's, else its share of the hidden state.
    pub(super) fn head_dim(&self, config: &Config, default: Option<u64>) -> Result<u64> {
        let head_dim = config.optional(&["head_dim"])?.or(default);
        head_dim
            .or_else(|| self.hidden.is_multiple_of(self.heads).then(|| self.hidden / self.heads))
            .ok_or_else(|| {
                Fault::usage(format!(
                    "`config.json` has no `head_dim`, and {} heads do not divide a hidden state of {}",
                    self.heads, self.hidden
                ))
            })
    }

    /// The data type of recurrent states, if stated.
    pub(super) fn state_dtype(config: &Config) -> Result<Option<Dtype>> {
        let name = config.get(&["mamba_ssm_dtype", "mamba_ssm_cache_dtype"]);
        name.and_then(|name| name.as_str()).map(str::parse).transpose()
    }

    /// The whole shape around its layers.
    pub(super) fn shape(
        &self,
        name: &str,
        config: &Config,
        layers: Vec<Layer>,
        learned_positions: bool,
        norm_bias: bool,
    ) -> Shape {
        let ends = OuterTensors {
            hidden: self.hidden,
            vocabulary: self.vocabulary,
            positions: if learned_positions {
                self.max_positions.unwrap_or(0)
            } else {
                0
            },
            norm_bias,
            tied: self.tied,
        };
        let left_out = config.is_multimodal().then(|| {
            "only the language model is counted: vision and audio parts are not read from `config.json`".to_owned()
        });
        Shape {
            family: name.to_owned(),
            hidden: self.hidden,
            vocabulary: self.vocabulary,
            heads: self.heads,
            max_positions: self.max_positions,
            dtype: config.dtype().ok().flatten(),
            tied: self.tied,
            ends: ends.tensors(),
            layers: group_equal(layers),
            left_out,
            by_headers: false,
        }
    }
}
