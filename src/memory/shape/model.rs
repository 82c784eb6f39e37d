//! The shape of a whole model.

use super::config::Config;
use super::{Dtype, Headers, Layer, Tensor, family, stored};
use crate::fault::Result;

/// What a model consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::memory) struct Shape {
    /// `model_type`: the family, as `config.json` names it.
    pub family: String,
    /// Numbers in a hidden state.
    pub hidden: u64,
    /// Rows of the embedding: ids that the model knows.
    pub vocabulary: u64,
    /// Query heads: what ranks share.
    pub heads: u64,
    /// Positions that it was made for, where `config.json` says.
    pub longest: Option<u64>,
    /// The type of the weights, where `config.json` says.
    pub dtype: Option<Dtype>,
    /// Whether the embedding is also the output matrix.
    pub tied: bool,
    /// Tensors outside the layers: embeddings, the last norm, the output matrix where it is not the embedding.
    pub ends: Vec<Tensor>,
    /// The layers, equal ones counted.
    pub layers: Vec<Layer>,
    /// Parts of the model that are not counted, for people: a vision tower.
    pub left_out: Option<String>,
    /// The family is not known: only bytes and what is kept are told, by the headers of the files.
    pub by_headers: bool,
}

impl Shape {
    /// The shape that a `config.json` describes, or, for a family that is not known, what the headers of its files tell.
    ///
    /// # Errors
    ///
    /// `usage` for a family that is not known and headers that are absent or do not tell enough, and for a value that is missing or
    /// absurd.
    pub(in crate::memory) fn read(config: &Config, headers: Option<&Headers>) -> Result<Self> {
        match headers {
            Some(headers) if !family::is_known(config) => stored::read(config, headers),
            _ => family::read(config),
        }
    }

    /// Parameters of the whole model; a tied output matrix counts once.
    #[must_use]
    pub(in crate::memory) fn parameters(&self) -> u64 {
        self.tensors().fold(0, |sum: u64, (count, tensor)| {
            sum.saturating_add(tensor.parameters().saturating_mul(count))
        })
    }

    /// Every tensor with how often it comes.
    pub(in crate::memory) fn tensors(&self) -> impl Iterator<Item = (u64, &Tensor)> {
        let ends = self.ends.iter().map(|tensor| (1, tensor));
        let layers = self.layers.iter();
        ends.chain(layers.flat_map(|layer| layer.tensors.iter().map(|tensor| (layer.count, tensor))))
    }
}
