//! What is known of where points stop fitting: points, verdicts, dominance, the frontier and what to probe next.
//!
//! Pure: no clock, no network, no Rhai. A limit is monotone: what fits at a point fits at every easier one.
//!
//! [`Axis`] and [`Lattice`] turn every axis the same way round; `shadow` answers what lies below what, `corners` where the
//! open region begins, `volume` how much there is of it; [`Boundary`] holds the points; `refine`, `rays` and `grid` propose
//! some, `choose` by the limits that `guess` finds to agree with them, and `neighbours` pairs those that are known as
//! tgi-profiler's search does; [`Truth`] is what a search is held against where the answer is known, and `least` the fewest
//! probes that could prove as much.

mod answer;
mod axis;
#[expect(clippy::module_inception, reason = "the room is named after what it holds")]
mod boundary;
mod choose;
mod corners;
mod gap;
mod grid;
mod guess;
mod lattice;
mod least;
mod line;
mod neighbours;
mod point;
#[cfg(test)]
mod properties;
mod rays;
mod record;
mod refine;
mod settles;
mod shadow;
mod truth;
mod verdict;
mod view;
mod volume;

pub use answer::Answer;
pub use axis::{Axis, Easier, Scale};
pub use boundary::{Boundary, Class, Options};
pub use lattice::Lattice;
pub use line::{Bracket, Prediction};
pub use neighbours::{Nearness, Pair};
pub use point::{Point, Scalar};
pub use record::Record;
pub use settles::Settles;
pub use truth::Truth;
pub use verdict::{Moves, Overload, Verdict};
pub use view::Volume;
