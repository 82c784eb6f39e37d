//! The dense feed-forward part.

use crate::memory::shape::{Layer, Phase, Split, Tensor};

pub(in crate::memory::shape) struct FeedForward {
    pub(in crate::memory::shape) hidden: u64,
    pub(in crate::memory::shape) intermediate: u64,
    /// Two input matrices, one of which gates the other.
    pub(in crate::memory::shape) gated: bool,
    pub(in crate::memory::shape) bias: bool,
}

impl FeedForward {
    pub(in crate::memory::shape) fn layer(&self) -> Layer {
        let inputs = if self.gated { 2 } else { 1 };
        let mut tensors = vec![
            Tensor::linear("feed-forward in", self.intermediate, self.hidden, Split::Rows).times(inputs),
            Tensor::linear("feed-forward out", self.hidden, self.intermediate, Split::Columns),
        ];
        if self.bias {
            tensors.push(Tensor::vector("feed-forward in bias", self.intermediate, Split::Rows).times(inputs));
            tensors.push(Tensor::vector("feed-forward out bias", self.hidden, Split::Replicated));
        }
        Layer {
            tensors,
            phases: vec![Phase {
                tensors: "feed-forward: residual, normed input, outputs of the matrices in, their activation",
                replicated: self.hidden.saturating_mul(2),
                sharded: self.intermediate.saturating_mul(inputs + 1),
                replicated_f32: 0,
                sharded_f32: 0,
            }],
            ..Layer::default()
        }
    }
}
