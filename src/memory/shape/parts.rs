//! Puts a model together from the keys of `config.json`: what is outside of the layers, and the parts of each layer by its
//! mechanism.
//!
//! Sizes follow the model definitions in transformers, and the tests compare them with its own counts
//! (`tests/data/shapes/`); what a layer keeps follows vLLM's cache specifications. The memory of a pass is the sum of the
//! outputs that live at the same time while a chunk of a prompt passes through, with fused projections and without a
//! matrix of attention scores, as in serving engines. It includes residual and normed input. [`Config`] bounds each size,
//! so that products of two do not overflow.

use super::config::Config;
use super::family::{Family, NONE};
use super::model::{Layer, ModelShape, Role, Split, matrix, vector};
use super::schedule::{FeedForward, Mixer, Step, layers_named, schedule};
use crate::fault::Result;

/// A model being read.
pub(super) struct Reader<'a> {
    pub(super) config: &'a Config,
    pub(super) family: &'a Family,
    pub(super) hidden: u64,
    pub(super) heads: u64,
    layers: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(config: &'a Config) -> Result<Self> {
        let heads = config.optional(&["num_attention_heads", "n_head", "n_heads"])?;
        // A model without attention has none.
        let recurrent = config
            .numbers("attn_layer_indices")
            .is_some_and(|layers| layers.is_empty());
        let heads = match heads {
            None if recurrent => 1,
            None => config.number(&["num_attention_heads"])?,
            Some(heads) => heads,
        };
        Ok(Self {
            config,
            family: config.defaults().unwrap_or(&NONE),
            hidden: config.number(&["hidden_size", "n_embd", "d_model"])?,
            heads,
            layers: config.layers()?,
        })
    }

    pub(super) fn shape(&self) -> Result<ModelShape> {
        let (config, hidden) = (self.config, self.hidden);
        let vocabulary = config.number(&["vocab_size", "padded_vocab_size"])?;
        let norm = if self.family.classic { 2 } else { 1 };
        let embedding = matrix(vocabulary, hidden, Split::Vocabulary).with_role(Role::Embedding);
        let extra = config.number_or_zero(&["extra_vocabulary"])?;
        let mut ends = vec![
            matrix(vocabulary + extra, hidden, Split::Vocabulary)
                .with_role(Role::Embedding)
                .named(&["embed_tokens", "embeddings", "embed"]),
        ];
        if self.family.norms() > 0 {
            ends.push(vector(hidden, Split::Replicated).times(norm));
        }
        let tied = config.flag(&["tie_word_embeddings"], false)?;
        if !tied {
            ends.push(embedding.with_role(Role::Head).named(&["lm_head", "output", "head"]));
            if config.flag(&["output_bias", "lm_head_bias"], false)? {
                ends.push(vector(vocabulary, Split::Vocabulary));
            }
        }
        let positions = [
            "max_position_embeddings",
            "n_positions",
            "max_seq_len",
            "seq_length",
            "model_max_length",
        ];
        let max_positions = config.optional(&positions)?;
        if let Some(positions) = max_positions.filter(|_| config.get(&["learned_positions"]).is_some()) {
            ends.push(matrix(positions, hidden, Split::Replicated).with_role(Role::Embedding));
        }
        // A further embedding of each token for each layer (Gemma 3n and 4).
        let each = config.number_or_zero(&["hidden_size_per_layer_input"])?;
        if each > 0 {
            let rows = config.optional(&["vocab_size_per_layer_input"])?.unwrap_or(vocabulary);
            let width = self.layers.saturating_mul(each);
            ends.push(matrix(rows, width, Split::Vocabulary).with_role(Role::Embedding));
            ends.push(matrix(width, hidden, Split::Replicated));
            ends.push(vector(each, Split::Replicated));
        }
        // Several streams between the layers (hyper-connections), joined before the output.
        if let Some(streams) = config.optional(&["hc_mult"])? {
            ends.push(vector(streams * streams * hidden + streams + 1, Split::Replicated));
        }
        let steps = schedule(config, self.layers)?;
        let layers = (0..).zip(&steps).map(|(layer, step)| self.layer(layer, step, each));
        let layers = layers.collect::<Result<Vec<_>>>()?;
        let mut notes = Vec::new();
        let crossing = (0..).zip(&steps).filter(|(_, step)| step.mixer == Mixer::Cross);
        let crossing: Vec<u64> = crossing.map(|(layer, _)| layer).collect();
        if !crossing.is_empty() {
            notes.push(format!(
                "{} attend to an image or another input: keys and values of that input are not counted",
                layers_named(crossing)
            ));
        }
        Ok(ModelShape {
            family: config.family()?.to_owned(),
            hidden,
            vocabulary,
            heads: self.heads,
            max_positions,
            dtype: config.dtype()?,
            ends,
            tied,
            layers,
            notes,
            by_headers: false,
        })
    }

    fn layer(&self, layer: u64, step: &Step, each: u64) -> Result<Layer> {
        let hidden = self.hidden;
        let mut mixer = match step.mixer {
            Mixer::Full if self.family.parallel => self.attention(layer, None)?.with(self.recurrent()?),
            Mixer::Full => self.attention(layer, None)?,
            Mixer::Window(tokens) => self.attention(layer, Some(tokens))?,
            Mixer::Compressed(ratio) => self.compressed_attention(ratio)?,
            Mixer::Recurrent => self.recurrent()?,
            Mixer::Cross => self.cross_attention(layer)?,
            Mixer::None | Mixer::Unknown(_) => Layer::default(),
        };
        if step.shares {
            mixer = self.without_keys(mixer);
        }
        let forward = match step.feed_forward {
            FeedForward::None => Layer::default(),
            FeedForward::Usual if self.config.get(&["feed_forward"]).is_some() => Layer::default(),
            FeedForward::Usual => self.forward(layer, step.shares)?,
            FeedForward::Dense => self.dense(layer)?,
            FeedForward::Experts => self.experts(self.expert_count()?.unwrap_or(1))?,
        };
        let parts = u64::from(!mixer.tensors.is_empty()) + u64::from(!forward.tensors.is_empty());
        let mut layer = mixer.with(forward);
        let norm = if self.family.classic { 2 } else { 1 };
        // A layer that lacks one of its parts also lacks the norm before it.
        let norms = match self.family.norms() {
            2 => parts,
            norms => norms,
        };
        if norms > 0 {
            layer
                .tensors
                .push(vector(hidden, Split::Replicated).times(norms * norm));
        }
        if each > 0 {
            layer.tensors.extend([
                matrix(each, hidden, Split::Replicated),
                matrix(hidden, each, Split::Replicated),
                vector(hidden, Split::Replicated),
            ]);
        }
        if let Some(rank) = self.config.optional(&["laurel_rank"])? {
            layer.tensors.push(matrix(rank, hidden, Split::Replicated).times(2));
        }
        if let Some(streams) = self.config.optional(&["hc_mult"])? {
            let rows = streams * (streams + 2);
            let mixing = vector(rows * streams * hidden + rows + 3, Split::Replicated);
            layer.tensors.push(mixing.times(2));
        }
        Ok(layer)
    }
}
