//! How a container gets its GPUs: NVIDIA by a device request, AMD by device files.

use std::path::Path;

use bollard::Docker;
use bollard::models::{DeviceMapping, DeviceRequest, HostConfig};

use super::fault;
use crate::fault::{Fault, Result};

/// Whose GPUs this machine has, as containers reach them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vendor {
    Nvidia,
    /// NVIDIA under podman, which knows devices by their CDI names only.
    NvidiaCdi,
    Amd,
}

/// Whose GPUs a container would get.
pub(super) async fn vendor(docker: &Docker) -> Result<Vendor> {
    if Path::new("/dev/kfd").exists() && !Path::new("/dev/nvidiactl").exists() {
        return Ok(Vendor::Amd);
    }
    let version = docker.version().await.map_err(|error| fault::explain(&error))?;
    let podman = version
        .components
        .iter()
        .flatten()
        .any(|part| part.name.contains("Podman"));
    if podman {
        return Ok(Vendor::NvidiaCdi);
    }
    let info = docker.info().await.map_err(|error| fault::explain(&error))?;
    let toolkit = info.runtimes.unwrap_or_default().contains_key("nvidia");
    if toolkit || Path::new("/dev/nvidiactl").exists() {
        return Ok(Vendor::Nvidia);
    }
    Err(Fault::missing(
        "this machine shows no GPU that a container could use",
        "see `profiler doctor`; for NVIDIA install the driver and the container toolkit, for AMD the amdgpu driver; `gpus: []` starts without",
    ))
}

/// Enters the GPUs in the container's configuration.
pub(super) fn give(gpus: &[String], vendor: Vendor, host: &mut HostConfig, env: &mut Vec<String>) {
    let request = |driver: Option<&str>, ids: Vec<String>| DeviceRequest {
        driver: driver.map(str::to_owned),
        // Never a count as well: the daemon refuses both together.
        count: None,
        device_ids: Some(ids),
        capabilities: Some(vec![vec!["gpu".to_owned()]]),
        options: None,
    };
    match vendor {
        Vendor::Nvidia => host.device_requests = Some(vec![request(None, gpus.to_vec())]),
        Vendor::NvidiaCdi => {
            let names = gpus.iter().map(|gpu| format!("nvidia.com/gpu={gpu}")).collect();
            host.device_requests = Some(vec![request(Some("cdi"), names)]);
        }
        Vendor::Amd => {
            let device = |path: &str| DeviceMapping {
                path_on_host: Some(path.to_owned()),
                path_in_container: Some(path.to_owned()),
                cgroup_permissions: Some("rwm".to_owned()),
            };
            host.devices = Some(vec![device("/dev/kfd"), device("/dev/dri")]);
            host.group_add = Some(vec!["video".to_owned()]);
            // The device files show every GPU; the runtime's own variable narrows them to those asked for.
            env.push(format!("ROCR_VISIBLE_DEVICES={}", gpus.join(",")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(vendor: Vendor) -> (HostConfig, Vec<String>) {
        let (mut host, mut env) = (HostConfig::default(), Vec::new());
        give(&["0".into(), "GPU-ab".into()], vendor, &mut host, &mut env);
        (host, env)
    }

    #[test]
    fn nvidia_gpus_are_named_and_never_counted() {
        let request = given(Vendor::Nvidia).0.device_requests.unwrap().remove(0);
        assert_eq!(request.device_ids.unwrap(), ["0", "GPU-ab"]);
        assert_eq!(request.count, None);
        assert_eq!(request.capabilities.unwrap(), [["gpu"]]);
        let request = given(Vendor::NvidiaCdi).0.device_requests.unwrap().remove(0);
        assert_eq!(
            request.device_ids.unwrap(),
            ["nvidia.com/gpu=0", "nvidia.com/gpu=GPU-ab"]
        );
    }

    #[test]
    fn amd_gpus_are_device_files() {
        let (host, env) = given(Vendor::Amd);
        let paths: Vec<_> = host
            .devices
            .unwrap()
            .into_iter()
            .filter_map(|device| device.path_on_host)
            .collect();
        assert_eq!(paths, ["/dev/kfd", "/dev/dri"]);
        assert_eq!(host.device_requests, None);
        assert_eq!(env, ["ROCR_VISIBLE_DEVICES=0,GPU-ab"]);
    }
}
