//! The result of an estimate.

use serde::Serialize;

use super::fits::Fits;
use super::kv::Kv;
use super::model::Model;
use super::weights::{Weights, weights};
use super::{EstimateRequest, ModelFiles};
use crate::fault::{Fault, Result};
use crate::memory::Breakdown;
use crate::memory::shape::{Config, Dtype, Shape};

/// Layers that keep the same state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerKind {
    /// The number of these layers.
    pub count: u64,
    /// Bytes per token of one layer; 0 for a recurrent layer.
    pub kv_bytes_per_token: u64,
    /// Most recent tokens that a layer keeps; `None` for all.
    pub window: Option<u64>,
    /// Bytes per sequence of one layer, whatever its length.
    pub state_bytes: u64,
}

/// The memory that a model needs, in bytes; of the whole model unless noted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The model's family.
    pub family: String,
    /// Parameters; a tied output matrix counts once.
    pub parameters: u64,
    /// The model's maximum positions.
    pub positions: Option<u64>,
    /// Bytes of all weights; replicated ones count once.
    pub weight_bytes: u64,
    /// Data type of the weights that are not quantized.
    pub dtype: Dtype,
    /// Format of the quantized weights.
    pub quantization: Option<String>,
    /// Data type of the KV cache.
    pub kv_cache_dtype: Dtype,
    /// Bytes of KV cache per token of a sequence shorter than every window; replicated heads count once.
    pub kv_bytes_per_token: u64,
    /// The same on one rank.
    pub kv_bytes_per_token_per_rank: u64,
    /// Bytes per sequence that do not depend on its length.
    pub state_bytes_per_sequence: u64,
    /// The state that the layers keep, by kind.
    pub layers: Vec<LayerKind>,
    /// The memory of all ranks together.
    pub total: Breakdown,
    /// The memory of each rank.
    pub ranks: Vec<Breakdown>,
    /// What fits, if a GPU's memory was given.
    pub fits: Option<Fits>,
    /// What the figures do not include, for people.
    pub notes: Vec<String>,
    /// The request.
    pub question: EstimateRequest,
}

/// Estimates the memory that a model needs.
///
/// # Errors
///
/// `usage` if the request is invalid, if the model's files do not say enough (the hint names what would), or if ranks
/// cannot share the model's heads.
pub fn estimate(files: &ModelFiles, request: &EstimateRequest) -> Result<Estimate> {
    request.check()?;
    let config = Config::new(&files.config)?;
    let shape = Shape::read(&config, files.headers.as_ref())?;
    check_headers_suffice(&shape, request)?;
    check_heads_divide(&shape, request.tensor_parallel)?;
    let weights = weights(&shape, &config, files, request)?;
    let model = Model {
        kv: kv(&weights, request)?,
        shape,
        weights,
    };
    model.answer(files, request)
}

/// Rejects options that need more than the headers of an unknown family.
fn check_headers_suffice(shape: &Shape, request: &EstimateRequest) -> Result<()> {
    let requested = [
        (
            "tensor_parallel",
            request.tensor_parallel > 1,
            "how ranks share its tensors",
        ),
        (
            "quantization",
            request.quantization.is_some(),
            "which of its tensors are quantized",
        ),
        (
            "dtype",
            request.dtype.is_some() && shape.dtype.is_some(),
            "which of its tensors have another type",
        ),
    ];
    match requested
        .into_iter()
        .find(|(_, requested, _)| *requested && shape.by_headers)
    {
        None => Ok(()),
        Some((name, _, what)) => Err(Fault::usage(format!(
            "the family `{}` is not known: {what} cannot be determined",
            shape.family
        ))
        .hint(format!("leave out `{name}`"))),
    }
}

/// Rejects ranks that cannot share the model's heads, as every engine does.
fn check_heads_divide(shape: &Shape, ranks: u64) -> Result<()> {
    if shape.heads.is_multiple_of(ranks) {
        return Ok(());
    }
    Err(Fault::usage(format!(
        "{} attention heads cannot be shared by {ranks} ranks",
        shape.heads
    ))
    .hint("choose a `tensor_parallel` that divides them"))
}

fn kv(weights: &Weights, request: &EstimateRequest) -> Result<Kv> {
    let stored = request.kv_cache_dtype.as_deref().filter(|name| *name != "auto");
    Ok(Kv {
        dtype: stored.map_or(Ok(weights.dtype), str::parse)?,
        state: weights.dtype,
        ranks: request.tensor_parallel,
    })
}
