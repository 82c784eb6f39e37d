//! Routed experts (MoE), with or without an expert that every token goes through.

use super::FeedForward;
use crate::memory::shape::{Layer, Phase, Role, Split, Tensor};

/// The expert that every token goes through.
pub(in crate::memory::shape) struct Shared {
    pub(in crate::memory::shape) intermediate: u64,
    /// Its output has a gate of its own.
    pub(in crate::memory::shape) gated: bool,
    pub(in crate::memory::shape) bias: bool,
}

/// Routed experts of equal size.
pub(in crate::memory::shape) struct Experts {
    pub(in crate::memory::shape) hidden: u64,
    pub(in crate::memory::shape) experts: u64,
    /// Experts that a token goes through.
    pub(in crate::memory::shape) chosen: u64,
    pub(in crate::memory::shape) intermediate: u64,
    /// Router and experts have biases.
    pub(in crate::memory::shape) bias: bool,
    pub(in crate::memory::shape) shared: Option<Shared>,
}

impl Experts {
    /// Their tensors, and what a pass holds: each token's hidden state and intermediate once for each expert it goes through.
    ///
    /// Every rank holds a share of each expert's intermediate size; expert parallelism holds as many bytes, divided otherwise.
    pub(in crate::memory::shape) fn layer(&self) -> Layer {
        let expert = |name, rows, columns, split, each: u64| {
            Tensor::linear(name, rows, columns, split)
                .with_role(Role::Expert)
                .times(self.experts.saturating_mul(each))
        };
        let mut tensors = vec![
            Tensor::linear("router", self.experts, self.hidden, Split::Whole).with_role(Role::Router),
            expert("experts in", self.intermediate, self.hidden, Split::Rows, 2),
            expert("experts out", self.hidden, self.intermediate, Split::Columns, 1),
        ];
        if self.bias {
            let twice = self.experts.saturating_mul(2);
            tensors.push(Tensor::vector("router bias", self.experts, Split::Whole));
            tensors.push(Tensor::vector("experts in bias", self.intermediate, Split::Rows).times(twice));
            tensors.push(Tensor::vector("experts out bias", self.hidden, Split::Whole).times(self.experts));
        }
        let mut layer = Layer {
            tensors,
            phases: vec![Phase {
                tensors: "experts: residual, normed input, output; for each chosen expert outputs of the matrices in, their activation and the \
                          output; router scores in float32",
                whole: self.hidden.saturating_mul(self.chosen.saturating_add(3)),
                shared: self.intermediate.saturating_mul(3).saturating_mul(self.chosen),
                whole_f32: self.experts,
                shared_f32: 0,
            }],
            ..Layer::default()
        };
        if let Some(shared) = &self.shared {
            let dense = FeedForward {
                hidden: self.hidden,
                intermediate: shared.intermediate,
                gated: true,
                bias: shared.bias,
            };
            layer = layer.with(dense.layer());
            if shared.gated {
                let gate = Tensor::linear("shared expert gate", 1, self.hidden, Split::Whole);
                layer.tensors.push(gate.with_role(Role::Router));
            }
        }
        layer
    }
}
