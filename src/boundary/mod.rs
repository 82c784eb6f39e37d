//! The search for the limit up to which points fit: points, verdicts, dominance, frontier, and the next point to
//! probe.
//!
//! Pure: no clock, no network, no Rhai. Limits are monotone: if a point fits, every easier point fits.
//!
//! [`Axis`] and [`Lattice`] convert points to cells whose coordinates all grow harder. [`Boundary`] holds the
//! recorded points and answers what they prove: `dominance` (is a cell at or below a known one), `corners` (where the
//! open region begins), `volume`, `band` (contradictions), `slice` and `staircase` (outlines for charts).
//!
//! The search: `refine`, `rays` and `grid` propose points. `version_space` holds memory limits that agree with every
//! answer (the hypotheses); `choose` lets them vote on the next point, `open_region` and `upper_bound` estimate how
//! much of the open region fits, and `verification` repeats known points to detect noise. `predict` reports
//! expectations, which never count as proof. [`model`] predicts the memory that a point takes.
//!
//! For benchmarks of strategies: `neighbours` is tgi-profiler's search, [`KnownBoundary`] a boundary to score
//! against, and `minimum_probes` the fewest probes that could prove it.

mod answer;
mod axis;
mod band;
#[expect(clippy::module_inception, reason = "the room is named after what it holds")]
mod boundary;
mod choose;
mod corners;
mod dominance;
mod expected_gain;
mod gap;
mod grid;
mod known_boundary;
mod largest_boxes;
mod lattice;
mod line;
mod minimum_probes;
pub mod model;
mod neighbours;
mod open_region;
mod point;
mod predict;
#[cfg(test)]
mod properties;
mod rays;
mod record;
mod refine;
mod slice;
mod staircase;
mod upper_bound;
mod verdict;
mod verification;
mod version_space;
mod view;
mod volume;

pub use answer::Answer;
pub use axis::{Axis, Easier, Scale};
pub use band::{AnswerCounts, Band};
pub use boundary::{Boundary, Class, Options};
pub use expected_gain::ExpectedGain;
pub use known_boundary::KnownBoundary;
pub use lattice::Lattice;
pub use line::Bracket;
pub use neighbours::{OpposingPair, PairingOptions};
pub use point::{Point, Scalar};
pub use predict::{PredictedCrossing, Prediction};
pub use record::Record;
pub use slice::{Outlines, Proof, Regions, Slice};
pub use verdict::{Moves, Overload, Verdict};
pub use view::Volume;
