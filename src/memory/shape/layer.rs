//! A layer: its tensors, what it keeps, and what a pass through it holds.

use super::{PerSequence, PerToken, Phase, Tensor};

/// Layers of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::memory) struct Layer {
    /// The number of these layers.
    pub count: u64,
    /// The parameters of one.
    pub tensors: Vec<Tensor>,
    /// The KV cache per token; `None` for a recurrent layer.
    pub per_token: Option<PerToken>,
    /// The state per sequence.
    pub per_sequence: Option<PerSequence>,
    /// What a pass through one holds, phase by phase.
    pub phases: Vec<Phase>,
}

impl Layer {
    /// Adds the tensors, state and phases of `other`.
    pub(super) fn with(mut self, other: Layer) -> Self {
        self.tensors.extend(other.tensors);
        self.per_token = self.per_token.or(other.per_token);
        self.per_sequence = self.per_sequence.or(other.per_sequence);
        self.phases.extend(other.phases);
        self
    }
}

/// Groups equal layers, in the order of their first occurrence.
pub(super) fn group_equal(layers: impl IntoIterator<Item = Layer>) -> Vec<Layer> {
    let mut kinds: Vec<Layer> = Vec::new();
    for layer in layers {
        let layer = Layer { count: 0, ..layer };
        match kinds.iter_mut().find(|kind| {
            Layer {
                count: 0,
                ..(*kind).clone()
            } == layer
        }) {
            Some(kind) => kind.count += 1,
            None => kinds.push(Layer { count: 1, ..layer }),
        }
    }
    kinds
}
