//! A model's shape: its tensors, and what it keeps per token and per sequence.
//!
//! It is read from `config.json`; if safetensors headers are available, the bytes of the weights come from those. A
//! family of models is data: the parts that its layers consist of ([`family`]). A part knows its tensors ([`parts`]).
//! Unknown families are refused rather than guessed.

mod cache;
mod config;
mod dtype;
mod family;
mod headers;
mod layer;
mod model;
mod parts;
mod phase;
mod stored;
mod tensor;
#[cfg(test)]
mod tests;

pub(in crate::memory) use cache::{PerSequence, PerToken};
pub(in crate::memory) use config::Config;
pub use dtype::Dtype;
pub use headers::Headers;
pub(in crate::memory) use layer::Layer;
pub(in crate::memory) use model::Shape;
pub(in crate::memory) use phase::Phase;
pub(in crate::memory) use tensor::{Role, Split, Tensor};
