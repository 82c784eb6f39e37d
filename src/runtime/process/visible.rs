//! Which GPUs a native process sees: those of its launch, by the variable of their maker's runtime.

use std::collections::BTreeMap;

use crate::telemetry::{GpuInfo, Vendor};

/// The variables, any of which means that somebody decided already.
const DECIDED: [&str; 3] = ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"];

/// The variables that narrow a process to these GPUs; none where its launch, or the environment that it inherits, decides.
pub(super) fn variables(
    gpus: &[GpuInfo],
    given: &BTreeMap<String, String>,
    inherited: impl Fn(&str) -> bool,
) -> Vec<(&'static str, String)> {
    let Some(first) = gpus.first() else { return Vec::new() };
    if DECIDED.iter().any(|name| given.contains_key(*name) || inherited(name)) {
        return Vec::new();
    }
    let indices: Vec<String> = gpus.iter().map(|gpu| gpu.index.to_string()).collect();
    let indices = indices.join(",");
    match first.vendor {
        // CUDA's own order is by speed; NVML, which the indices are from, goes by address.
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
        let seen = variables(&nvidia, &none, |_| false);
        assert_eq!(seen[1], ("CUDA_VISIBLE_DEVICES", "3,1".to_owned()));
        let amd = variables(&[gpu(2, Vendor::Amd)], &none, |_| false);
        assert_eq!(amd, [("HIP_VISIBLE_DEVICES", "2".to_owned())]);
        assert_eq!(variables(&[], &none, |_| false), []);
    }

    #[test]
    fn what_somebody_decided_stands() {
        let gpus = [gpu(0, Vendor::Nvidia)];
        let given = [("CUDA_VISIBLE_DEVICES".to_owned(), "7".to_owned())].into();
        assert_eq!(variables(&gpus, &given, |_| false), []);
        let inherited = |name: &str| name == "ROCR_VISIBLE_DEVICES";
        assert_eq!(variables(&gpus, &BTreeMap::new(), inherited), []);
    }
}
