//! Starts a container. Builds the request that creates it, from launch, permissions and the
//! machine's GPUs.

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bollard::Docker;
use bollard::models::{
    ContainerCreateBody, EndpointIpamConfig, EndpointSettings, HostConfig, Mount, MountType, NetworkingConfig,
    PortBinding, ResourcesUlimits,
};
use bollard::query_parameters::{CreateContainerOptionsBuilder, StartContainerOptions};
use serde::Serialize;
use serde_json::json;

use super::container::{self, Own};
use super::daemon::{self, Absence, DockerInfo};
use super::gpus::{self, Gpus};
use super::network::{self, OwnNetwork};
use super::{Container, ContainerRegistry};
use crate::fault::{Fault, Result};
use crate::file::disk_free;
use crate::fmt::GIB;
use crate::prompt::Hub;
use crate::run::EnginePhase;
use crate::run::{Run, hide_variables, hide_words};
use crate::runtime::state::Started;
use crate::runtime::{Grant, HubModel, Launch, ServerLog, free_port, launch, phase};
use crate::task::lock;
use crate::warning::Warning;

/// Attempts if the chosen port was taken in the meantime, the daemon went away, or the container's network is not
/// reached.
const ATTEMPTS: usize = 3;

/// Prepares a start: pulls the image, finds GPUs and model cache.
pub(in crate::runtime) async fn prepare(
    launch: &Launch,
    grant: &Grant,
    run: &Arc<Run>,
    name: &str,
    logs: ServerLog,
    registry: ContainerRegistry,
) -> Result<ContainerStart> {
    let image = launch
        .image
        .as_deref()
        .ok_or_else(|| Fault::usage("`image` is missing: a container needs one"))?;
    let (docker, daemon) = registry.daemon(run).await?;
    registry.supervise(run.id(), &daemon.address)?;
    // Checked before an image of many GB is pulled.
    let gpus = match (launch.gpus.as_slice(), launch.gpu_runtime) {
        ([], Some(runtime)) => {
            return Err(Fault::missing(
                format!(
                    "the runtime `{}` gives a container GPUs, but none is named or found",
                    runtime.name()
                ),
                "name them with `gpus`, or leave out the runtime; see `profiler doctor`",
            ));
        }
        ([], None) => None,
        (names, runtime) => Some(gpus::resolve(&daemon, names, runtime)?),
    };
    if launch.host_port.is_some() && !grant.network {
        return Err(Fault::not_allowed(
            "`host_port` belongs to the usual network, from which this image is kept",
            "leave it out, or allow the network: `--allow net=huggingface.co`",
        ));
    }
    let image = super::pull::ensure(&docker, &daemon, image, run).await?;
    // If the user sets no limit, this one keeps the machine usable.
    let own_limit = match launch.memory_limit {
        Some(_) => None,
        None => daemon.memory.filter(|_| daemon.memory_limit).map(own_limit),
    };
    if launch.memory_limit.is_some() && !daemon.memory_limit {
        let message = format!(
            "this {} keeps no memory limits: `memory_limit` has no effect",
            daemon.name()
        );
        run.warn(Warning::new("no_memory_limit", message))?;
    }
    let cache = model_cache(launch, grant, run).await?;
    let words = hide_words(&launch.args).join(" ");
    phase(run, EnginePhase::Starting, &format!("{} {words}", image.reference))?;

    let path = image.env.iter().find_map(|entry| entry.strip_prefix("PYTHONPATH="));
    let launch = launch::add_hook(launch, path.map(str::to_owned), name);
    Ok(ContainerStart {
        docker,
        plan: ContainerPlan {
            name: super::container_name(run.id(), &std::process::id().to_string(), name),
            launch: launch::with_folder(&launch, launch::CONTAINER_PATH),
            grant: grant.clone(),
            image: image.reference,
            gpus,
            own_limit,
            cache,
            relabels: daemon.selinux,
            without_init: false,
        },
        daemon,
        digest: image.digest,
        logs,
        run: Arc::clone(run),
        registry,
    })
}

/// Where the container finds the model: in this machine's cache, after a download if needed, or in a volume.
async fn model_cache(launch: &Launch, grant: &Grant, run: &Run) -> Result<ModelCache> {
    let mut cache = ModelCache::default();
    let Some(inside) = &launch.cache else {
        return Ok(cache);
    };
    // The folders of the models could not be mounted inside it, or would be made in the user's folder.
    if let Some(mount) = launch
        .mounts
        .iter()
        .find(|mount| Path::new(inside).starts_with(&mount.container))
    {
        let said = format!(
            "the mount at `{}` hides the engine's model cache `{inside}`",
            mount.container
        );
        return Err(
            Fault::usage(said).hint("mount it elsewhere; `--hf-home FOLDER` names the folder that holds models")
        );
    }
    let why = match &launch.model {
        Some(model) if grant.keeps_model => download(model, run).await?,
        _ => None,
    };
    cache.folders = launch::cached_models(launch);
    let Some(model) = &launch.model else { return Ok(cache) };
    if cache.folders.iter().any(|folder| folder.ends_with(model.id.folder())) {
        return Ok(cache);
    }
    cache.volume = grant.keeps_model.then(|| format!("profiler-{}", model.id.folder()));
    let how = match &cache.volume {
        Some(volume) => format!(
            "the container downloads it into the Docker volume `{volume}`, where later ones find it (`docker volume rm` removes it)"
        ),
        None if grant.network => "the container downloads it at every start".to_owned(),
        None => "the container has no way to fetch it (allow it with `--allow net=huggingface.co`)".to_owned(),
    };
    let why = why.map_or_else(String::new, |why| format!(", and it is not downloaded here: {why}"));
    let message = format!("the model is not in this machine's model cache{why}; {how}");
    run.warn(Warning::new("model_not_cached", message))?;
    Ok(cache)
}

/// Downloads the model into this machine's cache, unless it is there. Returns the reason if that is impossible here,
/// although the container may be able to download it.
async fn download(model: &HubModel, run: &Run) -> Result<Option<String>> {
    let hub = Hub::from_env()?;
    let gib = |bytes: u64| bytes as f64 / GIB;
    let folder = hub.cache.ancestors().find(|folder| folder.exists());
    let report = |done, total| {
        let free = folder.and_then(disk_free);
        if let Some(free) = free.filter(|free| *free < total - done) {
            return Err(Fault::missing(
                format!(
                    "the disk of `{}` has {:.1} GiB left, and {:.1} GiB of `{}` are to come",
                    hub.cache.display(),
                    gib(free),
                    gib(total - done),
                    model.id
                ),
                "free disk space, or set HF_HOME to a folder with more",
            ));
        }
        let progress = format!("{}: {:.2} of {:.2} GiB", model.id, gib(done), gib(total));
        phase(run, EnginePhase::Downloading, &progress)
    };
    hub.complete(&model.id, model.weights, &report).await
}

/// All inputs of a start, owned, so that it can continue in its own task.
pub(in crate::runtime) struct ContainerStart {
    docker: Docker,
    daemon: DockerInfo,
    plan: ContainerPlan,
    digest: String,
    logs: ServerLog,
    run: Arc<Run>,
    registry: ContainerRegistry,
}

impl ContainerStart {
    /// Creates and starts the container. Must not be interrupted before it is registered, or it would be lost.
    pub(in crate::runtime) async fn run(mut self) -> Result<Started<Arc<Container>>> {
        lock(&self.registry.names).insert(self.plan.name.clone());
        let labels = super::labels(self.run.id());
        let mut isolated = !self.plan.grant.network;
        let mut attempt = 1;
        let (id, base_url) = loop {
            let mut is_elsewhere = false;
            let fault = match self.attempt(isolated, attempt, &labels).await {
                Ok((id, base_url, own)) => {
                    // Podman removes the bridge when the container ends, so only of one that runs it says anything.
                    let own = match own.filter(|own| !own.is_reached()) {
                        Some(own) => {
                            let name = &self.plan.name;
                            let started = Container::attached(self.docker.clone(), id.clone(), name, &self.run);
                            started.is_running().await.unwrap_or(false).then_some(own)
                        }
                        None => None,
                    };
                    let Some(own) = own else {
                        break (id, base_url);
                    };
                    is_elsewhere = own.is_here();
                    if !is_elsewhere {
                        container::remove(&self.docker, &self.plan.name).await?;
                        network::warn_unreachable(&self.daemon, &self.run)?;
                        isolated = false;
                        continue;
                    }
                    own.routed_elsewhere()
                }
                Err(fault) => fault,
            };
            let was_away = daemon::is_away(&fault);
            if was_away {
                daemon::await_return(&self.docker, fault.clone(), Some(&self.run)).await?;
            }
            // Remove it, with its network, whether it was created or not.
            let removed = container::remove(&self.docker, &self.plan.name).await;
            if daemon::lacks_init(&fault) && !self.plan.without_init {
                let message = format!(
                    "{}; the container is started without an init process, so dead processes of the engine's workers stay until it ends",
                    fault.message
                );
                self.run.warn(Warning::new("no_init", message))?;
                self.plan.without_init = true;
            } else if attempt < ATTEMPTS
                && (was_away
                    || is_elsewhere
                    || (daemon::is_port_conflict(&fault) && self.plan.launch.host_port.is_none()))
            {
                attempt += 1;
            } else {
                if removed.is_ok() {
                    lock(&self.registry.names).remove(&self.plan.name);
                }
                return Err(fault);
            }
        };
        self.registry.keep_facts(&self.daemon);
        let info = self.info(&id);
        let own = Own {
            limit: self.plan.own_limit,
            read_only: self.plan.is_read_only(),
            registry: self.registry,
            exit: Mutex::default(),
            removed: tokio::sync::Mutex::default(),
        };
        let container = Arc::new(Container {
            docker: self.docker,
            id,
            name: self.plan.name,
            run: self.run,
            absence: Absence::default(),
            started_at: None,
            own: Some(own),
            podman: tokio::sync::OnceCell::new_with(Some(self.daemon.podman)),
        });
        container.follow(None, self.logs.clone());
        Ok(Started {
            base_url: (self.plan.launch.port != 0).then_some(base_url),
            backend: container,
            logs: self.logs,
            info,
        })
    }

    /// Creates and starts the container, if `isolated` in a network of its own where that can be reached. Returns its id,
    /// its base URL and that network.
    async fn attempt(
        &self,
        isolated: bool,
        attempt: usize,
        labels: &HashMap<String, String>,
    ) -> Result<(String, String, Option<OwnNetwork>)> {
        let own = if isolated {
            OwnNetwork::create(&self.docker, &self.daemon, &self.plan.name, labels, attempt, &self.run).await?
        } else {
            None
        };
        let (reach, base_url) = match own {
            Some(own) => (
                Reach::Own(own.address),
                format!("http://{}:{}", own.address, self.plan.launch.port),
            ),
            // Another process may take a free port before the daemon does; see [`ATTEMPTS`].
            None => {
                let port = match self.plan.launch.host_port {
                    Some(port) => port,
                    None => free_port(0)?,
                };
                (Reach::Published(port), format!("http://127.0.0.1:{port}"))
            }
        };
        let id = self.create_and_start(reach, labels.clone()).await?;
        Ok((id, base_url, own))
    }

    /// Creates a container, adds its files and starts it. Returns its id.
    async fn create_and_start(&self, reach: Reach, labels: HashMap<String, String>) -> Result<String> {
        let (docker, plan) = (&self.docker, &self.plan);
        let token = if plan.grant.token {
            launch::token_env()
        } else {
            Vec::new()
        };
        let body = request(plan, reach, labels, &token);
        let options = CreateContainerOptionsBuilder::default().name(&plan.name).build();
        let created = docker.create_container(Some(options), body).await;
        let id = created.map_err(daemon::explain)?.id;
        if !plan.launch.files.is_empty() {
            let (path, name) = if plan.is_read_only() {
                (launch::CONTAINER_PATH, ".")
            } else {
                ("/", launch::CONTAINER_PATH.trim_start_matches('/'))
            };
            container::upload(docker, &id, path, name, &plan.launch.files).await?;
        }
        let started = docker.start_container(&id, None::<StartContainerOptions>).await;
        started.map_err(daemon::explain).map(|()| id)
    }

    fn info(&self, id: &str) -> serde_json::Value {
        let ContainerPlan { launch, grant, .. } = &self.plan;
        let mut info = json!({
            "runtime": "docker",
            "container": self.plan.name,
            "id": id,
            "image": self.plan.image,
            "digest": self.digest,
            "entrypoint": launch.entrypoint,
            "args": hide_words(&launch.args),
            "env": hide_variables(launch.env.iter().map(|(name, value)| (name.as_str(), value.as_str()))),
            "files": launch.files,
            "gpus": launch.gpus,
            "memory_limit": launch.memory_limit,
            "own_memory_limit": self.plan.own_limit,
            "shm_size": launch.shm_size,
            "mounts": grant.mounts,
            "cache": self.plan.cache,
        });
        if self.daemon.podman {
            info["daemon"] = json!(format!("podman {} at {}", self.daemon.version, self.daemon.address));
        }
        info
    }
}

/// All memory of the machine except 2 GiB, or half of a small machine's.
fn own_limit(machine: u64) -> u64 {
    machine.saturating_sub(2 << 30).max(machine / 2)
}

/// The inputs of the request that creates a container.
#[derive(Default)]
struct ContainerPlan {
    /// Name of the container and of its network.
    name: String,
    launch: Launch,
    grant: Grant,
    /// Reference of the image.
    image: String,
    gpus: Option<Gpus>,
    cache: ModelCache,
    /// The memory limit in bytes, if the user gave none.
    own_limit: Option<u64>,
    /// Whether mounted folders get SELinux's label for containers.
    relabels: bool,
    /// Whether the daemon's machine has no init process for containers.
    without_init: bool,
}

impl ContainerPlan {
    /// Whether only a few folders are writable. GPU engines write wherever they like, such as compiled kernels and
    /// settings.
    fn is_read_only(&self) -> bool {
        !self.grant.network && self.launch.gpus.is_empty()
    }
}

/// Where a container gets its models from.
#[derive(Clone, Default, Serialize)]
struct ModelCache {
    /// Folders of the host's hub cache, mounted read-only.
    folders: BTreeSet<PathBuf>,
    /// The volume for a model that the container downloads.
    volume: Option<String>,
}

/// How the host reaches a container's port.
#[derive(Clone, Copy)]
enum Reach {
    /// Published on this loopback port, on the usual network.
    Published(u16),
    /// At its address in its own isolated network.
    Own(Ipv4Addr),
}

/// The DNS server of isolated containers: an address that nobody has. Docker's own would forward the queries.
const NO_NAMES: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Writable folders of an otherwise read-only container, as volumes that are removed with it.
const WRITABLE: [&str; 5] = ["/tmp", "/var/tmp", "/run", "/root/.cache", launch::CONTAINER_PATH];

/// More processes and threads than any engine has.
const MAX_PROCESSES: i64 = 32_768;

/// The request that creates the container. `token` holds the environment variables with the token.
fn request(
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
    let binds = if plan.relabels {
        relabelled(&mut mounts)
    } else {
        Vec::new()
    };
    let limit = launch.memory_limit.or(plan.own_limit).map(to_i64);
    let mut host = HostConfig {
        mounts: Some(mounts),
        binds: (!binds.is_empty()).then_some(binds),
        shm_size: launch.shm_size.map(to_i64),
        memory: limit,
        // Equal to the memory limit, so no swap is allowed.
        memory_swap: limit,
        ulimits: (!launch.ulimits.is_empty()).then(|| launch.ulimits.iter().map(ulimit).collect()),
        pids_limit: Some(MAX_PROCESSES),
        cap_drop: Some(vec!["ALL".to_owned()]),
        // Lets root read the user's model folder, whoever owns it.
        cap_add: reads_files.then(|| vec!["DAC_OVERRIDE".to_owned()]),
        // Init process: reaps zombies of the engine's workers and forwards signals.
        init: Some(!plan.without_init),
        network_mode: Some("bridge".to_owned()),
        readonly_rootfs: read_only.then_some(true),
        privileged: Some(false),
        // No privilege escalation by setuid programs of the image.
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        ..HostConfig::default()
    };
    if let Some(gpus) = &plan.gpus {
        gpus.add_to(&mut host, &mut env);
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

/// Takes the mounts of host folders out of `mounts`, as binds with SELinux's label that containers share: without it a
/// container may not read them. Only the older form of a mount has the label, and it cannot name a path with a colon.
fn relabelled(mounts: &mut Vec<Mount>) -> Vec<String> {
    let form = |mount: &Mount| {
        (mount.typ == Some(MountType::BIND)).then_some(())?;
        let (host, inside) = (mount.source.as_deref()?, mount.target.as_deref()?);
        let access = if mount.read_only == Some(true) { "ro" } else { "rw" };
        (!host.contains(':') && !inside.contains(':')).then(|| format!("{host}:{inside}:{access},z"))
    };
    let binds = mounts.iter().filter_map(form).collect();
    mounts.retain(|mount| form(mount).is_none());
    binds
}

/// An unnamed volume, which is removed with its container.
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
                of_model: false,
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

    #[test]
    fn where_selinux_enforces_only_mounted_folders_are_relabelled() {
        let mount = |host: &str| runtime::Mount {
            host: host.into(),
            container: "/m".into(),
            writable: true,
            of_model: false,
        };
        let plan = ContainerPlan {
            grant: Grant {
                mounts: vec![mount("/models"), mount("/with:colon")],
                ..Grant::default()
            },
            relabels: true,
            ..ContainerPlan::default()
        };
        let body = request(&plan, Reach::Published(1), HashMap::new(), &[]);
        let host = body.host_config.unwrap();
        assert_eq!(host.binds, Some(vec!["/models:/m:rw,z".to_owned()]));
        let left: Vec<_> = host
            .mounts
            .into_iter()
            .flatten()
            .filter_map(|mount| mount.source)
            .collect();
        assert_eq!(left, ["/with:colon"]);
    }
}
