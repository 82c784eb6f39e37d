//! What can be compared: a run of ours or a file that another tool wrote, read into one form, [`ComparisonInput`].
//!
//! [`import`] reads the files of other tools, [`export`] writes files that they read. `direction` says which way a metric is better.

mod direction;
pub mod export;
mod from_run;
pub mod import;
mod input;
mod setup;

pub use direction::Direction;
pub use input::{Case, ComparisonInput, Figure, Unit};
