//! Parts of a layer: the tensors of each, what it keeps, and what a pass through it holds.
//!
//! Sizes follow the model definitions in transformers, whose own counts the tests compare with
//! (`tests/data/shapes/`). What a pass holds is the sum of the outputs that live at the same time while a chunk of a
//! prompt passes through, with fused projections and without a matrix of attention scores, as in serving engines;
//! residual and normed input included.

mod attention;
mod delta_net;
mod ends;
mod experts;
mod feed_forward;
mod latent;
mod mamba;
mod mamba2;
mod norm;

pub(super) use attention::{Attention, QkNorm};
pub(super) use delta_net::DeltaNet;
pub(super) use ends::OuterTensors;
pub(super) use experts::{Experts, SharedExpert};
pub(super) use feed_forward::FeedForward;
pub(super) use latent::LatentAttention;
pub(super) use mamba::Mamba;
pub(super) use mamba2::Mamba2;
pub(super) use norm::norms;
