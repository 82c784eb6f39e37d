//! What is known of a model: its files, as far as they were at hand.

use serde_json::Value;

use crate::memory::shape::Headers;

/// The contents of a model's files that say how large it is.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// `config.json`.
    pub config: Value,
    /// The headers of its safetensors files, all of them.
    pub headers: Option<Headers>,
    /// `metadata.total_size` of its `model.safetensors.index.json`: bytes of all tensors.
    pub indexed: Option<u64>,
    /// Bytes of its GGUF files, all of one model.
    pub gguf: Option<u64>,
    /// Why something of the above is absent though it was looked for, for people.
    pub notes: Vec<String>,
}
