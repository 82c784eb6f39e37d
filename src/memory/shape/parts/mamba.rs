//! Mamba as in Jamba: a state per channel, and three inner norms.

use crate::memory::shape::{Layer, PerSequence, Phase, Split, Tensor};

pub(in crate::memory::shape) struct Mamba {
    pub(in crate::memory::shape) hidden: u64,
    pub(in crate::memory::shape) inner: u64,
    pub(in crate::memory::shape) state: u64,
    pub(in crate::memory::shape) kernel: u64,
    /// Rank of the compressed time step.
    pub(in crate::memory::shape) dt_rank: u64,
    pub(in crate::memory::shape) convolution_bias: bool,
    pub(in crate::memory::shape) bias: bool,
}

impl Mamba {
    pub(in crate::memory::shape) fn layer(&self) -> Layer {
        let compressed = self.dt_rank.saturating_add(self.state.saturating_mul(2));
        let mut tensors = vec![
            Tensor::linear("mamba in", self.inner.saturating_mul(2), self.hidden, Split::Rows),
            Tensor::linear("mamba out", self.hidden, self.inner, Split::Columns),
            Tensor::linear("time step, B and C", compressed, self.inner, Split::Columns),
            Tensor::linear("time step expansion", self.inner, self.dt_rank, Split::Rows),
            Tensor::vector("time step bias and D", self.inner, Split::Rows).times(2),
            Tensor::vector("A", self.inner, Split::Rows).times(self.state),
            Tensor::vector("convolution", self.inner, Split::Rows).times(self.kernel),
            Tensor::vector("time step, B and C norms", compressed, Split::Replicated),
        ];
        if self.convolution_bias {
            tensors.push(Tensor::vector("convolution bias", self.inner, Split::Rows));
        }
        if self.bias {
            tensors.push(Tensor::vector("mamba in bias", self.inner, Split::Rows).times(2));
            tensors.push(Tensor::vector("mamba out bias", self.hidden, Split::Replicated));
        }
        Layer {
            tensors,
            per_sequence: Some(PerSequence {
                convolution: self.inner.saturating_mul(self.kernel.saturating_sub(1)),
                recurrent: self.inner.saturating_mul(self.state),
                dtype: None,
            }),
            phases: vec![Phase {
                tensors: "mamba: residual, normed input; projected input, output of the convolution, time steps, output of the scan",
                replicated: self.hidden.saturating_mul(2).saturating_add(compressed),
                sharded: self.inner.saturating_mul(5),
                replicated_f32: 0,
                sharded_f32: 0,
            }],
            ..Layer::default()
        }
    }
}
