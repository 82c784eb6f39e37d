//! The search for the limit up to which points fit: points, verdicts, dominance, frontier, and the next point to
//! probe.
//!
//! Pure: no clock, no network, no Rhai. Limits are monotone: if a point fits, every easier point fits.
//!
//! [`Axis`] and [`Lattice`] convert points to cells whose coordinates all grow harder. [`Boundary`] holds the recorded
//! points and answers what they prove, from a `view` of everything derived from them: the maximal fitting and minimal
//! failing cells (`dominance`), and the volumes between them (`volume`). `contradictions` finds answers that no
//! monotone limit allows; `slice` and `staircase` make outlines for charts.
//!
//! The search: `version_space` holds memory limits that agree with every answer (the hypotheses), and `open_region`
//! uses them to estimate how much of the open region fits. `search` proposes the next points. The hypotheses choose
//! them by vote (`committee`); with two free axes they follow a `plan` of corners. Otherwise they come from the largest
//! open boxes (`largest_boxes`), or from `rays` with a tolerance. `verify` plans the probes that verify a predicted
//! limit. `predict` reports expectations, which never count as proof. [`Limit`] is the boundary as one inequality.
//! [`memory_model`] predicts the memory that a point takes.
//!
//! For benchmarks of strategies: `neighbours` is tgi-profiler's search, and [`KnownBoundary`] a boundary to score
//! against.

mod ahead;
mod answer;
mod axis;
#[expect(clippy::module_inception, reason = "the module is named after its main type")]
mod boundary;
mod cause;
mod committee;
mod contradictions;
mod dominance;
mod in_flight;
mod known_boundary;
mod largest_boxes;
mod lattice;
mod limit;
pub mod memory_model;
mod neighbours;
mod open_region;
mod plan;
mod predict;
#[cfg(test)]
mod properties;
mod rays;
mod search;
mod slice;
mod staircase;
mod suspects;
mod verify;
mod version_space;
mod view;
mod volume;

pub use ahead::{Ahead, Expected};
pub use answer::{Answer, JsonText, Moves, Overload, Record, Verdict};
pub use axis::{Axis, Easier, Point, Scalar, Scale};
pub use boundary::{Boundary, Class, Options};
pub use cause::{Cause, Effect, NextStart};
pub use contradictions::{AnswerCounts, Band};
pub use known_boundary::KnownBoundary;
pub use lattice::Lattice;
pub use limit::{BoundsReport, Limit, OnLine, Quantity};
pub use neighbours::{OpposingPair, PairingOptions};
pub use predict::{PredictedCrossing, Prediction};
pub use rays::Bracket;
pub use search::{Candidate, ExpectedGain};
pub use slice::{Outlines, Regions};
pub use suspects::CrossValidation;
pub use verify::{Certificate, LimitPrediction, Narrowing, Place, PlaceKind, ReportedLimit, VerificationStep};
pub use view::Volume;
