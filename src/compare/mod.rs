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

use std::path::Path;

use crate::fault::Result;
use crate::run::RecordedRun;
pub use direction::Direction;
pub use input::{Case, ComparisonInput, Metric, Unit};

/// Opens a run's folder, or a file of another tool.
pub fn open(path: &Path) -> Result<ComparisonInput> {
    if path.is_dir() {
        return ComparisonInput::from_run(&RecordedRun::read(path)?, &path.display().to_string());
    }
    import::read(path)
}
