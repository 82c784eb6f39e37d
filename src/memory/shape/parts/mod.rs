//! Parts of a layer: for each, the tensors it has, what it keeps, and what a pass through it holds.
//!
//! The sizes follow the definitions of the models in transformers, whose own counts the tests compare with
//! (`tests/data/shapes/`). What a pass holds is the sum of the outputs that live at once when a chunk of a prompt goes through,
//! with fused projections and without a matrix of attention scores, as serving engines do it; residual and normed input included.

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
pub(super) use ends::Ends;
pub(super) use experts::{Experts, Shared};
pub(super) use feed_forward::FeedForward;
pub(super) use latent::Latent;
pub(super) use mamba::Mamba;
pub(super) use mamba2::Mamba2;
pub(super) use norm::norms;
