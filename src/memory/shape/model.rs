//! The shape of a whole model.

use super::config::Config;
use super::{Dtype, Headers, Layer, Tensor, family, stored};
use crate::fault::Result;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::memory) struct Shape {
    /// `model_type`, as `config.json` names it.
    pub family: String,
    /// Elements of a hidden state.
    pub hidden: u64,
    /// Rows of the embedding.
    pub vocabulary: u64,
    /// Query heads, which ranks share.
    pub heads: u64,
    /// Maximum positions, if `config.json` states them.
    pub max_positions: Option<u64>,
    /// The data type of the weights, if `config.json` states it.
    pub dtype: Option<Dtype>,
    /// Whether the embedding is also the output matrix.
    pub tied: bool,
    /// Tensors outside the layers: embeddings, the last norm, and the output matrix unless it is tied.
    pub ends: Vec<Tensor>,
    /// The layers, equal ones grouped.
    pub layers: Vec<Layer>,
    /// A note for people on parts of the model that are not counted, such as a vision tower.
    pub left_out: Option<String>,
    /// The family is unknown: only bytes and what is kept are known, from the headers of the files.
    pub by_headers: bool,
}

impl Shape {
    /// The shape that a `config.json` describes, or for an unknown family what the headers of its files say.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown family without sufficient headers, and for a missing or absurd value.
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

    /// Every tensor with its number of occurrences.
    pub(in crate::memory) fn tensors(&self) -> impl Iterator<Item = (u64, &Tensor)> {
        let ends = self.ends.iter().map(|tensor| (1, tensor));
        let layers = self.layers.iter();
        ends.chain(layers.flat_map(|layer| layer.tensors.iter().map(|tensor| (layer.count, tensor))))
    }
}
