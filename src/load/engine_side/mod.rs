//! The engine and its devices during a load, by the load's clock: timeline, statistics over the measured window,
//! energy, cost, and findings over a sweep of several loads (knee, onset of preemption and queueing). Pure;
//! `engine::load` collects the samples.

mod cost;
mod energy;
mod findings;
mod gauge;
mod samples;
mod summary;
mod sweep;
mod timeline;

pub use cost::{Cost, WindowThroughput};
pub use energy::{DevicePowerStats, PowerStats};
pub use findings::{LevelFigures, SweepAxis, SweepFindings};
pub use gauge::GaugeStats;
pub use samples::{DevicePower, EngineMetrics, MemoryInUse, MetricsSample, Observations, PowerSample};
pub use summary::{EngineCounters, EngineStats, MemoryStats, SamplingStats};
pub use sweep::{Bend, Knee, NOISE, Onset, knee, onset};
pub use timeline::{COLUMNS, TimelineRow, timeline, write};
