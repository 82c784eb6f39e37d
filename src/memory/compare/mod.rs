//! Compares measured memory with estimates from elsewhere: differences, implausible figures, and the assumptions that
//! explain a difference.
//!
//! An [`ExternalEstimate`] comes from a calculator, another tool or another run; [`Comparison`] compares it with a
//! measured breakdown. Differences are estimate minus measured, relative to the measured value, so that an estimate
//! that is too high is positive.

mod comparison;
mod explain;
mod external_estimate;
mod facts;
mod gib;
mod plausible;
mod term;

pub use comparison::{Comparison, TermComparison};
pub use explain::Explanation;
pub use external_estimate::ExternalEstimate;
pub use facts::Facts;
pub use gib::{Gib, size};
pub use plausible::{Implausible, implausible};
pub use term::Term;
