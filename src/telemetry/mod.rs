//! GPU and host memory over time: sources (NVML, AMD sysfs, host memory, the simulated engine), a sampler thread at 1
//! to 1000 Hz, and time series with phases. Only this module uses NVML. A missing GPU is a normal condition
//! ([`Absent`]).
//!
//! [`gpus`] lists the GPUs. [`gpu_source`], [`host`] and [`Polled`] create sources. [`Sampler`] reads one source
//! (memory at the full rate, processes and power ten times a second) and returns peaks by phase and between moments.
//! [`require_alone`] and [`settle`] check whether a GPU is free before a start.

mod amd;
mod csv;
mod gpus;
pub mod host;
mod nvml;
mod sampler;
mod series;
mod slow_samples;
mod source;
mod tenancy;

pub use amd::{Amd, AmdCards};
pub use csv::{SampleFile, files, read_activity, read_series};
pub use gpus::{choices, gpu_source, gpus, gpus_if_any, only_visible, read_gpus, select};
pub use nvml::Nvidia;
pub use sampler::{MAX_HZ, MIN_HZ, Recording, SLOW_HZ, Sampler, SamplerHealth, UsedByDevice};
pub use series::{Peak, Phase, Row, Series, Spread};
pub use slow_samples::{ActivitySample, DeviceActivity, PeakSnapshot, ProcessMemory, SlowSamples};
pub use source::{Absent, Activity, Device, GpuFiles, GpuInfo, GpuVendor, Polled, Reading, Source, Tenant, Vendor};
pub use tenancy::{FOREIGN_LIMIT, ForeignProcess, SETTLE_SLACK, foreign_processes, require_alone, settle, unsettled};
