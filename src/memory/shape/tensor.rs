//! A tensor of parameters: its role, and the share of a tensor-parallel rank.

/// vLLM's and SGLang's `VocabParallelEmbedding` pad vocabularies to a multiple of this before ranks share them.
const VOCABULARY_MULTIPLE: u64 = 64;

/// What a tensor is for, which decides whether it is quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory) enum Role {
    /// A matrix of a layer.
    Linear,
    /// A matrix of each routed expert.
    Expert,
    /// The matrix that chooses experts.
    Router,
    /// The embedding of tokens or positions.
    Embedding,
    /// The output matrix, from hidden states to logits.
    Head,
    /// Vectors and small kernels: norms, biases, convolutions. Never quantized.
    Vector,
}

/// How ranks share a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory) enum Split {
    /// Each rank has all of it.
    Replicated,
    /// Each rank has a share of the rows (outputs).
    Rows,
    /// Each rank has a share of the columns (inputs).
    Columns,
    /// Each rank has a share of this many heads of equal rows, at least one: KV heads are replicated if there are
    /// fewer than ranks.
    Heads(u64),
    /// Each rank has a share of the padded vocabulary.
    Vocabulary,
}

/// `copies` equal matrices of `rows` outputs and `columns` inputs; a vector has one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::memory) struct Tensor {
    /// For people.
    pub name: &'static str,
    /// Outputs.
    pub rows: u64,
    /// Inputs.
    pub columns: u64,
    /// The number of copies: one per expert.
    pub copies: u64,
    pub role: Role,
    pub split: Split,
}

impl Tensor {
    pub(super) fn linear(name: &'static str, rows: u64, columns: u64, split: Split) -> Self {
        Self {
            name,
            rows,
            columns,
            copies: 1,
            role: Role::Linear,
            split,
        }
    }

    /// A vector, or what counts as one.
    pub(super) fn vector(name: &'static str, rows: u64, split: Split) -> Self {
        Self {
            role: Role::Vector,
            ..Self::linear(name, rows, 1, split)
        }
    }

    pub(super) fn with_role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    pub(super) fn times(self, copies: u64) -> Self {
        Self { copies, ..self }
    }

    #[must_use]
    pub(in crate::memory) fn parameters(&self) -> u64 {
        self.rows.saturating_mul(self.columns).saturating_mul(self.copies)
    }

    /// The share of one of `ranks`. Shares are rounded up, as in every engine.
    #[must_use]
    pub(in crate::memory) fn on_rank(&self, ranks: u64) -> Self {
        let mut share = self.clone();
        if ranks <= 1 {
            return share;
        }
        match self.split {
            Split::Replicated => {}
            Split::Rows => share.rows = self.rows.div_ceil(ranks),
            Split::Columns => share.columns = self.columns.div_ceil(ranks),
            Split::Heads(heads) => {
                let width = self.rows / heads.max(1);
                share.rows = width.saturating_mul(heads.div_ceil(ranks).max(1));
            }
            Split::Vocabulary => {
                share.rows = self.rows.next_multiple_of(VOCABULARY_MULTIPLE).div_ceil(ranks);
            }
        }
        share
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kv_heads_are_replicated_when_they_are_fewer_than_ranks() {
        let keys = Tensor::linear("k", 8 * 128, 4096, Split::Heads(8));
        assert_eq!(keys.on_rank(4).rows, 2 * 128);
        assert_eq!(keys.on_rank(16).rows, 128);
        let embedding = Tensor::linear("embedding", 32_001, 8, Split::Vocabulary);
        assert_eq!(embedding.on_rank(2).rows, 32_064 / 2);
        assert_eq!(embedding.on_rank(1).rows, 32_001);
    }

    proptest! {
        #[test]
        fn ranks_hold_all_of_it(rows in 1..5000_u64, columns in 1..500_u64, heads in 1..64_u64, ranks in 1..16_u64, kind in 0..5) {
            let split = [Split::Replicated, Split::Rows, Split::Columns, Split::Heads(heads), Split::Vocabulary][kind as usize];
            let rows = if let Split::Heads(heads) = split { rows * heads } else { rows };
            let tensor = Tensor::linear("t", rows, columns, split);
            prop_assert!(tensor.on_rank(ranks).parameters() * ranks >= tensor.parameters());
            prop_assert!(tensor.on_rank(ranks).parameters() <= tensor.parameters().next_multiple_of(64) + 64 * columns);
        }
    }
}
