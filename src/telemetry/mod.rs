//! GPU and host memory over time: sources (NVML, AMD sysfs, host memory, the simulated engine), one sampler thread at 1 to
//! 1000 Hz, series with phase marks. Only this room knows NVML. Without a GPU, that is an ordinary, named condition.
//!
//! [`gpus`] lists what is there, [`gpu_source`], [`host`] and [`Polled`] make sources, [`Sampler`] looks at one (at memory at its full rate,
//! at processes and power ten times a second), and gives peaks by phase and between moments. [`require_alone`] and [`settle`] judge
//! whether a GPU is free for a start.

mod absent;
mod amd;
mod beside;
mod crest;
mod csv;
mod gpus;
pub mod host;
mod nvml;
mod phase;
mod polled;
mod reading;
mod sampler;
mod schedule;
mod series;
mod spread;
mod tenancy;

pub use absent::Absent;
pub use amd::Cards;
pub use beside::{Beside, Doing, Holding, Moment};
pub use crest::Crest;
pub use csv::{Kept, files, read_activity, read_processes, read_series, write};
pub use gpus::{GpuInfo, Vendor, gpu_source, gpus, gpus_if_any, look, select};
pub use phase::Phase;
pub use polled::Polled;
pub use reading::{Activity, Device, Reading, Source, Tenant};
pub use sampler::{BESIDE_HZ, Health, Record, Sampler, Used};
pub use schedule::{FASTEST, SLOWEST};
pub use series::{Peak, Row, Series};
pub use spread::Spread;
pub use tenancy::{FOREIGN_LIMIT, Foreign, SETTLE_SLACK, foreigners, require_alone, settle, unsettled};
