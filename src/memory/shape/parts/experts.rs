//! Routed experts (MoE), with or without a shared expert.

use super::FeedForward;
use crate::memory::shape::{Layer, Phase, Role, Split, Tensor};

/// The expert that every token passes through.
pub(in crate::memory::shape) struct SharedExpert {
    pub(in crate::memory::shape) intermediate: u64,
    /// Its output has a gate of its own.
    pub(in crate::memory::shape) gated: bool,
    pub(in crate::memory::shape) bias: bool,
}

/// Routed experts of equal size.
pub(in crate::memory::shape) struct Experts {
    pub(in crate::memory::shape) hidden: u64,
    pub(in crate::memory::shape) experts: u64,
    /// Experts per token.
    pub(in crate::memory::shape) experts_per_token: u64,
    pub(in crate::memory::shape) intermediate: u64,
    /// Router and experts have biases.
    pub(in crate::memory::shape) bias: bool,
    pub(in crate::memory::shape) shared: Option<SharedExpert>,
}

impl Experts {
    /// What a pass holds: each token's hidden state and intermediate once per expert that it passes through.
    ///
    /// Every rank holds a share of each expert's intermediate size. Expert parallelism holds as many bytes, divided
    /// differently.
    pub(in crate::memory::shape) fn layer(&self) -> Layer {
        let expert = |name, rows, columns, split, each: u64| {
            Tensor::linear(name, rows, columns, split)
                .with_role(Role::Expert)
                .times(self.experts.saturating_mul(each))
        };
        let mut tensors = vec![
            Tensor::linear("router", self.experts, self.hidden, Split::Replicated).with_role(Role::Router),
            expert("experts in", self.intermediate, self.hidden, Split::Rows, 2),
            expert("experts out", self.hidden, self.intermediate, Split::Columns, 1),
        ];
        if self.bias {
            let twice = self.experts.saturating_mul(2);
            tensors.push(Tensor::vector("router bias", self.experts, Split::Replicated));
            tensors.push(Tensor::vector("experts in bias", self.intermediate, Split::Rows).times(twice));
            tensors.push(Tensor::vector("experts out bias", self.hidden, Split::Replicated).times(self.experts));
        }
        let mut layer = Layer {
            tensors,
            phases: vec![Phase {
                tensors: "experts: residual, normed input, output; for each chosen expert outputs of the matrices in, their activation and the \
                          output; router scores in float32",
                replicated: self.hidden.saturating_mul(self.experts_per_token.saturating_add(3)),
                sharded: self
                    .intermediate
                    .saturating_mul(3)
                    .saturating_mul(self.experts_per_token),
                replicated_f32: self.experts,
                sharded_f32: 0,
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
                let gate = Tensor::linear("shared expert gate", 1, self.hidden, Split::Replicated);
                layer.tensors.push(gate.with_role(Role::Router));
            }
        }
        layer
    }
}
