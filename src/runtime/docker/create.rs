//! Builds the request that creates a container from launch, permissions and the machine's GPUs; and the network of a
//! container that is to reach nothing: no way out and no other container. Its engine is reached at the container's own
//! address.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use bollard::Docker;
use bollard::models::{
    ContainerCreateBody, DeviceMapping, DeviceRequest, EndpointIpamConfig, EndpointSettings, HostConfig, Ipam,
    IpamConfig, Mount, MountType, NetworkCreateRequest, NetworkingConfig, PortBinding, ResourcesUlimits,
};
use procfs::net::TcpState;
use serde::Serialize;

use super::daemon;
use crate::fault::{Fault, Result};
use crate::run::Run;
use crate::runtime::{Grant, Launch, launch};
use crate::telemetry;
use crate::telemetry::GpuFiles;
use crate::warning::Warning;

/// What a container is made from.
#[derive(Default)]
pub(super) struct ContainerPlan {
    /// Name of the container and of its network.
    pub(super) name: String,
    pub(super) launch: Launch,
    pub(super) grant: Grant,
    /// Reference of the image.
    pub(super) image: String,
    pub(super) gpus: Option<Gpus>,
    pub(super) cache: ModelCache,
    /// The memory limit in bytes, where the user gave none.
    pub(super) own_limit: Option<u64>,
}

impl ContainerPlan {
    /// Whether it may write to a few folders only. What runs on a GPU writes where it likes: kernels that it compiles,
    /// settings.
    pub(super) fn is_read_only(&self) -> bool {
        !self.grant.network && self.launch.gpus.is_empty()
    }
}

/// Where a container has its models from.
#[derive(Clone, Default, Serialize)]
pub(super) struct ModelCache {
    /// Folders of the host's hub cache, which it may read.
    pub(super) folders: BTreeSet<PathBuf>,
    /// The volume into which it downloads one.
    pub(super) volume: Option<String>,
}

/// How the host reaches a container's port.
#[derive(Clone, Copy)]
pub(super) enum Reach {
    /// Published on this loopback port, on the usual network.
    Published(u16),
    /// At its own address in a network of its own.
    Own(Ipv4Addr),
}

/// The server of containers without a way out: an address that nobody has. Docker's own would ask others in their stead.
const NO_NAMES: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Folders that a container may write to where the rest is read-only, as volumes that go with it.
const WRITABLE: [&str; 5] = ["/tmp", "/var/tmp", "/run", "/root/.cache", launch::CONTAINER_PATH];

/// More processes and threads than any engine has.
const MAX_PROCESSES: i64 = 32_768;

/// The request for a container that is reached in this way. `token` are the environment variables with the token.
pub(super) fn request(
    plan: &ContainerPlan,
    reach: Reach,
    labels: HashMap<String, String>,
    token: &[(&str, String)],
) -> ContainerCreateBody {
    let ContainerPlan {
        launch, grant, cache, ..
    } = plan;
    let own = launch.env.iter().map(|(name, value)| (name.as_str(), value));
    let variables = own.chain(token.iter().map(|(name, value)| (*name, value)));
    let mut env: Vec<String> = variables.map(|(name, value)| format!("{name}={value}")).collect();
    let mut mounts: Vec<Mount> = grant
        .mounts
        .iter()
        .map(|mount| bind(&mount.host, &mount.container, mount.writable))
        .collect();
    if let Some(inside) = &launch.cache {
        for folder in &cache.folders {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            mounts.push(bind(&folder.to_string_lossy(), &format!("{inside}/{name}"), false));
        }
    }
    let reads_files = !mounts.is_empty();
    if let (Some(inside), Some(name)) = (&launch.cache, &cache.volume) {
        mounts.push(Mount {
            source: Some(name.clone()),
            ..volume(inside)
        });
    }
    let read_only = plan.is_read_only();
    for folder in WRITABLE.into_iter().filter(|_| read_only) {
        if mounts.iter().all(|mount| mount.target.as_deref() != Some(folder)) {
            mounts.push(volume(folder));
        }
    }
    let limit = launch.memory_limit.or(plan.own_limit).map(to_i64);
    let mut host = HostConfig {
        mounts: Some(mounts),
        shm_size: launch.shm_size.map(to_i64),
        memory: limit,
        // Equal to the memory limit, so no swap is allowed.
        memory_swap: limit,
        ulimits: (!launch.ulimits.is_empty()).then(|| launch.ulimits.iter().map(ulimit).collect()),
        pids_limit: Some(MAX_PROCESSES),
        cap_drop: Some(vec!["ALL".to_owned()]),
        // Root reads the user's model folder whoever owns it.
        cap_add: reads_files.then(|| vec!["DAC_OVERRIDE".to_owned()]),
        // Init process: reaps zombies of the engine's workers and forwards signals.
        init: Some(true),
        network_mode: Some("bridge".to_owned()),
        readonly_rootfs: read_only.then_some(true),
        privileged: Some(false),
        // No privilege escalation by setuid programs of the image.
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        ..HostConfig::default()
    };
    if let Some(gpus) = &plan.gpus {
        add_gpus(gpus, &mut host, &mut env);
    }
    let port = format!("{}/tcp", launch.port);
    let mut networking = None;
    match reach {
        Reach::Published(host_port) if launch.port != 0 => {
            let binding = PortBinding {
                host_ip: Some("127.0.0.1".to_owned()),
                host_port: Some(host_port.to_string()),
            };
            host.port_bindings = Some([(port.clone(), Some(vec![binding]))].into());
        }
        Reach::Published(_) => {}
        Reach::Own(address) => {
            let endpoint = EndpointSettings {
                ipam_config: Some(EndpointIpamConfig {
                    ipv4_address: Some(address.to_string()),
                    ..EndpointIpamConfig::default()
                }),
                ..EndpointSettings::default()
            };
            networking = Some(NetworkingConfig {
                endpoints_config: Some([(plan.name.clone(), endpoint)].into()),
            });
            host.network_mode = Some(plan.name.clone());
            host.dns = Some(vec![NO_NAMES.to_string()]);
        }
    }
    ContainerCreateBody {
        image: Some(plan.image.clone()),
        entrypoint: (!launch.entrypoint.is_empty()).then(|| launch.entrypoint.clone()),
        cmd: (!launch.args.is_empty()).then(|| launch.args.clone()),
        env: Some(env),
        exposed_ports: (launch.port != 0).then(|| vec![port]),
        labels: Some(labels),
        host_config: Some(host),
        networking_config: networking,
        ..ContainerCreateBody::default()
    }
}

fn bind(host: &str, inside: &str, writable: bool) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(host.to_owned()),
        target: Some(inside.to_owned()),
        read_only: Some(!writable),
        ..Mount::default()
    }
}

/// A volume without a name, which is removed with its container.
fn volume(folder: &str) -> Mount {
    Mount {
        typ: Some(MountType::VOLUME),
        target: Some(folder.to_owned()),
        ..Mount::default()
    }
}

fn ulimit((name, limit): (&String, &i64)) -> ResourcesUlimits {
    ResourcesUlimits {
        name: Some(name.clone()),
        soft: Some(*limit),
        hard: Some(*limit),
    }
}

fn to_i64(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// How a container gets its GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gpus {
    /// Through Docker's runtime of NVIDIA: index or UUID.
    Nvidia(Vec<String>),
    /// For podman, which uses CDI device names.
    NvidiaCdi(Vec<String>),
    /// Through device files.
    Files(GpuFiles),
}

/// Determines how to give the GPUs with these names (at least one) to a container.
pub(super) async fn resolve_gpus(docker: &Docker, names: &[String]) -> Result<Gpus> {
    let has_nvidia = Path::new("/dev/nvidiactl").exists();
    match telemetry::select(names) {
        Ok(gpus) => {
            if let Some(files) = gpus.first().and_then(|gpu| gpu.vendor.files(&gpus)) {
                return Ok(Gpus::Files(files));
            }
        }
        Err(fault) if !has_nvidia && telemetry::gpus().is_ok() => return Err(fault),
        // The NVIDIA toolkit accepts names that NVML does not list, such as MIG instances.
        Err(_) => {}
    }
    let version = docker.version().await.map_err(daemon::explain)?;
    let podman = version
        .components
        .iter()
        .flatten()
        .any(|part| part.name.contains("Podman"));
    if podman {
        return Ok(Gpus::NvidiaCdi(names.to_vec()));
    }
    let info = docker.info().await.map_err(daemon::explain)?;
    let has_toolkit = info.runtimes.unwrap_or_default().contains_key("nvidia");
    if has_toolkit || has_nvidia {
        return Ok(Gpus::Nvidia(names.to_vec()));
    }
    Err(Fault::missing(
        "this machine has no GPU that a container could use",
        "see `profiler doctor`; for NVIDIA install the driver and the container toolkit, for AMD the amdgpu driver; `gpus: []` starts without",
    ))
}

fn add_gpus(gpus: &Gpus, host: &mut HostConfig, env: &mut Vec<String>) {
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
        Gpus::Files(files) => {
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

/// Taken from the range for benchmarks of networks (RFC 2544), which is routed nowhere.
const FIRST: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 0);
/// Networks of 8 addresses in the lower half of that range.
const NETWORKS: u64 = 4096;
/// Attempts with another network if one is taken.
const ATTEMPTS: usize = 8;

/// Creates the network and returns the container's address in it. None where networks of the daemon cannot be reached
/// from here.
pub(super) async fn create_network(
    docker: &Docker,
    name: &str,
    labels: HashMap<String, String>,
    run: &Run,
) -> Result<Option<Ipv4Addr>> {
    let mut attempt = 1;
    let first = loop {
        let number = RandomState::new().hash_one(attempt) % NETWORKS;
        let first = u32::from(FIRST) + 8 * number as u32;
        match docker
            .create_network(network_request(name, labels.clone(), first))
            .await
        {
            Ok(_) => break first,
            Err(error) if attempt < ATTEMPTS && error.to_string().contains("overlaps") => attempt += 1,
            Err(error) => {
                let fault = daemon::explain(error).while_doing("cannot give the container a network of its own");
                return Err(fault.hint("`--allow net=HOST` gives it the usual network, with a way out"));
            }
        }
    };
    let gateway = Ipv4Addr::from(first + 1);
    if TcpListener::bind((gateway, 0)).is_err() {
        remove_network(docker, name).await?;
        let message = "this Docker runs in a network of its own, as rootless Docker and Docker Desktop do: containers are not kept from the network";
        run.warn(Warning::new("container_network", message))?;
        return Ok(None);
    }
    let ports = open_ports(gateway);
    if !ports.is_empty() {
        let message = format!(
            "Docker cannot keep the container from what listens on every address of this machine (ports {}): let that listen on 127.0.0.1, or block {FIRST}/17 in the firewall",
            ports.join(", ")
        );
        run.warn(Warning::new("container_network", message))?;
    }
    Ok(Some(Ipv4Addr::from(first + 2)))
}

fn network_request(name: &str, labels: HashMap<String, String>, first: u32) -> NetworkCreateRequest {
    let address = |number: u32| Ipv4Addr::from(first + number).to_string();
    let config = IpamConfig {
        subnet: Some(format!("{}/29", address(0))),
        gateway: Some(address(1)),
        // Nobody: before version 27 an internal network has a default route too, which leads to all addresses of this machine.
        auxiliary_addresses: Some([("DefaultGatewayIPv4".to_owned(), address(6))].into()),
        ..IpamConfig::default()
    };
    NetworkCreateRequest {
        name: name.to_owned(),
        driver: Some("bridge".to_owned()),
        internal: Some(true),
        ipam: Some(Ipam {
            config: Some(vec![config]),
            ..Ipam::default()
        }),
        labels: Some(labels),
        ..NetworkCreateRequest::default()
    }
}

/// Removes a network if there is one.
pub(super) async fn remove_network(docker: &Docker, name: &str) -> Result<()> {
    match docker.remove_network(name).await {
        Err(error) if daemon::status(&error) != Some(404) => Err(daemon::explain(error)),
        _ => Ok(()),
    }
}

/// Ports on which something of this machine answers a container.
fn open_ports(gateway: Ipv4Addr) -> Vec<String> {
    let tables = [procfs::net::tcp(), procfs::net::tcp6()];
    let listening = tables.into_iter().flatten().flatten();
    let mut ports: Vec<u16> = listening
        .filter(|entry| entry.state == TcpState::Listen)
        .map(|entry| entry.local_address)
        .filter(|address| address.ip().is_unspecified() || address.ip() == gateway)
        .map(|address| address.port())
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports.iter().map(u16::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime;
    use crate::telemetry::{Amd, AmdCards, GpuVendor as _};

    fn created(launch: Launch, grant: Grant) -> ContainerCreateBody {
        let plan = ContainerPlan {
            launch,
            grant,
            cache: ModelCache {
                folders: [PathBuf::from("/home/me/hub/models--org--m")].into(),
                volume: None,
            },
            ..ContainerPlan::default()
        };
        request(&plan, Reach::Published(4711), HashMap::new(), &[])
    }

    #[test]
    fn defaults_grant_nothing() {
        let body = created(Launch::default(), Grant::default());
        let host = body.host_config.unwrap();
        assert_eq!(host.privileged, Some(false));
        assert_eq!(host.network_mode.as_deref(), Some("bridge"));
        let writable: Vec<_> = host
            .mounts
            .iter()
            .flatten()
            .flat_map(|mount| mount.target.as_deref())
            .collect();
        assert_eq!(
            writable,
            ["/tmp", "/var/tmp", "/run", "/root/.cache", "/profiler-files"]
        );
        assert_eq!(host.readonly_rootfs, Some(true));
        assert_eq!((host.port_bindings, body.exposed_ports), (None, None));
        assert_eq!(
            (host.cap_add, host.devices, host.pid_mode, host.ipc_mode),
            (None, None, None, None)
        );
        assert_eq!(host.security_opt, Some(vec!["no-new-privileges".to_owned()]));
        assert_eq!(
            (host.cap_drop, host.pids_limit),
            (Some(vec!["ALL".to_owned()]), Some(32_768))
        );
    }

    #[test]
    fn the_port_is_on_loopback_and_swap_equals_memory() {
        let launch = Launch {
            port: 8000,
            memory_limit: Some(1 << 30),
            ..Launch::default()
        };
        let host = created(launch, Grant::default()).host_config.unwrap();
        let bindings = host.port_bindings.unwrap().remove("8000/tcp").unwrap().unwrap();
        assert_eq!(bindings[0].host_ip.as_deref(), Some("127.0.0.1"));
        assert_eq!(bindings[0].host_port.as_deref(), Some("4711"));
        assert_eq!((host.memory, host.memory_swap), (Some(1 << 30), Some(1 << 30)));
    }

    #[test]
    fn without_a_way_out_it_is_asked_at_its_own_address() {
        let plan = ContainerPlan {
            name: "profiler-r-1-engine-1".into(),
            launch: Launch {
                port: 8000,
                ..Launch::default()
            },
            ..ContainerPlan::default()
        };
        let body = request(&plan, Reach::Own(Ipv4Addr::new(198, 19, 0, 2)), HashMap::new(), &[]);
        let host = body.host_config.unwrap();
        assert_eq!(host.network_mode.as_deref(), Some("profiler-r-1-engine-1"));
        assert_eq!(
            (host.port_bindings, host.dns),
            (None, Some(vec!["192.0.2.1".to_owned()]))
        );
        let endpoint = body.networking_config.unwrap().endpoints_config.unwrap();
        let address = endpoint["profiler-r-1-engine-1"]
            .ipam_config
            .clone()
            .unwrap()
            .ipv4_address;
        assert_eq!(address.as_deref(), Some("198.19.0.2"));
    }

    /// Simulates three GPUs in sysfs.
    #[test]
    fn amd_gpus_get_their_own_device_files_and_groups_and_no_privilege() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for (card, render) in [(1, 128), (2, 129), (3, 130)] {
            let device = format!("sys/class/drm/card{card}/device");
            write(&format!("{device}/mem_info_vram_used"), "1");
            write(&format!("{device}/mem_info_vram_total"), "100");
            write(&format!("{device}/unique_id"), &format!("{card:016x}"));
            write(&format!("{device}/drm/card{card}/dev"), "226:1");
            write(&format!("{device}/drm/renderD{render}/dev"), "226:128");
        }
        let cards = AmdCards {
            sys: folder.path().join("sys"),
            proc: folder.path().join("proc"),
        };
        // First and third GPU.
        let chosen: Vec<_> = cards.list().unwrap().into_iter().step_by(2).collect();
        let plan = ContainerPlan {
            gpus: Amd.files(&chosen).map(Gpus::Files),
            ..ContainerPlan::default()
        };
        let body = request(&plan, Reach::Published(1), HashMap::new(), &[]);
        let host = body.host_config.unwrap();
        let devices: Vec<_> = host
            .devices
            .unwrap()
            .into_iter()
            .flat_map(|device| device.path_on_host)
            .collect();
        let files = [
            "/dev/kfd",
            "/dev/dri/card1",
            "/dev/dri/renderD128",
            "/dev/dri/card3",
            "/dev/dri/renderD130",
        ];
        assert_eq!(devices, files);
        assert!(host.group_add.unwrap().contains(&"video".to_owned()));
        assert!(body.env.unwrap().contains(&"HIP_VISIBLE_DEVICES=0,1".to_owned()));
        assert_eq!(host.security_opt, Some(vec!["no-new-privileges".to_owned()]));
        assert_eq!(
            (host.device_requests, host.privileged, host.ipc_mode),
            (None, Some(false), None)
        );
    }

    #[test]
    fn the_cache_is_read_only_and_mounts_are_as_granted() {
        let launch = Launch {
            cache: Some("/cache".into()),
            ..Launch::default()
        };
        let grant = Grant {
            mounts: vec![runtime::Mount {
                host: "/models".into(),
                container: "/m".into(),
                writable: true,
            }],
            ..Grant::default()
        };
        let mounts = created(launch, grant).host_config.unwrap().mounts.unwrap();
        let bound: Vec<_> = mounts
            .iter()
            .filter_map(|mount| Some((mount.source.as_deref()?, mount.read_only)))
            .collect();
        assert_eq!(
            bound,
            [("/models", Some(false)), ("/home/me/hub/models--org--m", Some(true))]
        );
    }

    fn host_config(gpus: &Gpus) -> HostConfig {
        let (mut host, mut env) = (HostConfig::default(), Vec::new());
        add_gpus(gpus, &mut host, &mut env);
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
}
