//! The gated delta rule (Qwen3-Next): linear attention whose state is a matrix per head.

use crate::memory::shape::{Dtype, Layer, PerSequence, Phase, Split, Tensor};

/// Sizes by their keys in `config.json`.
pub(in crate::memory::shape) struct DeltaNet {
    pub(in crate::memory::shape) hidden: u64,
    pub(in crate::memory::shape) key_heads: u64,
    pub(in crate::memory::shape) value_heads: u64,
    pub(in crate::memory::shape) key: u64,
    pub(in crate::memory::shape) value: u64,
    pub(in crate::memory::shape) kernel: u64,
    pub(in crate::memory::shape) state_dtype: Option<Dtype>,
}

impl DeltaNet {
    pub(in crate::memory::shape) fn layer(&self) -> Layer {
        let keys = self.key_heads.saturating_mul(self.key);
        let values = self.value_heads.saturating_mul(self.value);
        let mixed = keys.saturating_mul(2).saturating_add(values);
        let projected = mixed.saturating_add(values);
        Layer {
            tensors: vec![
                Tensor::linear("queries, keys, values and gate", projected, self.hidden, Split::Rows),
                Tensor::linear(
                    "beta and decay",
                    self.value_heads.saturating_mul(2),
                    self.hidden,
                    Split::Rows,
                ),
                Tensor::linear("delta net out", self.hidden, values, Split::Columns),
                Tensor::vector("convolution", mixed, Split::Rows).times(self.kernel),
                Tensor::vector("time step bias and A", self.value_heads, Split::Rows).times(2),
                Tensor::vector("delta net norm", self.value, Split::Replicated),
            ],
            per_sequence: Some(PerSequence {
                convolution: mixed.saturating_mul(self.kernel.saturating_sub(1)),
                recurrent: values.saturating_mul(self.key),
                dtype: self.state_dtype,
            }),
            phases: vec![Phase {
                tensors: "delta net: residual, normed input; projected input, output of the convolution, output of the rule",
                replicated: self.hidden.saturating_mul(2),
                sharded: projected.saturating_add(mixed).saturating_add(values),
                replicated_f32: 0,
                sharded_f32: 0,
            }],
            ..Layer::default()
        }
    }
}
