//! Mamba-2 (Bamba, Falcon H1, Granite 4): a state per head, and the inputs that the convolution still needs.

use crate::memory::shape::{Dtype, Layer, PerSequence, Phase, Split, Tensor};

/// Sizes by their keys in `config.json`.
pub(in crate::memory::shape) struct Mamba2 {
    pub(in crate::memory::shape) hidden: u64,
    /// Inner size: heads times their size.
    pub(in crate::memory::shape) inner: u64,
    pub(in crate::memory::shape) heads: u64,
    pub(in crate::memory::shape) groups: u64,
    pub(in crate::memory::shape) state: u64,
    pub(in crate::memory::shape) kernel: u64,
    pub(in crate::memory::shape) convolution_bias: bool,
    pub(in crate::memory::shape) in_bias: bool,
    pub(in crate::memory::shape) out_bias: bool,
    /// The gated norm before the output.
    pub(in crate::memory::shape) norm: bool,
    pub(in crate::memory::shape) state_dtype: Option<Dtype>,
}

impl Mamba2 {
    pub(in crate::memory::shape) fn layer(&self) -> Layer {
        let mixed = self
            .inner
            .saturating_add(self.groups.saturating_mul(self.state).saturating_mul(2));
        let projected = self.inner.saturating_add(mixed).saturating_add(self.heads);
        let mut tensors = vec![
            Tensor::linear("mamba in", projected, self.hidden, Split::Rows),
            Tensor::linear("mamba out", self.hidden, self.inner, Split::Columns),
            Tensor::vector("convolution", mixed, Split::Rows).times(self.kernel),
            Tensor::vector("time step bias, A and D", self.heads, Split::Rows).times(3),
        ];
        if self.convolution_bias {
            tensors.push(Tensor::vector("convolution bias", mixed, Split::Rows));
        }
        if self.in_bias {
            tensors.push(Tensor::vector("mamba in bias", projected, Split::Rows));
        }
        if self.out_bias {
            tensors.push(Tensor::vector("mamba out bias", self.hidden, Split::Replicated));
        }
        if self.norm {
            tensors.push(Tensor::vector("mamba norm", self.inner, Split::Rows));
        }
        Layer {
            tensors,
            per_sequence: Some(PerSequence {
                convolution: mixed.saturating_mul(self.kernel.saturating_sub(1)),
                recurrent: self.inner.saturating_mul(self.state),
                dtype: self.state_dtype,
            }),
            phases: vec![Phase {
                tensors: "mamba: residual, normed input; projected input, output of the convolution, output of the scan",
                replicated: self.hidden.saturating_mul(2),
                sharded: projected.saturating_add(mixed).saturating_add(self.inner),
                replicated_f32: 0,
                sharded_f32: 0,
            }],
            ..Layer::default()
        }
    }
}
