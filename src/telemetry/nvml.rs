//! NVIDIA GPUs, read through the driver's library (NVML), which is loaded on first use.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device as Gpu, Nvml};

use super::{Activity, Device, GpuFiles, GpuInfo, GpuVendor, Reading, Source, Tenant, Vendor, indices};
use crate::fault::{Fault, Kind, Result};

/// The library, initialized once per process.
fn library() -> Result<&'static Nvml> {
    static LIBRARY: OnceLock<Result<Nvml>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| Nvml::init().map_err(|error| absent(&error)))
        .as_ref()
        .map_err(Clone::clone)
}

/// NVIDIA.
pub struct Nvidia;

impl GpuVendor for Nvidia {
    fn name(&self) -> &'static str {
        "nvidia"
    }

    fn list(&self) -> Result<Vec<GpuInfo>> {
        list()
    }

    fn source(&self, ids: &[String]) -> Result<Box<dyn Source>> {
        Ok(Box::new(NvmlSource::new(ids)?))
    }

    fn choices(&self) -> &'static [&'static str] {
        &["CUDA_VISIBLE_DEVICES"]
    }

    fn visible(&self, gpus: &[GpuInfo]) -> Vec<(&'static str, String)> {
        // The indices are NVML's, which orders by PCI address. CUDA's default order is by speed.
        let order = ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned());
        // MIG instances share the index of their GPU, and a restricting variable renumbers the GPUs. Use UUIDs in both
        // cases.
        let numbered = self.choices().iter().all(|name| std::env::var_os(name).is_none());
        let names = if numbered && gpus.iter().all(|gpu| !gpu.id.starts_with("MIG-")) {
            indices(gpus)
        } else {
            gpus.iter().map(|gpu| gpu.id.as_str()).collect::<Vec<_>>().join(",")
        };
        vec![order, ("CUDA_VISIBLE_DEVICES", names)]
    }

    fn files(&self, _: &[GpuInfo]) -> Option<GpuFiles> {
        None
    }
}

/// Lists the NVIDIA GPUs of this machine; never empty.
fn list() -> Result<Vec<GpuInfo>> {
    let library = library()?;
    let count = library.device_count().map_err(|error| absent(&error))?;
    if count == 0 {
        return Err(Fault::missing("the NVIDIA driver sees no GPU", REMEDY));
    }
    let driver = library.sys_driver_version().ok();
    let mut list = Vec::new();
    for index in 0..count {
        let gpu = library.device_by_index(index).map_err(|error| absent(&error))?;
        for part in parts(gpu).map_err(|error| absent(&error))? {
            list.push(describe(&part, index, driver.clone()).map_err(|error| absent(&error))?);
        }
    }
    Ok(list)
}

const REMEDY: &str = "install the NVIDIA driver (and the container toolkit, within a container), or use `engine=sim`";

/// The units that a program can run on: the GPU itself, or its MIG instances. The memory of a divided GPU would include
/// other instances, which an engine can neither use nor see.
fn parts(gpu: Gpu<'static>) -> Result<Vec<Gpu<'static>>, NvmlError> {
    // GPUs without MIG support return an error.
    let divided = gpu.mig_mode().is_ok_and(|mode| mode.current == 1);
    if !divided {
        return Ok(vec![gpu]);
    }
    let instances = (0..gpu.mig_device_count()?).map(|number| gpu.mig_device_by_index(number));
    // The count is the number of slots for instances, not of instances.
    Ok(instances.filter_map(Result::ok).collect())
}

fn describe(gpu: &Gpu<'static>, index: u32, driver: Option<String>) -> Result<GpuInfo, NvmlError> {
    let memory = memory(gpu)?;
    Ok(GpuInfo {
        index,
        id: gpu.uuid()?,
        name: gpu.name()?,
        vendor: Vendor(&Nvidia),
        used: memory.0,
        total: memory.1,
        driver,
        nodes: Vec::new(),
    })
}

/// Bytes used by programs, and the total available to them. Excludes the driver's reservation (615 MiB on an H200), as
/// `cudaMemGetInfo` does; tools that use the older version of this query count it as used.
fn memory(gpu: &Gpu<'static>) -> Result<(u64, u64), NvmlError> {
    let memory = gpu.memory_info()?;
    Ok((memory.used, memory.used + memory.free))
}

/// Converts a driver error to a reason and a remedy.
fn absent(error: &NvmlError) -> Fault {
    match error {
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
            Fault::missing("no NVIDIA driver: `libnvidia-ml.so.1` is not there", REMEDY)
        }
        NvmlError::DriverNotLoaded => Fault::missing("the NVIDIA driver is not loaded", REMEDY),
        NvmlError::NoPermission => Fault::missing(
            "no permission to query the NVIDIA driver",
            "let this user read and write /dev/nvidiactl and /dev/nvidia*",
        ),
        NvmlError::LibRmVersionMismatch => Fault::missing(
            "the NVIDIA driver was changed while it was loaded",
            "restart the machine, or unload and load the driver",
        ),
        NvmlError::GpuLost => Fault::missing(
            "a GPU has fallen off the bus",
            "restart the machine; see the kernel's log",
        ),
        other => Fault::missing(format!("querying the NVIDIA driver failed: {other}"), REMEDY),
    }
}

#[derive(Clone)]
struct NvmlSource {
    gpus: Arc<Vec<(Gpu<'static>, String, String)>>,
}

impl NvmlSource {
    /// The GPUs, or MIG instances, with these UUIDs.
    fn new(ids: &[String]) -> Result<Self> {
        let library = library()?;
        let find = |id: &String| {
            let gpu = library.device_by_uuid(id.as_str())?;
            let name = gpu.name()?;
            Ok((gpu, id.clone(), name))
        };
        Ok(Self {
            gpus: ids
                .iter()
                .map(find)
                .collect::<Result<Vec<_>, NvmlError>>()
                .map_err(|error| absent(&error))?
                .into(),
        })
    }

    fn devices(&self) -> Result<Vec<Device>, NvmlError> {
        let device = |(gpu, id, name): &(Gpu<'static>, String, String)| {
            let (used, total) = memory(gpu)?;
            Ok(Device {
                id: id.clone(),
                name: name.clone(),
                used,
                total,
            })
        };
        self.gpus.iter().map(device).collect()
    }

    fn tenants(&self) -> Result<Vec<Tenant>, NvmlError> {
        let mut all = Vec::new();
        for (gpu, id, _) in self.gpus.iter() {
            // A process can be in both lists with the same memory, so it is counted once.
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

    /// Power and utilisation. MIG instances and some boards report neither.
    fn activity(&self) -> Vec<Activity> {
        let activity = |(gpu, id, _): &(Gpu<'static>, String, String)| Activity {
            device: id.clone(),
            power_mw: gpu.power_usage().ok().map(u64::from),
            busy_percent: gpu.utilization_rates().ok().map(|busy| busy.gpu.into()),
        };
        self.gpus.iter().map(activity).collect()
    }
}

impl Source for NvmlSource {
    fn name(&self) -> &'static str {
        "nvml"
    }

    fn read(&mut self) -> Result<Reading> {
        // Read memory and processes directly after each other, because they are compared.
        let devices = self.devices().map_err(|error| unreadable(&error))?;
        let tenants = self.tenants().map_err(|error| unreadable(&error))?;
        Ok(Reading {
            devices,
            tenants,
            activity: self.activity(),
        })
    }

    fn read_memory(&mut self) -> Result<Reading> {
        Ok(Reading {
            devices: self.devices().map_err(|error| unreadable(&error))?,
            ..Reading::default()
        })
    }

    fn slow_source(&self) -> Option<Box<dyn Source>> {
        Some(Box::new(self.clone()))
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
