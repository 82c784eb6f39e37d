//! What every family says in the same words.

use super::decoder::Decoder;
use crate::fault::{Fault, Result};
use crate::memory::shape::layer::counted;
use crate::memory::shape::parts::Ends;
use crate::memory::shape::{Config, Dtype, Layer, Shape};

/// Sizes that nearly all parts need.
pub(super) struct Common {
    pub(super) hidden: u64,
    pub(super) heads: u64,
    pub(super) layers: u64,
    vocabulary: u64,
    tied: bool,
    longest: Option<u64>,
}

impl Common {
    pub(super) fn read(config: &Config, tied: bool) -> Result<Self> {
        Ok(Self {
            hidden: config.number(&["hidden_size", "n_embd"])?,
            heads: config.number(&["num_attention_heads", "n_head"])?,
            layers: config.layers()?,
            vocabulary: config.number(&["vocab_size"])?,
            tied: config.flag("tie_word_embeddings", tied)?,
            longest: config.optional(&["max_position_embeddings", "n_positions"])?,
        })
    }

    /// KV heads: as many as query heads where `config.json` does not say, as transformers has it.
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

    /// The size of a head: its share of the hidden state where neither `config.json` nor the family says.
    pub(super) fn head(&self, config: &Config, default: Option<u64>) -> Result<u64> {
        let head = config.optional(&["head_dim"])?.or(default);
        head.or_else(|| self.hidden.is_multiple_of(self.heads).then(|| self.hidden / self.heads))
            .ok_or_else(|| {
                Fault::usage(format!(
                    "`config.json` has no `head_dim`, and {} heads do not divide a hidden state of {}",
                    self.heads, self.hidden
                ))
            })
    }

    /// The type of recurrent states, where `config.json` says one.
    pub(super) fn state_dtype(config: &Config) -> Result<Option<Dtype>> {
        let name = config.get(&["mamba_ssm_dtype", "mamba_ssm_cache_dtype"]);
        name.and_then(|name| name.as_str()).map(str::parse).transpose()
    }

    /// The whole shape around its layers.
    pub(super) fn shape(&self, name: &str, config: &Config, layers: Vec<Layer>, decoder: &Decoder) -> Shape {
        let ends = Ends {
            hidden: self.hidden,
            vocabulary: self.vocabulary,
            positions: if decoder.learned_positions {
                self.longest.unwrap_or(0)
            } else {
                0
            },
            norm_bias: decoder.norm_bias,
            tied: self.tied,
        };
        let left_out = config.is_multimodal().then(|| {
            "only the language model is counted: what reads images or sound is not known from `config.json` here"
                .to_owned()
        });
        Shape {
            family: name.to_owned(),
            hidden: self.hidden,
            vocabulary: self.vocabulary,
            heads: self.heads,
            longest: self.longest,
            dtype: config.dtype().ok().flatten(),
            tied: self.tied,
            ends: ends.tensors(),
            layers: counted(layers),
            left_out,
            by_headers: false,
        }
    }
}
