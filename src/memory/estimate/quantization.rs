//! Formats of quantized weights: bytes of a matrix including scales and zero points.

mod named;
mod scheme;
mod stated;

pub(in crate::memory) use scheme::Scheme;
pub(super) use scheme::{Scales, Targets};
