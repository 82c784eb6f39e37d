//! GPU and host memory over time: sources (NVML, AMD sysfs, host memory, the simulated engine), one sampler thread at 1 to
//! 1000 Hz, series with phase marks. Only this room knows NVML. Without a GPU, that is an ordinary, named condition.

mod reading;

pub use reading::{Device, Reading, Source, Tenant};
