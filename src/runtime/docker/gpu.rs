//! Gives a container its GPUs: NVIDIA by device request, AMD by device files.
//!
//! AMD's instructions also disable seccomp (`seccomp=unconfined`) and share the host's IPC namespace. The first only
//! allows binding memory to NUMA nodes, the second only replaces a small `/dev/shm`; scripts get neither.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use bollard::Docker;
use bollard::models::{DeviceMapping, DeviceRequest, HostConfig};

use super::fault;
use crate::fault::{Fault, Result};
use crate::telemetry::{self, GpuInfo, Vendor};

/// How containers get the GPUs of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gpus {
    /// Index or UUID.
    Nvidia(Vec<String>),
    /// For podman, which uses CDI device names.
    NvidiaCdi(Vec<String>),
    /// Device files.
    Amd(Amd),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Amd {
    /// Device files of the GPUs and the driver.
    devices: Vec<String>,
    /// Groups allowed to open them: `video`, and the owning groups on this host (`render` has no fixed number).
    groups: Vec<String>,
    /// Environment variables that restrict the runtime to these GPUs.
    env: Vec<String>,
}

/// Determines how to give the GPUs with these names (at least one) to a container.
pub(super) async fn resolve(docker: &Docker, names: &[String]) -> Result<Gpus> {
    let amd_alone = Path::new("/dev/kfd").exists() && !Path::new("/dev/nvidiactl").exists();
    match telemetry::select(names) {
        Ok(gpus) if gpus.first().is_some_and(|gpu| gpu.vendor == Vendor::Amd) => {
            return Ok(Gpus::Amd(Amd::new(&gpus, Path::new("/dev"))));
        }
        Err(fault) if amd_alone => return Err(fault),
        // The NVIDIA toolkit accepts names that NVML does not list, such as MIG instances.
        Ok(_) | Err(_) => {}
    }
    let version = docker.version().await.map_err(|error| fault::explain(&error))?;
    let podman = version
        .components
        .iter()
        .flatten()
        .any(|part| part.name.contains("Podman"));
    if podman {
        return Ok(Gpus::NvidiaCdi(names.to_vec()));
    }
    let info = docker.info().await.map_err(|error| fault::explain(&error))?;
    let has_toolkit = info.runtimes.unwrap_or_default().contains_key("nvidia");
    if has_toolkit || Path::new("/dev/nvidiactl").exists() {
        return Ok(Gpus::Nvidia(names.to_vec()));
    }
    Err(Fault::missing(
        "this machine has no GPU that a container could use",
        "see `profiler doctor`; for NVIDIA install the driver and the container toolkit, for AMD the amdgpu driver; `gpus: []` starts without",
    ))
}

impl Amd {
    /// `dev` is the folder of the device files.
    pub(super) fn new(gpus: &[GpuInfo], dev: &Path) -> Self {
        let all_known = gpus.iter().all(|gpu| !gpu.nodes.is_empty());
        let (files, env) = if all_known {
            let files = gpus.iter().flat_map(|gpu| &gpu.nodes).map(|node| format!("dri/{node}"));
            // Only these can be opened, so the runtime numbers them from 0.
            let indices: Vec<String> = (0..gpus.len()).map(|index| index.to_string()).collect();
            (files.collect(), format!("HIP_VISIBLE_DEVICES={}", indices.join(",")))
        } else {
            let indices: Vec<String> = gpus.iter().map(|gpu| gpu.index.to_string()).collect();
            (
                vec!["dri".to_owned()],
                format!("ROCR_VISIBLE_DEVICES={}", indices.join(",")),
            )
        };
        let devices: Vec<String> = std::iter::once("kfd".to_owned())
            .chain(files)
            .map(|file| dev.join(file).display().to_string())
            .collect();
        let mut groups: Vec<String> = devices
            .iter()
            .filter_map(|file| owning_group(Path::new(file)))
            .collect();
        groups.push("video".to_owned());
        groups.sort();
        groups.dedup();
        Self {
            devices,
            groups,
            env: vec![env],
        }
    }
}

/// Gid of a device file; none for root's group.
fn owning_group(file: &Path) -> Option<String> {
    let group = file.metadata().ok()?.gid();
    (group != 0).then(|| group.to_string())
}

pub(super) fn add_to(gpus: &Gpus, host: &mut HostConfig, env: &mut Vec<String>) {
    let request = |driver: Option<&str>, ids: Vec<String>| DeviceRequest {
        driver: driver.map(str::to_owned),
        // The daemon refuses a count together with ids.
        count: None,
        device_ids: Some(ids),
        capabilities: Some(vec![vec!["gpu".to_owned()]]),
        options: None,
    };
    match gpus {
        Gpus::Nvidia(names) => host.device_requests = Some(vec![request(None, names.clone())]),
        Gpus::NvidiaCdi(names) => {
            let names = names.iter().map(|gpu| format!("nvidia.com/gpu={gpu}")).collect();
            host.device_requests = Some(vec![request(Some("cdi"), names)]);
        }
        Gpus::Amd(amd) => {
            let device = |path: &String| DeviceMapping {
                path_on_host: Some(path.clone()),
                path_in_container: Some(path.clone()),
                cgroup_permissions: Some("rw".to_owned()),
            };
            host.devices = Some(amd.devices.iter().map(device).collect());
            host.group_add = Some(amd.groups.clone());
            env.extend(amd.env.iter().cloned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_config(gpus: &Gpus) -> HostConfig {
        let (mut host, mut env) = (HostConfig::default(), Vec::new());
        add_to(gpus, &mut host, &mut env);
        host
    }

    #[test]
    fn nvidia_gpus_are_named_and_never_counted() {
        let names = vec!["0".to_owned(), "GPU-ab".to_owned()];
        let request = host_config(&Gpus::Nvidia(names.clone()))
            .device_requests
            .unwrap()
            .remove(0);
        assert_eq!(request.device_ids.unwrap(), ["0", "GPU-ab"]);
        assert_eq!(request.count, None);
        assert_eq!(request.capabilities.unwrap(), [["gpu"]]);
        let request = host_config(&Gpus::NvidiaCdi(names)).device_requests.unwrap().remove(0);
        assert_eq!(
            request.device_ids.unwrap(),
            ["nvidia.com/gpu=0", "nvidia.com/gpu=GPU-ab"]
        );
    }

    #[test]
    fn amd_gpus_with_unknown_device_files_are_selected_by_environment() {
        let gpu = |index, nodes: &[&str]| GpuInfo {
            index,
            id: format!("PCI-{index}"),
            name: "AMD GPU".into(),
            vendor: Vendor::Amd,
            used: 0,
            total: 1,
            driver: None,
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        };
        let amd = Amd::new(&[gpu(1, &["renderD129"]), gpu(3, &[])], Path::new("/nowhere"));
        assert_eq!(amd.devices, ["/nowhere/kfd", "/nowhere/dri"]);
        assert_eq!(amd.env, ["ROCR_VISIBLE_DEVICES=1,3"]);
        assert_eq!(amd.groups, ["video"]);
    }
}
