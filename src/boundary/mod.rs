//! What is known of where points stop fitting: points, verdicts, dominance, the frontier and what to probe next.
//!
//! Pure: no clock, no network, no Rhai. A limit is monotone: what fits at a point fits at every easier one.
//!
//! [`Axis`] and [`Lattice`] turn every axis the same way round; `shadow` answers what lies below what, `corners` where the
//! open region begins, `boxes` where it is widest, `volume` how much there is of it; [`Boundary`] holds the points, `band` says where they contradict each other,
//! `cut` the regions of a plane for a picture (by `stairs`), `looks` where to look whether they do, and `predict` what to expect, apart from what is proven; `refine`, `rays` and `grid` propose
//! some, `choose` by the limits that `guess` finds to agree with them and what these say of the open region (`outlook`; `sure` says when that is enough), and `neighbours` pairs those that are known as
//! tgi-profiler's search does; [`model`] predicts the memory that a point takes from what others took; [`Truth`] is what a search is held against where the answer is known, and `least` the fewest
//! probes that could prove as much.

mod answer;
mod axis;
mod band;
#[expect(clippy::module_inception, reason = "the room is named after what it holds")]
mod boundary;
mod boxes;
mod choose;
mod corners;
mod cut;
mod gap;
mod grid;
mod guess;
mod lattice;
mod least;
mod line;
mod looks;
pub mod model;
mod neighbours;
mod outlook;
mod point;
mod predict;
#[cfg(test)]
mod properties;
mod rays;
mod record;
mod refine;
mod settles;
mod shadow;
mod stairs;
mod sure;
mod truth;
mod verdict;
mod view;
mod volume;

pub use answer::Answer;
pub use axis::{Axis, Easier, Scale};
pub use band::{Answered, Band};
pub use boundary::{Boundary, Class, Options};
pub use cut::{Cut, Outlines, Proof, Regions};
pub use lattice::Lattice;
pub use line::Bracket;
pub use neighbours::{Nearness, Pair};
pub use point::{Point, Scalar};
pub use predict::{Predicted, Prediction};
pub use record::Record;
pub use settles::Settles;
pub use truth::Truth;
pub use verdict::{Moves, Overload, Verdict};
pub use view::Volume;
