//! Reads runs, and files of other tools, into one form that can be compared: [`ComparisonInput`].
//!
//! [`import`] reads the files of other tools, [`export`] writes files that they read. `direction` knows which
//! direction of a metric is better.

mod direction;
pub mod export;
mod from_run;
pub mod import;
mod input;
mod load_metrics;
mod setup;

pub use direction::Direction;
pub use input::{Case, ComparisonInput, Metric, Unit};
