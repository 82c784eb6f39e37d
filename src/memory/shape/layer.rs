//! A layer: its tensors, what it keeps, what it holds at once.

use super::{PerSequence, PerToken, Phase, Tensor};

/// Layers of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::memory) struct Layer {
    /// How many there are.
    pub count: u64,
    /// The parameters of one.
    pub tensors: Vec<Tensor>,
    /// What one keeps of each token; none for a recurrent layer.
    pub per_token: Option<PerToken>,
    /// What one keeps of each sequence.
    pub per_sequence: Option<PerSequence>,
    /// What a pass through one holds, phase after phase.
    pub phases: Vec<Phase>,
}

impl Layer {
    /// Adds the tensors of `other`, what it keeps and its phases.
    pub(super) fn with(mut self, other: Layer) -> Self {
        self.tensors.extend(other.tensors);
        self.per_token = self.per_token.or(other.per_token);
        self.per_sequence = self.per_sequence.or(other.per_sequence);
        self.phases.extend(other.phases);
        self
    }
}

/// Counts equal layers, in the order in which their kinds first come.
pub(super) fn counted(layers: impl IntoIterator<Item = Layer>) -> Vec<Layer> {
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
