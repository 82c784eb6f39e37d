//! Reads runs, and files of other tools, into one form that can be compared: [`ComparisonInput`].
//!
//! [`import`] reads the files of other tools, [`export`] writes files that they read. `direction` knows which
//! direction of a metric is better.

mod direction;
pub mod export;
mod from_run;
pub mod import;
mod input;
pub mod load_metrics;

use std::path::Path;

use serde_json::Value;

use crate::experiment::{self, Experiment};
use crate::fault::Result;
use crate::run::RecordedRun;
pub use direction::Direction;
pub use input::{Case, ComparisonInput, Metric, Unit};
pub use load_metrics::LoadMetric;

/// Opens a run's folder, or a file of another tool.
pub fn open(path: &Path) -> Result<ComparisonInput> {
    if path.is_dir() {
        return ComparisonInput::from_run(&RecordedRun::read(path)?, &path.display().to_string());
    }
    import::read(path)
}

/// Whether higher values of an experiment's metric are better; `None` where neither side is, or none is known.
#[must_use]
pub fn higher_is_better(metric: &experiment::Metric) -> Option<bool> {
    // Those of one level of a sweep are called `output_throughput at 8`.
    let name = metric.name.split(" at ").next().unwrap_or_default();
    match Direction::of_metric(name, metric.unit)? {
        Direction::More => Some(true),
        Direction::Less => Some(false),
        Direction::Neutral => None,
    }
}

/// Reads an experiment of a journal or a script.
///
/// # Errors
///
/// `usage` for anything else.
pub fn read_experiment(value: &Value) -> Result<Experiment> {
    Experiment::read(value, higher_is_better)
}
