//! GPU and host memory over time: sources (NVML, AMD sysfs, host memory, the simulated engine), a sampler thread at 1
//! to 1000 Hz, and time series with phases. Only this module uses NVML. A missing GPU is a normal condition
//! ([`Absent`]).
//!
//! [`gpus`] lists the GPUs. [`gpu_source`], [`host`] and [`Polled`] create sources. [`Sampler`] reads one source
//! (memory at the full rate, processes and power ten times a second) and returns peaks by phase and between moments.
//! [`require_alone`] and [`settle`] check whether a GPU is free before a start.

mod absent;
mod amd;
mod csv;
mod gpus;
pub mod host;
mod nvml;
mod peak_snapshot;
mod phase;
mod polled;
mod reading;
mod sampler;
mod schedule;
mod series;
mod slow_samples;
mod spread;
mod tenancy;

pub use absent::Absent;
pub use amd::AmdCards;
pub use csv::{SampleFile, files, read_activity, read_processes, read_series, write};
pub use gpus::{GpuInfo, Vendor, gpu_source, gpus, gpus_if_any, read_gpus, select};
pub use peak_snapshot::PeakSnapshot;
pub use phase::Phase;
pub use polled::Polled;
pub use reading::{Activity, Device, Reading, Source, Tenant};
pub use sampler::{Recording, SLOW_HZ, Sampler, SamplerHealth, UsedByDevice};
pub use schedule::{MAX_HZ, MIN_HZ};
pub use series::{Peak, Row, Series};
pub use slow_samples::{ActivitySample, DeviceActivity, ProcessMemory, SlowSamples};
pub use spread::Spread;
pub use tenancy::{FOREIGN_LIMIT, ForeignProcess, SETTLE_SLACK, foreign_processes, require_alone, settle, unsettled};
