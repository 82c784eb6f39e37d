//! What was measured beside what somebody said: differences on one scale, what cannot be, and which assumption explains a difference.

mod facts;
mod gib;
mod plausible;

pub use facts::Facts;
pub use gib::Gib;
pub use plausible::{Implausible, implausible};
