//! Restricts a native process to the GPUs of its launch, with the environment variable of the vendor's runtime.

use std::collections::BTreeMap;

use crate::telemetry::{GpuInfo, Vendor};

/// If any of these is set, the choice has already been made.
const DEVICE_VARIABLES: [&str; 3] = ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"];

/// Variables that restrict a process to these GPUs. None if the launch or the inherited environment already sets one.
pub(super) fn variables(
    gpus: &[GpuInfo],
    launch_env: &BTreeMap<String, String>,
    inherited: impl Fn(&str) -> bool,
) -> Vec<(&'static str, String)> {
    let Some(first) = gpus.first() else { return Vec::new() };
    if DEVICE_VARIABLES
        .iter()
        .any(|name| launch_env.contains_key(*name) || inherited(name))
    {
        return Vec::new();
    }
    let indices: Vec<String> = gpus.iter().map(|gpu| gpu.index.to_string()).collect();
    let indices = indices.join(",");
    match first.vendor {
        // The indices are NVML's, which orders by PCI address. CUDA's default order is by speed.
        Vendor::Nvidia => vec![
            ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()),
            ("CUDA_VISIBLE_DEVICES", indices),
        ],
        Vendor::Amd => vec![("HIP_VISIBLE_DEVICES", indices)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(index: u32, vendor: Vendor) -> GpuInfo {
        GpuInfo {
            index,
            id: format!("GPU-{index}"),
            name: "test".into(),
            vendor,
            used: 0,
            total: 1,
            driver: None,
            nodes: Vec::new(),
        }
    }

    #[test]
    fn a_process_sees_the_gpus_of_its_launch() {
        let none = BTreeMap::new();
        let nvidia = [gpu(3, Vendor::Nvidia), gpu(1, Vendor::Nvidia)];
        let set = variables(&nvidia, &none, |_| false);
        assert_eq!(set[1], ("CUDA_VISIBLE_DEVICES", "3,1".to_owned()));
        let amd = variables(&[gpu(2, Vendor::Amd)], &none, |_| false);
        assert_eq!(amd, [("HIP_VISIBLE_DEVICES", "2".to_owned())]);
        assert_eq!(variables(&[], &none, |_| false), []);
    }

    #[test]
    fn an_existing_choice_is_not_overridden() {
        let gpus = [gpu(0, Vendor::Nvidia)];
        let launch_env = [("CUDA_VISIBLE_DEVICES".to_owned(), "7".to_owned())].into();
        assert_eq!(variables(&gpus, &launch_env, |_| false), []);
        let inherited = |name: &str| name == "ROCR_VISIBLE_DEVICES";
        assert_eq!(variables(&gpus, &BTreeMap::new(), inherited), []);
    }
}
