//! The peak of a prefill step, without weights and KV cache.
//!
//! A step of T tokens runs through one layer at a time, so the largest phase of any layer decides: T times the
//! elements that live at the same time (see [`Phase`]). After the last layer, one row of logits per sequence is
//! computed in the model's type and again in float32 for sampling, while the hidden states of the step are still
//! alive. The larger of the two is the peak. Fragmentation and library workspaces are not included.

use super::EstimateRequest;
use crate::memory::shape::{Dtype, Phase, Shape};

/// Bytes on one rank, and the formula.
pub(super) struct Activations {
    pub(super) bytes: u64,
    pub(super) source: String,
}

pub(super) fn activations(shape: &Shape, request: &EstimateRequest, dtype: Dtype) -> Activations {
    let (step, ranks, number) = (request.step(), request.tensor_parallel, dtype.bytes(1));
    let per_token = |phase: &Phase| phase.bytes_per_token(ranks, number);
    let phases = shape.layers.iter().flat_map(|layer| &layer.phases);
    let largest = phases.max_by_key(|phase| per_token(phase));
    let layer = largest.map_or(0, |phase| per_token(phase).saturating_mul(step));

    let row = shape.vocabulary.saturating_mul(number.saturating_add(4));
    let hidden = shape.hidden.saturating_mul(number).saturating_mul(step);
    let logits = row.saturating_mul(request.concurrency).saturating_add(hidden);
    if logits > layer {
        return Activations {
            bytes: logits,
            source: format!(
                "{} rows of {} logits in {dtype} and in float32, and the hidden states of a step of {step} tokens",
                request.concurrency, shape.vocabulary
            ),
        };
    }
    let tensors = largest.map_or("", |phase| phase.tensors);
    Activations {
        bytes: layer,
        source: format!("a step of {step} tokens; {tensors}"),
    }
}
