//! The model's files that were available.

use serde_json::Value;

use crate::memory::shape::Headers;

/// The contents of a model's files that say how large it is.
#[derive(Clone, Debug, Default)]
pub struct ModelFiles {
    /// `config.json`.
    pub config: Value,
    /// The headers of all its safetensors files.
    pub headers: Option<Headers>,
    /// `metadata.total_size` of its `model.safetensors.index.json`: bytes of all tensors.
    pub indexed: Option<u64>,
    /// Bytes of its GGUF files, all of one model.
    pub gguf: Option<u64>,
    /// Why something of the above is missing although it was looked for, for people.
    pub notes: Vec<String>,
}
