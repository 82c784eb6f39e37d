//! The highest that a step of the prefill holds beside weights and KV cache.
//!
//! A step of T tokens goes through one layer at a time, so that the largest phase of any layer decides: T times the numbers that
//! live at once (see [`Phase`]). After the last layer, logits are made of one row for each sequence, in the model's type and again in
//! float32 for sampling, while the hidden states of the step still live. The larger of both is the peak. The allocator's fragmentation
//! and the workspaces of libraries are not in it.

use super::Question;
use crate::memory::shape::{Dtype, Phase, Shape};

/// Bytes on one rank, and by which formula.
pub(super) struct Activations {
    pub(super) bytes: u64,
    pub(super) source: String,
}

/// The peak of a step.
pub(super) fn activations(shape: &Shape, question: &Question, dtype: Dtype) -> Activations {
    let (step, ranks, number) = (question.step(), question.tensor_parallel, dtype.bytes(1));
    let per_token = |phase: &Phase| phase.bytes_per_token(ranks, number);
    let phases = shape.layers.iter().flat_map(|layer| &layer.phases);
    let largest = phases.max_by_key(|phase| per_token(phase));
    let layer = largest.map_or(0, |phase| per_token(phase).saturating_mul(step));

    let row = shape.vocabulary.saturating_mul(number.saturating_add(4));
    let hidden = shape.hidden.saturating_mul(number).saturating_mul(step);
    let logits = row.saturating_mul(question.concurrency).saturating_add(hidden);
    if logits > layer {
        return Activations {
            bytes: logits,
            source: format!(
                "{} rows of {} logits in {dtype} and in float32, and the hidden states of a step of {step} tokens",
                question.concurrency, shape.vocabulary
            ),
        };
    }
    let tensors = largest.map_or("", |phase| phase.tensors);
    Activations {
        bytes: layer,
        source: format!("a step of {step} tokens; {tensors}"),
    }
}
