//! Compares measured memory with estimates from elsewhere: differences, implausible figures, and the assumptions that
//! explain a difference.
//!
//! An [`ExternalEstimate`] comes from a calculator, another tool or another run; [`Comparison`] compares it with a
//! measured breakdown. Differences are estimate minus measured, relative to the measured value, so that an estimate
//! that is too high is positive.

mod comparison;
mod explain;
mod external_estimate;
mod plausible;
mod terms;

pub use comparison::Comparison;
pub use explain::Explanation;
pub use external_estimate::{ExternalEstimate, Facts};
pub use plausible::{Implausible, implausible};
pub use terms::{Term, TermComparison, size};
