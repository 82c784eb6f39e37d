//! Norms over the hidden state.

use crate::memory::shape::{Layer, Split, Tensor};

/// `count` norms; LayerNorm also has a bias.
pub(in crate::memory::shape) fn norms(count: u64, hidden: u64, bias: bool) -> Layer {
    let vectors = count * if bias { 2 } else { 1 };
    Layer {
        tensors: vec![Tensor::vector("norms", hidden, Split::Replicated).times(vectors)],
        ..Layer::default()
    }
}
