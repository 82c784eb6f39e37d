//! NVIDIA GPUs, by the driver's own library, loaded when first asked for.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device as Gpu, Nvml};

use crate::fault::{Fault, Kind, Result};

use super::absent::Absent;
use super::gpus::{GpuInfo, Vendor};
use super::reading::{Device, Reading, Source, Tenant};

/// Asking who holds memory takes far longer than asking how much is held, so it is done this often at most.
const TENANTS_EVERY: Duration = Duration::from_millis(500);

/// The library, started once for the life of the program.
fn library() -> Result<&'static Nvml, Absent> {
    static LIBRARY: OnceLock<Result<Nvml, Absent>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| Nvml::init().map_err(|error| absent(&error)))
        .as_ref()
        .map_err(Clone::clone)
}

/// The NVIDIA GPUs of this machine; never empty.
pub(super) fn list() -> Result<Vec<GpuInfo>, Absent> {
    let library = library()?;
    let count = library.device_count().map_err(|error| absent(&error))?;
    if count == 0 {
        return Err(Absent::new("the NVIDIA driver sees no GPU", REMEDY));
    }
    let driver = library.sys_driver_version().ok();
    (0..count)
        .map(|index| describe(library, index, driver.clone()).map_err(|error| absent(&error)))
        .collect()
}

const REMEDY: &str = "install the NVIDIA driver (and the container toolkit, within a container), or use `engine=sim`";

fn describe(library: &Nvml, index: u32, driver: Option<String>) -> Result<GpuInfo, NvmlError> {
    let gpu = library.device_by_index(index)?;
    let memory = gpu.memory_info()?;
    Ok(GpuInfo {
        index,
        id: gpu.uuid()?,
        name: gpu.name()?,
        vendor: Vendor::Nvidia,
        used: memory.used,
        total: memory.total,
        driver,
        nodes: Vec::new(),
    })
}

/// Why there is no library, as a condition with a name.
fn absent(error: &NvmlError) -> Absent {
    match error {
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
            Absent::new("no NVIDIA driver: `libnvidia-ml.so.1` is not there", REMEDY)
        }
        NvmlError::DriverNotLoaded => Absent::new("the NVIDIA driver is not loaded", REMEDY),
        NvmlError::NoPermission => Absent::new(
            "no permission to ask the NVIDIA driver",
            "let this user read and write /dev/nvidiactl and /dev/nvidia*",
        ),
        NvmlError::LibRmVersionMismatch => Absent::new(
            "the NVIDIA driver was changed while it was loaded",
            "restart the machine, or unload and load the driver",
        ),
        NvmlError::GpuLost => Absent::new(
            "a GPU has fallen off the bus",
            "restart the machine; see the kernel's log",
        ),
        other => Absent::new(format!("the NVIDIA driver cannot be asked: {other}"), REMEDY),
    }
}

/// Looks at chosen GPUs.
pub(super) struct Gpus {
    gpus: Vec<(Gpu<'static>, String, String)>,
    tenants: Vec<Tenant>,
    tenants_at: Option<Instant>,
}

impl Gpus {
    /// The GPUs with these UUIDs.
    pub(super) fn new(ids: &[String]) -> Result<Self> {
        let library = library().map_err(Absent::fault)?;
        let find = |id: &String| {
            let gpu = library.device_by_uuid(id.as_str())?;
            let name = gpu.name()?;
            Ok((gpu, id.clone(), name))
        };
        Ok(Self {
            gpus: ids
                .iter()
                .map(find)
                .collect::<Result<_, NvmlError>>()
                .map_err(|error| absent(&error).fault())?,
            tenants: Vec::new(),
            tenants_at: None,
        })
    }

    fn tenants(&self) -> Result<Vec<Tenant>, NvmlError> {
        let mut all = Vec::new();
        for (gpu, id, _) in &self.gpus {
            // A process can be in both lists, with the same figure.
            let mut used = BTreeMap::new();
            for process in [gpu.running_compute_processes()?, gpu.running_graphics_processes()?].concat() {
                used.insert(process.pid, bytes(&process.used_gpu_memory));
            }
            all.extend(used.into_iter().map(|(pid, used)| Tenant {
                pid,
                device: id.clone(),
                used,
            }));
        }
        Ok(all)
    }
}

impl Source for Gpus {
    fn name(&self) -> &'static str {
        "nvml"
    }

    fn read(&mut self) -> Result<Reading> {
        let mut devices = Vec::with_capacity(self.gpus.len());
        for (gpu, id, name) in &self.gpus {
            let memory = gpu.memory_info().map_err(|error| unreadable(&error))?;
            devices.push(Device {
                id: id.clone(),
                name: name.clone(),
                used: memory.used,
                total: memory.total,
            });
        }
        if self.tenants_at.is_none_or(|at| at.elapsed() >= TENANTS_EVERY) {
            self.tenants = self.tenants().map_err(|error| unreadable(&error))?;
            self.tenants_at = Some(Instant::now());
        }
        Ok(Reading {
            devices,
            tenants: self.tenants.clone(),
        })
    }
}

fn bytes(used: &UsedGpuMemory) -> Option<u64> {
    match used {
        UsedGpuMemory::Used(bytes) => Some(*bytes),
        UsedGpuMemory::Unavailable => None,
    }
}

fn unreadable(error: &NvmlError) -> Fault {
    Fault::new(Kind::Io, format!("the NVIDIA driver does not answer: {error}"))
}
