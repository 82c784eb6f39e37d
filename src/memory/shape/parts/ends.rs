//! Tensors outside the layers: embeddings, the last norm, the output matrix.

use crate::memory::shape::{Role, Split, Tensor};

pub(in crate::memory::shape) struct OuterTensors {
    pub(in crate::memory::shape) hidden: u64,
    pub(in crate::memory::shape) vocabulary: u64,
    /// Learned positions; 0 if positions are rotary or absent.
    pub(in crate::memory::shape) positions: u64,
    /// Whether the last norm has a bias.
    pub(in crate::memory::shape) norm_bias: bool,
    /// Whether the embedding is also the output matrix.
    pub(in crate::memory::shape) tied: bool,
}

impl OuterTensors {
    pub(in crate::memory::shape) fn tensors(&self) -> Vec<Tensor> {
        let matrix = |name, rows, split| Tensor::linear(name, rows, self.hidden, split);
        let mut tensors = vec![
            matrix("token embedding", self.vocabulary, Split::Vocabulary).with_role(Role::Embedding),
            Tensor::vector("last norm", self.hidden, Split::Replicated).times(if self.norm_bias { 2 } else { 1 }),
        ];
        if self.positions > 0 {
            tensors.push(matrix("position embedding", self.positions, Split::Replicated).with_role(Role::Embedding));
        }
        if !self.tied {
            tensors.push(matrix("output matrix", self.vocabulary, Split::Vocabulary).with_role(Role::Head));
        }
        tensors
    }
}
