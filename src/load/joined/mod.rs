//! What was seen of an engine and its devices beside a load, on the load's own clock: the time line, figures over the measured
//! window, energy, cost, and what a sweep over several loads says (the knee, where preemption and queues begin). Pure: whoever looks is
//! `engine::load::beside`.

mod cost;
mod curve;
mod energy;
mod knee;
mod level;
mod onset;
mod seen;
mod summary;
mod timeline;
mod warnings;

pub use cost::{Cost, Produced};
pub use energy::{PowerOfOne, PowerOver};
pub use knee::{Bend, Knee, NOISE, knee};
pub use level::Level;
pub use onset::{Onset, onset};
pub use seen::{Look, Power, Seen, State, Used, Watts};
pub use summary::{Counted, Joined, Looking, MemoryOver};
pub use timeline::{COLUMNS, Moment, timeline, write};
