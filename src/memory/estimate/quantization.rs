//! Formats of quantized weights: what a matrix takes, scales and zero points included.

mod named;
mod scheme;
mod stated;

pub(in crate::memory) use scheme::Scheme;
pub(super) use scheme::{Scales, Touches};
