//! The options and the answer of a probe, as scripts, journal and reports see them.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::boundary::Overload;
use crate::engine::lifecycle::options::some_seconds;
use crate::fault::Result;
use crate::load::Tolerance;
use crate::run::ProbeAnswer;
use crate::telemetry::{Sampler, Series};

/// The coordinates of a point that an engine understands.
pub const COORDINATES: [&str; 3] = ["input", "output", "concurrency"];

/// Retries of a probe if nothing else is given.
pub(crate) const RETRIES: u32 = 3;

/// Maximum rows of the series in a probe's answer; the run's folder has all of them.
const MAX_ROWS: usize = 200;

/// Options of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProbeOptions {
    /// Timeout per request in seconds. Default: ten times the expected duration, at least a minute.
    pub timeout: Option<f64>,
    /// Seconds without running requests, while all unfinished requests are queued, after which they are cancelled.
    /// Default: 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<f64>,
    /// Retries after an early end of text or an overloaded engine. Default: the engine's.
    pub retries: Option<u32>,
    /// Tokens that may be missing from an answer that counts as `ok`.
    pub output_tolerance: Tolerance,
    /// Whether `preempted` and `queued` count as fitting.
    pub overload: Overload,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self {
            timeout: None,
            stall: None,
            retries: None,
            output_tolerance: Tolerance::default(),
            overload: Overload::Fails,
        }
    }
}

impl ProbeOptions {
    pub(crate) fn check(&self) -> Result<()> {
        some_seconds("timeout", self.timeout)?;
        some_seconds("stall", self.stall)
    }
}

/// Adds the memory that the engine used since `from` to an answer.
pub(crate) fn describe_memory(answer: &mut ProbeAnswer, sampler: &Sampler, from: Instant) {
    let to = Instant::now();
    let series = sampler.between(from, to);
    // The peak with a longer output does not belong to this point.
    let of_point = answer.evidence.longer_output.is_none();
    answer.peak = series.peak().filter(|_| of_point);
    answer.evidence.memory = series.rows().last().map(|row| row.total);
    answer.series = downsample(&series);
}

/// Seconds since the first row, and bytes. Adjacent rows are merged to their peak if there are too many.
fn downsample(series: &Series) -> Vec<(f64, u64)> {
    let rows = series.rows();
    let Some(first) = rows.first() else { return Vec::new() };
    rows.chunks(rows.len().div_ceil(MAX_ROWS).max(1))
        .map(|chunk| {
            let peak = chunk.iter().map(|row| row.total).max().unwrap_or_default();
            ((chunk[0].from - first.from) as f64 / 1e6, peak)
        })
        .collect()
}
