//! A model's shape: which tensors it has, and what it keeps of each token and of each sequence.
//!
//! It is read from `config.json`; where safetensors headers are at hand, the bytes of the weights come from those. A family of
//! models is data: which parts a layer consists of ([`family`]); a part says which tensors it has ([`parts`]). A family that is
//! not known is refused: nothing here guesses.

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
