//! What is known of where points stop fitting: points, verdicts, dominance, the frontier and what to probe next.
//!
//! Pure: no clock, no network, no Rhai. A limit is monotone: what fits at a point fits at every easier one.

mod point;
mod verdict;

pub use point::{Point, Scalar};
pub use verdict::{Moves, Overload, Verdict};
