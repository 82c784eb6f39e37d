//! Which GPUs are there, and which of them a run uses: NVIDIA's by NVML, AMD's by sysfs.

use serde::Serialize;

use crate::fault::{Fault, Result};

use super::absent::Absent;
use super::amd::Cards;
use super::nvml;
use super::reading::{Reading, Source};

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GpuInfo {
    /// Its number on this machine, from 0: what `gpus` options and `CUDA_VISIBLE_DEVICES` mean.
    pub index: u32,
    /// Its UUID, which stays the same when cards are moved.
    pub id: String,
    /// `NVIDIA H200`.
    pub name: String,
    /// `nvidia` or `amd`.
    pub vendor: Vendor,
    /// Bytes in use by anybody.
    pub used: u64,
    /// Bytes that are there.
    pub total: u64,
    /// Version of the driver, where it tells one.
    pub driver: Option<String>,
    /// AMD: the names of its device files below `/dev/dri`, by which a container gets it.
    #[serde(skip)]
    pub nodes: Vec<String>,
}

/// Who made a GPU, and so how it is read and given to containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Vendor {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
}

/// The GPUs of this machine; never empty. The error names what is missing, for each maker.
pub fn gpus() -> Result<Vec<GpuInfo>, Absent> {
    match (nvml::list(), Cards::default().list()) {
        (Ok(mut nvidia), amd) => {
            nvidia.extend(amd.unwrap_or_default());
            Ok(nvidia)
        }
        (Err(_), Ok(amd)) => Ok(amd),
        (Err(nvidia), Err(amd)) => Err(nvidia.and(&amd)),
    }
}

/// The GPUs that are named by index or UUID, in that order.
///
/// # Errors
///
/// `missing` when there is no GPU, or none of that name; `usage` when one is named twice, or makers are mixed.
pub fn select(names: &[String]) -> Result<Vec<GpuInfo>> {
    choose(&gpus().map_err(Absent::fault)?, names)
}

/// A source that looks at these GPUs.
///
/// # Errors
///
/// As [`select`].
pub fn gpu_source(names: &[String]) -> Result<Box<dyn Source>> {
    let chosen = select(names)?;
    let ids: Vec<String> = chosen.iter().map(|gpu| gpu.id.clone()).collect();
    match chosen.first() {
        Some(gpu) => source(gpu.vendor, &ids),
        None => Err(Fault::usage("no GPU is named").hint("`gpus` is a list of indices or UUIDs: `[0]`")),
    }
}

/// A source that looks at these GPUs; nothing where this machine has none at all: the default `gpus: [0]` of a script then means nothing.
///
/// # Errors
///
/// `missing` when there are GPUs, and none of that name; `usage` as [`select`].
pub fn gpus_if_any(names: &[String]) -> Result<Option<Box<dyn Source>>> {
    match gpus() {
        Ok(_) if !names.is_empty() => gpu_source(names).map(Some),
        _ => Ok(None),
    }
}

fn source(vendor: Vendor, ids: &[String]) -> Result<Box<dyn Source>> {
    Ok(match vendor {
        Vendor::Nvidia => Box::new(nvml::Gpus::new(ids)?),
        Vendor::Amd => Box::new(Cards::default().source(ids)?),
    })
}

/// One look at every GPU of this machine.
///
/// # Errors
///
/// `missing` when there is no GPU.
pub fn look() -> Result<Reading> {
    let there = gpus().map_err(Absent::fault)?;
    let mut all = Reading::default();
    for vendor in [Vendor::Nvidia, Vendor::Amd] {
        let of_vendor = there.iter().filter(|gpu| gpu.vendor == vendor);
        let ids: Vec<String> = of_vendor.map(|gpu| gpu.id.clone()).collect();
        if !ids.is_empty() {
            let reading = source(vendor, &ids)?.read()?;
            all.devices.extend(reading.devices);
            all.tenants.extend(reading.tenants);
        }
    }
    Ok(all)
}

fn choose(there: &[GpuInfo], names: &[String]) -> Result<Vec<GpuInfo>> {
    let mut chosen: Vec<GpuInfo> = Vec::new();
    for name in names {
        let index: Option<u32> = name.parse().ok();
        let matches = |gpu: &&GpuInfo| Some(gpu.index) == index || gpu.id.eq_ignore_ascii_case(name);
        let Some(gpu) = there.iter().find(matches) else {
            let known: Vec<String> = there.iter().map(|gpu| format!("{} ({})", gpu.index, gpu.id)).collect();
            return Err(Fault::missing(
                format!("there is no GPU `{name}`"),
                format!("there are: {}", known.join(", ")),
            ));
        };
        if chosen.iter().any(|other| other.id == gpu.id) {
            return Err(Fault::usage(format!("GPU `{name}` is named twice")));
        }
        if chosen.iter().any(|other| other.vendor != gpu.vendor) {
            return Err(Fault::usage("GPUs of different makers cannot serve one engine"));
        }
        chosen.push(gpu.clone());
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Kind;

    fn there() -> Vec<GpuInfo> {
        let gpu = |index, vendor| GpuInfo {
            index,
            id: format!("GPU-{index}a"),
            name: "test".into(),
            vendor,
            used: 0,
            total: 1,
            driver: None,
            nodes: Vec::new(),
        };
        vec![gpu(0, Vendor::Nvidia), gpu(1, Vendor::Nvidia), gpu(2, Vendor::Amd)]
    }

    fn indices(names: &[&str]) -> Result<Vec<u32>> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        Ok(choose(&there(), &names)?.iter().map(|gpu| gpu.index).collect())
    }

    #[test]
    fn gpus_are_chosen_by_index_or_uuid_in_the_order_named() {
        assert_eq!(indices(&["1", "gpu-0A"]).unwrap(), [1, 0]);
        assert_eq!(indices(&[]).unwrap(), [0_u32; 0]);
    }

    #[test]
    fn what_cannot_be_chosen_is_refused_by_name() {
        let fault = indices(&["7"]).unwrap_err();
        assert_eq!(fault.kind, Kind::Missing);
        assert!(fault.hint.unwrap().contains("0 (GPU-0a)"));
        assert_eq!(indices(&["0", "GPU-0a"]).unwrap_err().kind, Kind::Usage);
        assert_eq!(indices(&["0", "2"]).unwrap_err().kind, Kind::Usage);
    }
}
