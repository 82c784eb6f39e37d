//! The answer of a probe: the verdict, its evidence, and the measurements.

use serde::{Deserialize, Serialize};

use crate::boundary::{BoundsReport, Cause, Moves, Point, Verdict};
use crate::evidence::Evidence;
use crate::telemetry::Settled;

/// The result of one probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeAnswer {
    /// The tested point.
    pub point: Point,
    /// The verdict.
    pub verdict: Verdict,
    /// The cause, unless the verdict is `ok`.
    pub cause: Option<Cause>,
    /// How the result moves the boundary, given the option `overload`.
    pub moves: Moves,
    /// The evidence for the verdict.
    pub evidence: Evidence,
    /// The input length that the verdict holds for, as counted by the engine, if no prompt of exactly the requested
    /// length could be made. It is up to 1 % or 8 tokens off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Point>,
    /// Prompt tokens as counted by the engine; the minimum over the requests.
    pub input: Option<u64>,
    /// Output tokens as counted by the engine; the minimum over the requests.
    pub output: Option<u64>,
    /// Time to first token, in ms; the median over the requests.
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first, in ms; the median over the requests.
    pub tpot_ms: Option<f64>,
    /// Inter-token latency, in ms; the median over all token events of all requests.
    pub itl_ms: Option<f64>,
    /// End-to-end latency, in ms; the median over the requests.
    pub e2el_ms: Option<f64>,
    /// Peak memory during the probe, in bytes, summed over the engine's devices.
    pub peak: Option<u64>,
    /// Memory during the probe: seconds since its start, and bytes. Reduced to a few hundred rows that keep the peak.
    pub series: Vec<(f64, u64)>,
    /// Whether the engine had to be started.
    pub started: bool,
    /// Start attempts, including failed ones.
    pub starts: u64,
    /// Memory before the start, if the engine was started for this point alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolated: Option<Settled>,
    /// Duration in seconds, including starts.
    pub seconds: f64,
    /// Number of GPUs that the engine holds.
    pub gpus: u64,
    /// The engine's own bounds, if it has reported any.
    pub report: Option<BoundsReport>,
}
