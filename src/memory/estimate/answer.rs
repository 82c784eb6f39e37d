//! The estimate itself.

use serde::Serialize;

use super::fits::Fits;
use super::kv::Kv;
use super::model::Model;
use super::weights::{Weights, weights};
use super::{Known, Question};
use crate::fault::{Fault, Result};
use crate::memory::Breakdown;
use crate::memory::shape::{Config, Dtype, Shape};

/// Layers that keep the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerKind {
    /// How many there are.
    pub count: u64,
    /// Bytes that one keeps of each token; 0 for a recurrent layer.
    pub kv_bytes_per_token: u64,
    /// Most recent tokens that one keeps; all where absent.
    pub window: Option<u64>,
    /// Bytes that one keeps of each sequence, whatever its length.
    pub state_bytes: u64,
}

/// What a model needs. Bytes; of the whole model where not said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The model's family.
    pub family: String,
    /// Parameters, a tied output matrix counted once.
    pub parameters: u64,
    /// Positions that the model was made for.
    pub positions: Option<u64>,
    /// Bytes of all weights, replicated ones counted once.
    pub weight_bytes: u64,
    /// Type of the weights that are not quantized.
    pub dtype: Dtype,
    /// Format of the others.
    pub quantization: Option<String>,
    /// Type of the KV cache.
    pub kv_cache_dtype: Dtype,
    /// Bytes of KV cache for each token of a sequence shorter than every window, replicated heads counted once.
    pub kv_bytes_per_token: u64,
    /// The same on one rank.
    pub kv_bytes_per_token_per_rank: u64,
    /// Bytes of each sequence that do not depend on its length.
    pub state_bytes_per_sequence: u64,
    /// What the layers keep, kind by kind.
    pub layers: Vec<LayerKind>,
    /// What is needed on all ranks together.
    pub total: Breakdown,
    /// What is needed on each rank.
    pub ranks: Vec<Breakdown>,
    /// What fits, where a GPU's memory was given.
    pub fits: Option<Fits>,
    /// What is not in the figures, for people.
    pub notes: Vec<String>,
    /// What was asked for.
    pub question: Question,
}

/// What a model needs for what is asked for.
///
/// # Errors
///
/// `usage` when the question makes no sense, when the model's files do not say enough (the hint tells what would), and when ranks
/// cannot share the model's heads.
pub fn estimate(known: &Known, question: &Question) -> Result<Estimate> {
    question.check()?;
    let config = Config::new(&known.config)?;
    let shape = Shape::read(&config, known.headers.as_ref())?;
    told_enough(&shape, question)?;
    shared_out(&shape, question.tensor_parallel)?;
    let weights = weights(&shape, &config, known, question)?;
    let model = Model {
        kv: kv(&weights, question)?,
        shape,
        weights,
    };
    model.answer(known, question)
}

/// Refuses what the headers of a model of an unknown family do not tell.
fn told_enough(shape: &Shape, question: &Question) -> Result<()> {
    let asked = [
        (
            "tensor_parallel",
            question.tensor_parallel > 1,
            "how ranks share its tensors",
        ),
        (
            "quantization",
            question.quantization.is_some(),
            "which of its tensors are quantized",
        ),
        (
            "dtype",
            question.dtype.is_some() && shape.dtype.is_some(),
            "which of its tensors have another type",
        ),
    ];
    match asked.into_iter().find(|(_, asked, _)| *asked && shape.by_headers) {
        None => Ok(()),
        Some((name, _, what)) => Err(Fault::usage(format!(
            "the family `{}` is not known: {what} cannot be told",
            shape.family
        ))
        .hint(format!("leave out `{name}`"))),
    }
}

/// Refuses ranks that the model's heads cannot be shared out to, as every engine does.
fn shared_out(shape: &Shape, ranks: u64) -> Result<()> {
    if shape.heads.is_multiple_of(ranks) {
        return Ok(());
    }
    Err(Fault::usage(format!(
        "{} attention heads cannot be shared by {ranks} ranks",
        shape.heads
    ))
    .hint("choose a `tensor_parallel` that divides them"))
}

fn kv(weights: &Weights, question: &Question) -> Result<Kv> {
    let own = question.kv_cache_dtype.as_deref().filter(|name| *name != "auto");
    Ok(Kv {
        dtype: own.map_or(Ok(weights.dtype), str::parse)?,
        state: weights.dtype,
        ranks: question.tensor_parallel,
    })
}
