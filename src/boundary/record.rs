//! One recorded point, small enough that a million of them fit in memory.

use serde_json::Value;

use super::{Moves, Scalar, Verdict};

/// A recorded point and its answer.
#[derive(Clone, Debug)]
pub struct Record {
    /// In the order of the axes.
    pub(super) coordinates: Box<[Scalar]>,
    /// The verdict.
    pub verdict: Verdict,
    /// The cause, if any.
    pub cause: Option<Box<str>>,
    /// The effect on the boundary.
    pub moves: Moves,
    /// What the prober recorded.
    pub evidence: Option<Box<Value>>,
}
