//! What a probe answers, as scripts, journal and reports see it.

use serde::{Deserialize, Serialize};

use super::{Allocation, Metrics, Report};
use crate::boundary::{Moves, Point, Verdict};

/// The answer to one probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeAnswer {
    /// The point that was asked.
    pub point: Point,
    /// What became of it.
    pub verdict: Verdict,
    /// Why, where it is not `ok`.
    pub cause: Option<String>,
    /// What it says of the boundary, by the option `overload`.
    pub moves: Moves,
    /// What shows it.
    pub evidence: Evidence,
    /// Tokens of the prompt as the engine counted them: the fewest of the requests.
    pub input: Option<u64>,
    /// Tokens generated as the engine counted them: the fewest of the requests.
    pub output: Option<u64>,
    /// Time to first token; of several requests, the median.
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first; of several requests, the median.
    pub tpot_ms: Option<f64>,
    /// Median gap between events that carry tokens, of all requests.
    pub itl_ms: Option<f64>,
    /// From sending to the last token; of several requests, the median.
    pub e2el_ms: Option<f64>,
    /// Most memory in use while it ran, bytes, all devices of the engine together.
    pub peak: Option<u64>,
    /// Memory while it ran: seconds since the probe began, and bytes in use. Thinned to a few hundred, with the peak kept.
    pub series: Vec<(f64, u64)>,
    /// Whether the engine had to be started for it.
    pub started: bool,
    /// Starts that were tried for it, those that failed included.
    pub starts: u64,
    /// Seconds that it took, starts included.
    pub seconds: f64,
    /// GPUs that the engine holds all the while.
    pub gpus: u64,
    /// What the engine itself reports of its bounds; none while it has told nothing.
    pub report: Option<Report>,
}

impl ProbeAnswer {
    /// An answer that says nothing yet.
    pub(super) fn empty(point: &Point) -> Self {
        Self {
            point: point.clone(),
            verdict: Verdict::Error,
            cause: None,
            moves: Moves::None,
            evidence: Evidence::default(),
            input: None,
            output: None,
            ttft_ms: None,
            tpot_ms: None,
            itl_ms: None,
            e2el_ms: None,
            peak: None,
            series: Vec::new(),
            started: false,
            starts: 0,
            seconds: 0.0,
            gpus: 0,
            report: None,
        }
    }
}

/// What shows that a verdict is right.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// For people: one sentence.
    pub message: Option<String>,
    /// The log lines that say so, or the end of the log.
    pub log: Vec<String>,
    /// How far the engine was when it failed: `weights`, `profiling`, `kv_cache`, `graph_capture`, `warm_up` of a start, by its last line
    /// that tells; `request` once it was ready.
    pub phase: Option<String>,
    /// Where an allocation on a GPU failed, and its allocator gave figures: the last one of each GPU.
    pub allocations: Vec<Allocation>,
    /// Whether the engine served again after requests failed, without a start; looked at where they failed for more than their size.
    pub survived: Option<bool>,
    /// Exit status of the engine, where it died.
    pub exit_code: Option<i64>,
    /// Whether the kernel killed it for its memory.
    pub oom_killed: Option<bool>,
    /// HTTP status of a refusal.
    pub http_status: Option<u16>,
    /// Memory in use when it was over, bytes.
    pub memory: Option<u64>,
    /// Why the generation ended, in the engine's words.
    pub finish: Option<String>,
    /// Tokens that the engine produced beyond the output asked.
    pub excess: Option<u64>,
    /// Requests that ended as they should.
    pub completed: u64,
    /// Requests that were sent.
    pub issued: u64,
    /// How often the request was sent, retries included.
    pub attempts: u64,
    /// The queue at its fullest: `running`, `waiting`, `kv_usage` are the highest seen, `preemptions` those that the probe caused.
    pub queue: Option<Metrics>,
    /// The limits that the engine was started with, or that failed to start.
    pub limits: Option<super::Limits>,
}
