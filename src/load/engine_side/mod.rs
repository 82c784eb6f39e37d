//! The engine and its devices during a load, by the load's clock: timeline, statistics over the measured window,
//! energy, cost, and findings over a sweep of several loads (knee, onset of preemption and queueing). Pure;
//! `engine::load` collects the samples, whose times are seconds since the start of the load; earlier ones are negative.

mod curve;
mod energy;
mod findings;
mod knee;
mod summary;
mod timeline;

pub use energy::{Cost, DevicePowerStats, PowerStats};
pub use findings::{LevelFigures, SweepAxis, SweepFindings};
pub use knee::{Knee, Onset, knee, onset, saturation_point};
pub use summary::{EngineCounters, EngineStats, GaugeStats, MemoryStats, SamplingStats};
pub use timeline::{COLUMNS, TimelineRow, timeline, write};

use std::collections::BTreeMap;

use serde::Serialize;

pub use crate::evidence::EngineQueue;
use crate::telemetry::DeviceActivity;

/// Engine metrics at one moment; `None` if not reported. Counters count since the engine's start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EngineMetrics {
    /// The queue.
    #[serde(flatten)]
    pub queue: EngineQueue,
    /// Running requests of each worker, if the page tells several workers apart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub running_each: Vec<u64>,
    /// Prefix cache queries, in tokens or blocks.
    pub prefix_queries: Option<u64>,
    /// Prefix cache hits, in the same unit.
    pub prefix_hits: Option<u64>,
    /// Tokens that were drafted by speculation.
    pub drafted: Option<u64>,
    /// Drafted tokens that the model accepted.
    pub accepted: Option<u64>,
    /// Prompt tokens.
    pub prompt_tokens: Option<u64>,
    /// Generated tokens.
    pub generated_tokens: Option<u64>,
    /// Finished requests by finish reason, in the adapter's words.
    pub finished: BTreeMap<String, u64>,
}

/// One poll of the metrics page. The metrics are from some moment between request and response.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricsSample {
    /// When the request was sent.
    pub requested_at: f64,
    /// When the response arrived, or the poll failed.
    pub at: f64,
    /// The metrics; `None` if the poll failed, which is a gap and not a zero.
    pub metrics: Option<EngineMetrics>,
}

/// Memory in use on all devices together, while it stayed the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryInUse {
    /// First sample.
    pub from: f64,
    /// Last sample.
    pub to: f64,
    /// Bytes.
    pub bytes: u64,
}

/// Power of the devices in one sample, or the mean of merged neighbouring samples.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerSample {
    /// First sample.
    pub from: f64,
    /// Last sample.
    pub to: f64,
    /// Each device that reports power or utilisation.
    pub devices: Vec<DeviceActivity>,
}

/// All samples taken during one load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observations {
    /// Intended metrics polls per second.
    pub hz: f64,
    /// Polls of the engine's metrics page, oldest first; empty if it has none.
    pub samples: Vec<MetricsSample>,
    /// Source of the memory samples: `nvml`, `amd`, `host` or `sim`.
    pub source: Option<String>,
    /// Memory, oldest first.
    pub memory: Vec<MemoryInUse>,
    /// Power and utilisation, oldest first; empty if no driver reports them.
    pub power: Vec<PowerSample>,
    /// The longest normal distance between power samples, in seconds, for a simulated clock that samples less often.
    pub power_gap: f64,
    /// Capacity of the KV cache in tokens, if reported.
    pub kv_tokens: Option<u64>,
    /// Size of the KV cache in bytes on all devices together, if reported.
    pub kv_bytes: Option<u64>,
}

impl Observations {
    /// Moves all times to another clock.
    pub fn retime(&mut self, to: impl Fn(f64) -> f64) {
        let samples = self
            .samples
            .iter_mut()
            .flat_map(|sample| [&mut sample.requested_at, &mut sample.at]);
        let memory = self.memory.iter_mut().flat_map(|used| [&mut used.from, &mut used.to]);
        let power = self
            .power
            .iter_mut()
            .flat_map(|sample| [&mut sample.from, &mut sample.to]);
        samples.chain(memory).chain(power).for_each(|at| *at = to(*at));
    }
}
