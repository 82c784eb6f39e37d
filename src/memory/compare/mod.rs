//! What was measured beside what somebody said: differences on one scale, what cannot be, and which assumption explains a difference.
//!
//! A [`Claim`] is what an estimate, another tool or another run says; [`Comparison`] sets it beside a measured breakdown. The scale is
//! the same everywhere: said less measured, relative to the measured, so that too high is above zero.

mod claim;
mod comparison;
mod explain;
mod facts;
mod gib;
mod plausible;
mod term;

pub use claim::Claim;
pub use comparison::{Comparison, Row};
pub use explain::Explanation;
pub use facts::Facts;
pub use gib::{Gib, size};
pub use plausible::{Implausible, implausible};
pub use term::Term;
