//! The shape of a model: its layers, their tensors and state, and the memory of a pass through them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelShape {
    /// `model_type`, as `config.json` names it.
    pub family: String,
    /// Elements of a hidden state.
    pub hidden: u64,
    /// Rows of the embedding.
    pub vocabulary: u64,
    /// Query heads, which ranks share.
    pub heads: u64,
    /// Maximum positions, if `config.json` states them.
    pub max_positions: Option<u64>,
    /// The data type of the weights, if `config.json` states it.
    pub dtype: Option<Dtype>,
    /// Tensors outside the layers: embeddings, the last norm, and the output matrix unless it is tied.
    pub ends: Vec<Tensor>,
    /// Whether the output matrix is the embedding.
    pub tied: bool,
    /// The layers, in their order.
    pub layers: Vec<Layer>,
    /// Notes for people: what is assumed, and what is not known and so not counted.
    pub notes: Vec<String>,
    /// Whether the family is unknown, so that only bytes and states are known, from the headers of the files.
    pub by_headers: bool,
}

impl ModelShape {
    /// Parameters of the whole model; a tied output matrix counts once.
    pub(crate) fn parameters(&self) -> u64 {
        let tensors = self.tensors().map(|(_, tensor)| tensor.parameters());
        tensors.fold(0, u64::saturating_add)
    }

    /// Every tensor with the number of its layer; `None` outside of the layers.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (Option<u64>, &Tensor)> {
        let ends = self.ends.iter().map(|tensor| (None, tensor));
        let layers = (0..).zip(&self.layers);
        ends.chain(layers.flat_map(|(number, layer)| layer.tensors.iter().map(move |tensor| (Some(number), tensor))))
    }
}

/// One layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layer {
    /// Its parameters.
    pub tensors: Vec<Tensor>,
    /// Its caches of tokens: keys and values, and the keys of an indexer. None in a recurrent layer, and in one that reads
    /// the cache of another.
    pub per_token: Vec<PerToken>,
    /// The state per sequence.
    pub per_sequence: Option<PerSequence>,
    /// The memory of a pass through one layer, phase by phase.
    pub phases: Vec<Phase>,
}

impl Layer {
    /// A layer of these tensors with one phase.
    pub(super) fn new(tensors: Vec<Tensor>, phase: Phase) -> Self {
        Self {
            tensors,
            phases: vec![phase],
            ..Self::default()
        }
    }

    /// Adds a cache of tokens.
    pub(super) fn keeping(mut self, cache: PerToken) -> Self {
        self.per_token.push(cache);
        self
    }

    /// Adds a state of `recurrent` elements per sequence, and the last inputs of a convolution: `inputs` elements each,
    /// with a kernel of `kernel`.
    pub(super) fn with_state(self, (inputs, kernel): (u64, u64), recurrent: u64, dtype: Option<Dtype>) -> Self {
        let convolution = inputs.saturating_mul(kernel - 1);
        let per_sequence = Some(PerSequence {
            convolution,
            recurrent,
            dtype,
        });
        Self { per_sequence, ..self }
    }

    /// Adds the tensors, state and phases of `other`.
    pub(super) fn with(mut self, other: Layer) -> Self {
        self.tensors.extend(other.tensors);
        self.per_token.extend(other.per_token);
        self.per_sequence = self.per_sequence.or(other.per_sequence);
        self.phases.extend(other.phases);
        self
    }
}

/// Adds up the counts of equal items, in the order of their first occurrence.
pub(crate) fn count_equal<T: PartialEq>(items: impl IntoIterator<Item = (u64, T)>) -> Vec<(u64, T)> {
    let mut counted: Vec<(u64, T)> = Vec::new();
    for (count, item) in items {
        match counted.iter_mut().find(|(_, known)| *known == item) {
            Some((known, _)) => *known += count,
            None => counted.push((count, item)),
        }
    }
    counted
}

/// A cache of tokens: keys and values, the latent that replaces them, or the keys of an indexer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PerToken {
    /// KV heads, which ranks share. 1 for a latent and for an indexer; every rank keeps those.
    pub heads: u64,
    /// Elements of an entry per head (key and value together), or bytes, as `layout` says.
    pub width: u64,
    /// The number of most recent tokens that are kept; `None` for all.
    pub window: Option<u64>,
    /// Tokens that one entry stands for: 1, unless the layer compresses them.
    pub tokens: u64,
    pub layout: Layout,
}

/// How an entry of a cache is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Elements in the type of the KV cache.
    Elements,
    /// Elements in the type of the KV cache; with FP8 these many bytes, scales and unquantized parts included.
    Packed { fp8: u64 },
    /// Bytes, whatever the type of the KV cache.
    Bytes,
}

impl PerToken {
    /// An entry for every token, in the type of the KV cache.
    pub(super) fn new(heads: u64, width: u64, window: Option<u64>) -> Self {
        Self {
            heads,
            width,
            window,
            tokens: 1,
            layout: Layout::Elements,
        }
    }

    /// An entry of `bytes` for every `tokens` tokens, kept by every rank.
    pub(super) fn of_bytes(bytes: u64, tokens: u64, window: Option<u64>) -> Self {
        Self {
            tokens,
            layout: Layout::Bytes,
            ..Self::new(1, bytes, window)
        }
    }

    /// Bytes of an entry on one of `ranks`.
    pub(crate) fn entry(&self, dtype: Dtype, ranks: u64) -> u64 {
        let width = self.heads.div_ceil(ranks.max(1)).max(1).saturating_mul(self.width);
        match self.layout {
            Layout::Elements => dtype.bytes(width),
            Layout::Packed { fp8 } if dtype == Dtype::Fp8 => fp8,
            Layout::Packed { .. } => dtype.bytes(width),
            Layout::Bytes => width,
        }
    }
}

/// The state of a recurrent layer (Mamba, gated delta rule), whose size does not depend on the sequence length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PerSequence {
    /// Inputs that the convolution still needs (one less than its kernel), in the model's type.
    pub convolution: u64,
    pub recurrent: u64,
    /// The type of the recurrent state; `None` for the model's.
    pub dtype: Option<Dtype>,
}

/// Elements per token that live at the same time in one phase of a layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Phase {
    /// The tensors, for people.
    pub tensors: &'static str,
    /// Elements in the model's type on every rank.
    pub replicated: u64,
    /// Elements in the model's type that ranks share.
    pub sharded: u64,
    /// Float32 elements on every rank.
    pub replicated_f32: u64,
    /// Float32 elements that ranks share.
    pub sharded_f32: u64,
}

impl Phase {
    /// Bytes per token on one of `ranks`, with `bytes` per element of the model's type.
    pub(crate) fn bytes_per_token(&self, ranks: u64, bytes: u64) -> u64 {
        let ranks = ranks.max(1);
        let model = self.replicated.saturating_add(self.sharded.div_ceil(ranks));
        let single = self.replicated_f32.saturating_add(self.sharded_f32.div_ceil(ranks));
        model.saturating_mul(bytes).saturating_add(single.saturating_mul(4))
    }
}

/// vLLM's and SGLang's `VocabParallelEmbedding` pad vocabularies to a multiple of this before ranks share them.
const VOCABULARY_MULTIPLE: u64 = 64;

/// The purpose of a tensor, which decides whether it is quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
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
pub(crate) enum Split {
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
pub(crate) struct Tensor {
    /// Outputs.
    pub rows: u64,
    /// Inputs.
    pub columns: u64,
    /// The number of copies: one per expert.
    pub copies: u64,
    pub role: Role,
    pub split: Split,
    /// Names of the modules that hold it, below the layer, as families call them; a quantization excludes modules by name.
    pub modules: &'static [&'static str],
}

/// A matrix of a layer.
pub(super) fn matrix(rows: u64, columns: u64, split: Split) -> Tensor {
    Tensor {
        rows,
        columns,
        copies: 1,
        role: Role::Linear,
        split,
        modules: &[],
    }
}

/// A vector, or a small kernel that counts as one.
pub(super) fn vector(rows: u64, split: Split) -> Tensor {
    matrix(rows, 1, split).with_role(Role::Vector)
}

impl Tensor {
    pub(super) fn with_role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    pub(super) fn named(self, modules: &'static [&'static str]) -> Self {
        Self { modules, ..self }
    }

    pub(super) fn times(self, copies: u64) -> Self {
        Self { copies, ..self }
    }

    pub(crate) fn parameters(&self) -> u64 {
        self.rows.saturating_mul(self.columns).saturating_mul(self.copies)
    }

    /// The share of one of `ranks`. Shares are rounded up, as in every engine.
    pub(crate) fn on_rank(&self, ranks: u64) -> Self {
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

/// The data type of stored elements, which determines their size. Some types pack elements in blocks with a scale
/// (llama.cpp).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// 4 bytes.
    Float32,
    /// 2 bytes.
    Float16,
    /// 2 bytes.
    Bfloat16,
    /// 1 byte, any variant.
    Fp8,
    /// 1 byte.
    Int8,
    /// Blocks of 16 elements in 4 bits with a 1-byte scale, 9 bytes.
    Nvfp4,
    /// llama.cpp: blocks of 32 elements with a 2-byte scale, 34 bytes.
    #[serde(rename = "q8_0")]
    Q8_0,
    /// llama.cpp: blocks of 32 elements in 4 bits with a 2-byte scale, 18 bytes.
    #[serde(rename = "q4_0")]
    Q4_0,
}

impl Dtype {
    const ALL: [(Dtype, &'static [&'static str]); 8] = [
        (Dtype::Float32, &["float32", "f32", "fp32", "float"]),
        (Dtype::Float16, &["float16", "f16", "fp16", "half"]),
        (Dtype::Bfloat16, &["bfloat16", "bf16"]),
        (
            Dtype::Fp8,
            &[
                "fp8",
                "fp8_e4m3",
                "fp8_e5m2",
                "float8_e4m3fn",
                "float8_e5m2",
                "fp8_e4m3fn",
            ],
        ),
        (Dtype::Int8, &["int8"]),
        (Dtype::Nvfp4, &["nvfp4"]),
        (Dtype::Q8_0, &["q8_0"]),
        (Dtype::Q4_0, &["q4_0"]),
    ];

    /// Bytes of this many elements, rounded up to full blocks.
    pub fn bytes(self, numbers: u64) -> u64 {
        match self {
            Dtype::Float32 => numbers.saturating_mul(4),
            Dtype::Float16 | Dtype::Bfloat16 => numbers.saturating_mul(2),
            Dtype::Fp8 | Dtype::Int8 => numbers,
            Dtype::Nvfp4 => numbers.div_ceil(16).saturating_mul(9),
            Dtype::Q8_0 => numbers.div_ceil(32).saturating_mul(34),
            Dtype::Q4_0 => numbers.div_ceil(32).saturating_mul(18),
        }
    }
}

impl FromStr for Dtype {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self> {
        let wanted = text.trim_start_matches("torch.").to_ascii_lowercase();
        let known = Self::ALL.iter().find(|(_, names)| names.contains(&wanted.as_str()));
        known.map(|(dtype, _)| *dtype).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(_, names)| format!("`{}`", names[0])).collect();
            Fault::usage(format!("`{text}` is not a known data type")).hint(format!("one of {}", names.join(", ")))
        })
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::ALL.iter().find(|(dtype, _)| dtype == self);
        f.write_str(known.map_or("", |(_, names)| names[0]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kv_heads_are_replicated_when_they_are_fewer_than_ranks() {
        let keys = matrix(8 * 128, 4096, Split::Heads(8));
        assert_eq!(keys.on_rank(4).rows, 2 * 128);
        assert_eq!(keys.on_rank(16).rows, 128);
        let embedding = matrix(32_001, 8, Split::Vocabulary);
        assert_eq!(embedding.on_rank(2).rows, 32_064 / 2);
        assert_eq!(embedding.on_rank(1).rows, 32_001);
    }

    proptest! {
        #[test]
        fn ranks_hold_all_of_it(rows in 1..5000_u64, columns in 1..500_u64, heads in 1..64_u64, ranks in 1..16_u64, kind in 0..5) {
            let split = [Split::Replicated, Split::Rows, Split::Columns, Split::Heads(heads), Split::Vocabulary][kind as usize];
            let rows = if let Split::Heads(heads) = split { rows * heads } else { rows };
            let tensor = matrix(rows, columns, split);
            prop_assert!(tensor.on_rank(ranks).parameters() * ranks >= tensor.parameters());
            prop_assert!(tensor.on_rank(ranks).parameters() <= tensor.parameters().next_multiple_of(64) + 64 * columns);
        }
    }
}

#[cfg(test)]
mod dtype_tests {
    use super::*;

    #[test]
    fn names_are_read_as_engines_write_them() {
        assert_eq!("torch.bfloat16".parse::<Dtype>().unwrap(), Dtype::Bfloat16);
        assert_eq!("fp8_e5m2".parse::<Dtype>().unwrap(), Dtype::Fp8);
        assert!("nf3".parse::<Dtype>().unwrap_err().hint.unwrap().contains("`float16`"));
        assert_eq!(Dtype::Q8_0.to_string(), "q8_0");
        assert_eq!((Dtype::Q8_0.bytes(64), Dtype::Q4_0.bytes(33)), (68, 36));
    }
}
