//! How the containers of this machine get its GPUs: decided from what the daemon says of itself and from the CDI
//! specifications on disk.

use std::path::{Path, PathBuf};

use bollard::models::{DeviceMapping, DeviceRequest, HostConfig};
use serde::Deserialize;
use serde_json::Value;

use super::daemon::DockerInfo;
use crate::fault::{Fault, Result};
use crate::file;
use crate::runtime::GpuRuntime;
use crate::telemetry::{self, GpuFiles};

/// A way in which containers get GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuAccess {
    /// Docker's `--gpus`, which NVIDIA's toolkit fulfils: a runtime called `nvidia`, or its hook.
    Toolkit,
    /// CDI, with these devices.
    Cdi(Vec<String>),
    /// A default runtime of another name, which reads `NVIDIA_VISIBLE_DEVICES`.
    DefaultRuntime(String),
    /// The runtime `nvidia`, which the user chose and which is asked by `NVIDIA_VISIBLE_DEVICES`.
    NvidiaRuntime,
    /// AMD's runtime `amd`, which is asked by `AMD_VISIBLE_DEVICES`.
    AmdRuntime,
    /// The device files of AMD's driver.
    Files,
}

impl std::fmt::Display for GpuAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Toolkit => f.write_str("NVIDIA's container toolkit gives containers the GPUs (`--gpus`)"),
            Self::Cdi(devices) => write!(f, "by CDI: {}", devices.join(", ")),
            Self::DefaultRuntime(name) => write!(
                f,
                "the default runtime `{name}` is asked for them by `NVIDIA_VISIBLE_DEVICES`; whether it gives them shows at the first start"
            ),
            Self::NvidiaRuntime => f.write_str("NVIDIA's runtime `nvidia` gives containers the GPUs"),
            Self::AmdRuntime => f.write_str("AMD's runtime `amd` gives containers the GPUs"),
            Self::Files => f.write_str("by the device files of AMD's driver"),
        }
    }
}

/// Facts about the machine that the daemon does not tell.
#[derive(Clone, Debug, Default)]
struct Host {
    /// Devices in the CDI specifications on disk.
    devices: Vec<String>,
    /// Whether the hook of NVIDIA's toolkit is installed, through which Docker fulfils `--gpus` without a runtime.
    hook: bool,
}

/// Where CDI specifications are, unless a daemon is told otherwise.
const CDI_FOLDERS: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// The hook of NVIDIA's toolkit. Docker looks for it on its own PATH, which is usually that of the system.
const HOOK: &str = "nvidia-container-runtime-hook";
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runtimes that give containers no GPU by themselves.
const PLAIN_RUNTIMES: [&str; 10] = [
    "",
    "runc",
    "crun",
    "oci",
    "youki",
    "runsc",
    "kata",
    "kata-runtime",
    "krun",
    "sysbox-runc",
];

impl Host {
    fn look(daemon: &DockerInfo) -> Self {
        let folders: Vec<PathBuf> = match daemon.cdi_folders.as_slice() {
            [] => CDI_FOLDERS.map(PathBuf::from).into(),
            folders => folders.iter().map(PathBuf::from).collect(),
        };
        let path = std::env::var("PATH").unwrap_or_default();
        let mut programs = std::env::split_paths(&path).chain(std::env::split_paths(SYSTEM_PATH));
        Self {
            devices: folders.iter().flat_map(|folder| specified(folder)).collect(),
            hook: programs.any(|folder| folder.join(HOOK).is_file()),
        }
    }
}

/// A CDI specification, as far as it is read here.
#[derive(Deserialize)]
struct Specification {
    kind: String,
    #[serde(default)]
    devices: Vec<SpecifiedDevice>,
}

#[derive(Deserialize)]
struct SpecifiedDevice {
    /// A text; written without quotes, an index is a number.
    name: Value,
}

/// NVIDIA's specification of eight GPUs with MIG instances has less than 1 MiB.
const MAX_SPECIFICATION: u64 = 16 << 20;

/// The devices in the CDI specifications of a folder, such as `nvidia.com/gpu=0`.
fn specified(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "json" || end == "yaml"));
    paths.sort();
    let read = |path: &PathBuf| {
        // JSON is YAML.
        let specification: Specification = yaml_serde::from_slice(&file::read(path, MAX_SPECIFICATION).ok()?).ok()?;
        Some(specification)
    };
    let names = |specification: Specification| {
        let name = |device: SpecifiedDevice| match device.name {
            Value::String(name) => Some(name),
            Value::Number(index) => Some(index.to_string()),
            _ => None,
        };
        let names: Vec<String> = specification.devices.into_iter().filter_map(name).collect();
        let kind = specification.kind;
        names.into_iter().map(move |name| format!("{kind}={name}"))
    };
    paths.iter().filter_map(read).flat_map(names).collect()
}

/// The oldest podman whose Docker-compatible API heeds requests for CDI devices: 5.4.0 fixed its issue 19338. Older
/// ones start the container without them and say nothing.
const PODMAN_WITH_CDI: (u32, u32) = (5, 4);
/// The oldest Docker that knows CDI, and the oldest one that uses it unless told otherwise.
const DOCKER_WITH_CDI: (u32, u32) = (25, 0);
const DOCKER_BY_CDI: (u32, u32) = (28, 3);

impl DockerInfo {
    /// Whether it heeds requests for CDI devices.
    pub fn injects_cdi(&self) -> bool {
        if self.podman {
            self.is_at_least(PODMAN_WITH_CDI.0, PODMAN_WITH_CDI.1)
        } else {
            !self.cdi_folders.is_empty()
        }
    }
}

/// The way by a runtime that the user chose.
fn by_runtime(runtime: GpuRuntime, daemon: &DockerInfo) -> Result<GpuAccess> {
    let name = runtime.name();
    if daemon.podman || !daemon.runtimes.iter().any(|known| known == name) {
        return Err(Fault::missing(
            format!(
                "{} has no runtime called `{name}`: it has {}",
                daemon.name(),
                daemon.runtimes.join(", ")
            ),
            match runtime {
                GpuRuntime::Nvidia => {
                    "`--runtime docker` leaves the way to profiler, see `profiler doctor`; or install the NVIDIA container toolkit and run `sudo nvidia-ctk runtime configure --runtime=docker`, then restart Docker"
                }
                GpuRuntime::Amd => {
                    "`--runtime docker` leaves the way to profiler, see `profiler doctor`; or install AMD's container toolkit and run `sudo amd-ctk runtime configure`, then restart Docker"
                }
            },
        ));
    }
    Ok(match runtime {
        GpuRuntime::Nvidia => GpuAccess::NvidiaRuntime,
        GpuRuntime::Amd => GpuAccess::AmdRuntime,
    })
}

/// How containers get the GPUs of this vendor (`nvidia` or `amd`).
///
/// # Errors
///
/// `missing`, with the way to change it.
pub fn gpu_access(vendor: &str, daemon: &DockerInfo) -> Result<GpuAccess> {
    decide(vendor, daemon, &Host::look(daemon))
}

fn decide(vendor: &str, daemon: &DockerInfo, host: &Host) -> Result<GpuAccess> {
    let of_vendor = |devices: &[String]| -> Vec<String> {
        let kind = format!("{vendor}.com/gpu=");
        devices
            .iter()
            .filter(|device| device.starts_with(&kind))
            .cloned()
            .collect()
    };
    let injects = daemon.injects_cdi();
    let on_disk = of_vendor(&host.devices);
    let devices = daemon.cdi_devices.as_deref().map_or_else(|| on_disk.clone(), of_vendor);
    let by_cdi = injects && !devices.is_empty();
    let has = |name: &str| !daemon.podman && daemon.runtimes.iter().any(|runtime| runtime == name);
    if vendor == "amd" {
        return Ok(if by_cdi {
            GpuAccess::Cdi(devices)
        } else if has("amd") {
            GpuAccess::AmdRuntime
        } else {
            GpuAccess::Files
        });
    }
    if has("nvidia") {
        return Ok(GpuAccess::Toolkit);
    }
    if by_cdi {
        return Ok(GpuAccess::Cdi(devices));
    }
    let version = &daemon.version;
    if daemon.podman {
        return Err(if injects {
            Fault::missing(
                "podman finds no CDI specification of the GPUs",
                "install the NVIDIA container toolkit and run `sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`",
            )
        } else {
            Fault::missing(
                format!("the Docker-compatible API of podman {version} ignores requests for GPUs"),
                "update podman to 5.4 or newer, or use Docker, or start the engine as a process: `--runtime process --allow process`",
            )
        });
    }
    let plain = |name: &str| PLAIN_RUNTIMES.contains(&name) || name.starts_with("io.containerd.runc.");
    if host.hook {
        return Ok(GpuAccess::Toolkit);
    }
    if !plain(&daemon.default_runtime) {
        return Ok(GpuAccess::DefaultRuntime(daemon.default_runtime.clone()));
    }
    let knows_cdi = daemon.is_at_least(DOCKER_WITH_CDI.0, DOCKER_WITH_CDI.1);
    Err(if !on_disk.is_empty() && !injects && knows_cdi {
        Fault::missing(
            format!("there is a CDI specification of the GPUs, but CDI is switched off in Docker {version}"),
            "write `\"features\": { \"cdi\": true }` into /etc/docker/daemon.json and restart Docker",
        )
    } else if injects && daemon.is_at_least(DOCKER_BY_CDI.0, DOCKER_BY_CDI.1) {
        Fault::missing(
            format!(
                "Docker {version} gives containers no GPU: it finds no CDI specification of one, and has no NVIDIA container toolkit"
            ),
            "install the NVIDIA container toolkit and run `sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`",
        )
    } else {
        Fault::missing(
            format!(
                "Docker {version} gives containers no GPU: it has neither the NVIDIA container toolkit nor a CDI specification of one"
            ),
            "install the NVIDIA container toolkit and run `sudo nvidia-ctk runtime configure --runtime=docker`, then restart Docker",
        )
    })
}

/// The part of a container's request that gives it GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gpus {
    /// Device requests: the driver (`None` for Docker's choice) and names.
    Request(Option<&'static str>, Vec<String>),
    /// A runtime (`None` for the default one), and variables that it reads.
    Runtime(Option<&'static str>, Vec<String>),
    /// Device files.
    Files(GpuFiles),
}

/// Determines how to give the GPUs with these names (at least one) to a container: by the runtime that the user chose,
/// if any.
///
/// # Errors
///
/// `missing` without such a GPU, if containers cannot have it, or if the daemon lacks that runtime.
pub(super) fn resolve(daemon: &DockerInfo, names: &[String], runtime: Option<GpuRuntime>) -> Result<Gpus> {
    let has_nvidia = Path::new("/dev/nvidiactl").exists();
    let are_indices = names.iter().all(|name| name.parse::<u32>().is_ok());
    let selected = match telemetry::select(names) {
        Ok(gpus) => gpus,
        Err(fault) if telemetry::gpus().is_ok() && (!has_nvidia || are_indices) => return Err(fault),
        // The NVIDIA toolkit accepts names that NVML does not list, such as MIG instances.
        Err(_) => Vec::new(),
    };
    let vendor = selected.first().map_or("nvidia", |gpu| gpu.vendor.name());
    let access = match runtime {
        Some(runtime) => Ok(by_runtime(runtime, daemon)?),
        None => gpu_access(vendor, daemon),
    };
    if selected.is_empty()
        && !has_nvidia
        && !matches!(
            access,
            Ok(GpuAccess::Toolkit | GpuAccess::NvidiaRuntime | GpuAccess::Cdi(_))
        )
    {
        return Err(Fault::missing(
            "this machine has no GPU that a container could use",
            "see `profiler doctor`; for NVIDIA install the driver and the container toolkit, for AMD the amdgpu driver; `gpus: []` starts without",
        ));
    }
    let access = access?;
    let files = selected.first().and_then(|gpu| gpu.vendor.files(&selected));
    let mut choices = selected.first().into_iter().flat_map(|gpu| gpu.vendor.choices());
    let renumbered = choices.any(|name| std::env::var_os(name).is_some());
    let known: Vec<Known> = match selected.as_slice() {
        [] => names.iter().map(|name| Known::named(name)).collect(),
        gpus => gpus
            .iter()
            .map(|gpu| Known {
                id: gpu.id.clone(),
                index: Some(gpu.index).filter(|_| !renumbered),
            })
            .collect(),
    };
    requested(access, vendor, &known, files)
}

/// The names of a GPU that a container runtime knows.
struct Known {
    /// Its UUID, or what the user calls it.
    id: String,
    /// Its index; `None` if a variable of its vendor, such as `CUDA_VISIBLE_DEVICES`, gives it another one here.
    index: Option<u32>,
}

impl Known {
    fn named(name: &str) -> Self {
        Self {
            id: name.to_owned(),
            index: None,
        }
    }
}

/// The request for these GPUs of a vendor. `files`: their device files, if a container can use them. They are exact
/// where no name of a GPU is.
fn requested(access: GpuAccess, vendor: &str, gpus: &[Known], files: Option<GpuFiles>) -> Result<Gpus> {
    let ids: Vec<String> = gpus.iter().map(|gpu| gpu.id.clone()).collect();
    let indices: Option<Vec<String>> = gpus.iter().map(|gpu| Some(gpu.index?.to_string())).collect();
    Ok(match access {
        GpuAccess::Toolkit => Gpus::Request(None, ids),
        GpuAccess::NvidiaRuntime | GpuAccess::DefaultRuntime(_) => Gpus::Runtime(
            (access == GpuAccess::NvidiaRuntime).then_some("nvidia"),
            vec![
                format!("NVIDIA_VISIBLE_DEVICES={}", ids.join(",")),
                "NVIDIA_DRIVER_CAPABILITIES=compute,utility".to_owned(),
            ],
        ),
        GpuAccess::AmdRuntime => match indices {
            Some(indices) => Gpus::Runtime(Some("amd"), vec![format!("AMD_VISIBLE_DEVICES={}", indices.join(","))]),
            None => Gpus::Files(files.unwrap_or_default()),
        },
        // Only with GPUs that this machine lists.
        GpuAccess::Files => Gpus::Files(files.unwrap_or_default()),
        GpuAccess::Cdi(devices) => {
            let device = |gpu: &Known| {
                let names = [Some(gpu.id.clone()), gpu.index.map(|index| index.to_string())];
                let is_called =
                    |device: &&String, name: &str| device.split_once('=').is_some_and(|(_, known)| known == name);
                let mut names = names.into_iter().flatten();
                names.find_map(|name| devices.iter().find(|device| is_called(device, &name)).cloned())
            };
            let found: Option<Vec<String>> = gpus.iter().map(device).collect();
            let missing = || {
                let remedy = if vendor == "amd" {
                    "write the specification anew: `sudo amd-ctk cdi generate --output=/etc/cdi/amd.json`"
                } else {
                    "write the specification anew, with both names of each GPU: `sudo nvidia-ctk cdi generate --device-name-strategy=index --device-name-strategy=uuid --output=/etc/cdi/nvidia.yaml`"
                };
                Fault::missing(
                    format!(
                        "no CDI device is called as the GPUs {}: there are {}",
                        ids.join(", "),
                        devices.join(", ")
                    ),
                    remedy,
                )
            };
            match (found, files) {
                (Some(found), _) => Gpus::Request(Some("cdi"), found),
                (None, Some(files)) => Gpus::Files(files),
                (None, None) => return Err(missing()),
            }
        }
    })
}

impl Gpus {
    /// Adds them to a container's request.
    pub(super) fn add_to(&self, host: &mut HostConfig, env: &mut Vec<String>) {
        match self {
            Self::Request(driver, ids) => {
                host.device_requests = Some(vec![DeviceRequest {
                    driver: driver.map(str::to_owned),
                    // The daemon refuses a count together with ids.
                    count: None,
                    device_ids: Some(ids.clone()),
                    capabilities: Some(vec![vec!["gpu".to_owned()]]),
                    options: None,
                }]);
            }
            Self::Runtime(name, variables) => {
                host.runtime = name.map(str::to_owned);
                env.extend(variables.iter().cloned());
            }
            Self::Files(files) => {
                let device = |path: &String| DeviceMapping {
                    path_on_host: Some(path.clone()),
                    path_in_container: Some(path.clone()),
                    cgroup_permissions: Some("rw".to_owned()),
                };
                host.devices = Some(files.devices.iter().map(device).collect());
                host.group_add = Some(files.groups.clone());
                env.extend(files.env.iter().cloned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon(version: &str, runtimes: &[&str], default_runtime: &str, cdi: &[&str]) -> DockerInfo {
        DockerInfo {
            podman: version.starts_with("podman"),
            version: version.trim_start_matches("podman ").to_owned(),
            runtimes: runtimes.iter().map(|&name| name.to_owned()).collect(),
            default_runtime: default_runtime.to_owned(),
            cdi_folders: cdi.iter().map(|&folder| folder.to_owned()).collect(),
            ..DockerInfo::default()
        }
    }

    fn cdi(vendor: &str) -> GpuAccess {
        GpuAccess::Cdi(vec![format!("{vendor}.com/gpu=0")])
    }

    /// The machine: the daemon, the devices in specifications on disk, and whether the hook is installed. Expected: the
    /// way, or a word of the remedy.
    #[test]
    fn the_facts_of_a_machine_decide_how_its_containers_get_gpus() {
        const ON: &[&str] = &["/etc/cdi"];
        const SPEC: &[&str] = &["nvidia.com/gpu=0", "amd.com/gpu=0"];
        let gpu = GpuAccess::DefaultRuntime("gpu".to_owned());
        let runc = ["runc", "io.containerd.runc.v2"];
        let nvidia = ["nvidia", "runc"];
        for (vendor, machine, devices, hook, expected) in [
            (
                "nvidia",
                daemon("20.10.24+dfsg1", &runc, "runc", &[]),
                &[][..],
                false,
                Err("runtime configure"),
            ),
            (
                "nvidia",
                daemon("20.10.24", &runc, "runc", &[]),
                SPEC,
                false,
                Err("runtime configure"),
            ),
            (
                "nvidia",
                daemon("24.0.7", &nvidia, "runc", &[]),
                &[],
                false,
                Ok(GpuAccess::Toolkit),
            ),
            (
                "nvidia",
                daemon("24.0.7", &runc, "runc", &[]),
                &[],
                true,
                Ok(GpuAccess::Toolkit),
            ),
            (
                "nvidia",
                daemon("26.1.5", &["gpu", "runc"], "gpu", &[]),
                &[],
                false,
                Ok(gpu),
            ),
            (
                "nvidia",
                daemon("26.1.5", &["gpu", "runc"], "gpu", &[]),
                &[],
                true,
                Ok(GpuAccess::Toolkit),
            ),
            (
                "nvidia",
                daemon("26.1.5", &["gpu", "runc"], "gpu", ON),
                SPEC,
                true,
                Ok(cdi("nvidia")),
            ),
            (
                "nvidia",
                daemon("26.1.5", &runc, "runc", &[]),
                SPEC,
                false,
                Err("\"cdi\": true"),
            ),
            (
                "nvidia",
                daemon("26.1.5", &runc, "runc", ON),
                SPEC,
                false,
                Ok(cdi("nvidia")),
            ),
            (
                "nvidia",
                daemon("28.3.1", &runc, "runc", ON),
                &[],
                false,
                Err("cdi generate"),
            ),
            (
                "nvidia",
                daemon("28.3.1", &runc, "runc", ON),
                SPEC,
                false,
                Ok(cdi("nvidia")),
            ),
            (
                "nvidia",
                daemon("28.3.1", &nvidia, "runc", ON),
                SPEC,
                false,
                Ok(GpuAccess::Toolkit),
            ),
            (
                "nvidia",
                daemon("podman 5.4.0", &nvidia, "crun", &[]),
                SPEC,
                false,
                Ok(cdi("nvidia")),
            ),
            (
                "nvidia",
                daemon("podman 5.4.0", &["crun"], "crun", &[]),
                &[],
                false,
                Err("cdi generate"),
            ),
            (
                "nvidia",
                daemon("podman 4.3.1", &["crun"], "crun", &[]),
                SPEC,
                false,
                Err("update podman"),
            ),
            ("amd", daemon("28.3.1", &runc, "runc", ON), SPEC, false, Ok(cdi("amd"))),
            (
                "amd",
                daemon("28.3.1", &["amd", "runc"], "runc", &[]),
                &[],
                false,
                Ok(GpuAccess::AmdRuntime),
            ),
            (
                "amd",
                daemon("20.10.24", &runc, "runc", &[]),
                SPEC,
                false,
                Ok(GpuAccess::Files),
            ),
            (
                "amd",
                daemon("podman 4.3.1", &["crun"], "crun", &[]),
                SPEC,
                false,
                Ok(GpuAccess::Files),
            ),
        ] {
            let host = Host {
                devices: devices.iter().map(|&name| name.to_owned()).collect(),
                hook,
            };
            let found = decide(vendor, &machine, &host);
            let context = format!("{vendor} {machine:?} {devices:?} {hook}: {found:?}");
            match expected {
                Ok(way) => assert_eq!(found.unwrap(), way, "{context}"),
                Err(word) => assert!(found.unwrap_err().hint.unwrap().contains(word), "{context}"),
            }
        }
        // Devices that the daemon found count, not files on disk.
        let told = DockerInfo {
            cdi_devices: Some(Vec::new()),
            ..daemon("28.3.1", &runc, "runc", ON)
        };
        let host = Host {
            devices: vec![SPEC[0].to_owned()],
            hook: false,
        };
        assert!(decide("nvidia", &told, &host).is_err());
    }

    #[test]
    fn specifications_are_read_in_both_forms() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            "a.yaml",
            "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: \"0\"\n  containerEdits: {}\n- name: 1\n",
        );
        write(
            "b.json",
            r#"{"kind": "amd.com/gpu", "devices": [{"name": "all", "containerEdits": {}}]}"#,
        );
        write("c.json", "no specification");
        write("d.txt", "kind: x.com/gpu\ndevices: [{name: a}]\n");
        let expected = ["nvidia.com/gpu=0", "nvidia.com/gpu=1", "amd.com/gpu=all"];
        assert_eq!(specified(folder.path()), expected);
        assert!(specified(Path::new("/no/such/folder")).is_empty());
    }

    fn host_config(gpus: &Gpus) -> (HostConfig, Vec<String>) {
        let (mut host, mut env) = (HostConfig::default(), Vec::new());
        gpus.add_to(&mut host, &mut env);
        (host, env)
    }

    #[test]
    fn nvidia_gpus_are_named_and_never_counted() {
        let gpus = ["0", "GPU-ab"].map(Known::named);
        let request = requested(GpuAccess::Toolkit, "nvidia", &gpus, None).unwrap();
        let request = host_config(&request).0.device_requests.unwrap().remove(0);
        assert_eq!(request.device_ids.unwrap(), ["0", "GPU-ab"]);
        assert_eq!((request.count, request.driver), (None, None));
        assert_eq!(request.capabilities.unwrap(), [["gpu"]]);

        let devices = ["all", "0", "GPU-ab"]
            .map(|name| format!("nvidia.com/gpu={name}"))
            .to_vec();
        let request = requested(GpuAccess::Cdi(devices.clone()), "nvidia", &gpus, None).unwrap();
        let request = host_config(&request).0.device_requests.unwrap().remove(0);
        assert_eq!(request.driver.as_deref(), Some("cdi"));
        assert_eq!(
            request.device_ids.unwrap(),
            ["nvidia.com/gpu=0", "nvidia.com/gpu=GPU-ab"]
        );
        let unknown = requested(GpuAccess::Cdi(devices), "nvidia", &[Known::named("7")], None);
        assert!(unknown.unwrap_err().message.contains("nvidia.com/gpu=GPU-ab"));

        let request = requested(GpuAccess::DefaultRuntime("gpu".to_owned()), "nvidia", &gpus, None).unwrap();
        let (host, env) = host_config(&request);
        assert_eq!((host.runtime, host.device_requests), (None, None));
        assert!(env.contains(&"NVIDIA_VISIBLE_DEVICES=0,GPU-ab".to_owned()));
    }

    fn known(index: Option<u32>) -> [Known; 1] {
        [Known {
            id: "GPU-ab".to_owned(),
            index,
        }]
    }

    #[test]
    fn a_specification_by_index_serves_gpus_that_keep_their_numbers() {
        let by_index = || GpuAccess::Cdi(vec!["nvidia.com/gpu=1".to_owned()]);
        let request = requested(by_index(), "nvidia", &known(Some(1)), None).unwrap();
        assert_eq!(request, Gpus::Request(Some("cdi"), vec!["nvidia.com/gpu=1".to_owned()]));
        assert!(requested(by_index(), "nvidia", &known(None), None).is_err());
    }

    #[test]
    fn amds_gpus_without_an_exact_name_are_given_by_their_files() {
        let files = GpuFiles {
            devices: vec!["/dev/kfd".to_owned(), "/dev/dri/renderD128".to_owned()],
            ..GpuFiles::default()
        };
        let by_files = Gpus::Files(files.clone());
        let by_name = Gpus::Request(Some("cdi"), vec!["amd.com/gpu=0".to_owned()]);
        let by_variable = Gpus::Runtime(Some("amd"), vec!["AMD_VISIBLE_DEVICES=0".to_owned()]);
        for (access, index, expected) in [
            (cdi("amd"), Some(0), &by_name),
            (cdi("amd"), Some(1), &by_files),
            (cdi("amd"), None, &by_files),
            (GpuAccess::AmdRuntime, Some(0), &by_variable),
            (GpuAccess::AmdRuntime, None, &by_files),
            (GpuAccess::Files, Some(0), &by_files),
        ] {
            let request = requested(access.clone(), "amd", &known(index), Some(files.clone()));
            assert_eq!(&request.unwrap(), expected, "{access:?} {index:?}");
        }
        let missing = requested(cdi("amd"), "amd", &known(None), None).unwrap_err();
        assert!(missing.hint.unwrap().contains("amd-ctk cdi generate"));
    }

    #[test]
    fn amds_runtime_is_asked_by_its_variable() {
        let request = requested(GpuAccess::AmdRuntime, "amd", &known(Some(0)), None).unwrap();
        let (host, env) = host_config(&request);
        assert_eq!(host.runtime.as_deref(), Some("amd"));
        assert_eq!(env, ["AMD_VISIBLE_DEVICES=0"]);
    }
}
