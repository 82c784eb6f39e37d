//! One recorded point, small enough that a million of them fit in memory.

use serde_json::Value;

use super::{Moves, Scalar, Verdict};

/// A point that was recorded, and what it was answered.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its coordinates, in the order of the axes.
    pub(super) coordinates: Box<[Scalar]>,
    /// The verdict.
    pub verdict: Verdict,
    /// Its cause, where it has one.
    pub cause: Option<Box<str>>,
    /// What it says about the boundary.
    pub moves: Moves,
    /// What the prober kept.
    pub evidence: Option<Box<Value>>,
}
