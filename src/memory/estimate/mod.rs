//! What a model needs before anything is started: weights, KV cache, activations, by rank of tensor parallelism.
//!
//! Figures follow from the model's [`Shape`](super::Shape) and from what is asked for; each part of the result says by which
//! formula. Only the runtime context is assumed, and marked so. What no formula gives is left out and named in the notes.

mod activations;
mod answer;
mod fits;
mod known;
mod kv;
mod model;
mod quantization;
mod question;
#[cfg(test)]
mod tests;
mod weights;

pub use answer::{Estimate, LayerKind, estimate};
pub use fits::Fits;
pub use known::Known;
pub use question::Question;
