//! Estimates what a model needs before anything is started: weights, KV cache and activations, per tensor-parallel
//! rank.
//!
//! Figures follow from the model's [`Shape`](super::Shape) and the request; each part states its formula. Only the
//! runtime context is assumed, and marked so. What no formula gives is left out and named in the notes.

mod activations;
mod answer;
mod files;
mod fits;
mod kv;
mod model;
mod quantization;
mod request;
#[cfg(test)]
mod tests;
mod weights;

pub use answer::{Estimate, LayerKind, estimate};
pub use files::ModelFiles;
pub use fits::Fits;
pub use request::EstimateRequest;
