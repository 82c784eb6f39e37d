//! Starts a container and follows its log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::query_parameters::{CreateContainerOptionsBuilder, LogsOptionsBuilder, StartContainerOptions};
use futures_util::StreamExt;
use serde_json::json;

use super::container::Own;
use super::create::{ContainerPlan, ModelCache, Reach};
use super::{Container, ContainerRegistry, connect, container, create, daemon};
use crate::fault::{Fault, Result};
use crate::fmt::GIB;
use crate::prompt::Hub;
use crate::run::{Run, hide_variables, hide_words};
use crate::runtime::output::LineSplitter;
use crate::runtime::service::{Backend, Started};
use crate::runtime::{Grant, HubModel, Launch, ServerLog, disk_free, free_port, launch, phase};
use crate::task::lock;
use crate::warning::Warning;

/// Attempts with another port if the chosen one was taken meanwhile.
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
    let docker = connect().await?;
    registry.supervise(run.id())?;
    let image = super::ensure(&docker, image, run).await?;
    let gpus = match launch.gpus.is_empty() {
        true => None,
        false => Some(create::resolve_gpus(&docker, &launch.gpus).await?),
    };
    // Without a limit of the user's, the machine stays usable whatever the engine does.
    let own_limit = match launch.memory_limit {
        Some(_) => None,
        None => docker.info().await.ok().and_then(|info| own_limit(info.mem_total?)),
    };
    let cache = model_cache(launch, grant, run).await?;
    let words = hide_words(&launch.args).join(" ");
    phase(run, "starting", &format!("{} {words}", image.reference))?;

    let path = image.env.iter().find_map(|entry| entry.strip_prefix("PYTHONPATH="));
    let launch = launch::add_hook(launch, path.map(str::to_owned), name);
    Ok(ContainerStart {
        docker,
        plan: ContainerPlan {
            name: container_name(run.id(), name),
            launch: launch::with_folder(&launch, launch::CONTAINER_PATH),
            grant: grant.clone(),
            image: image.reference,
            gpus,
            own_limit,
            cache,
        },
        digest: image.digest,
        logs,
        run: Arc::clone(run),
        registry,
    })
}

/// Where the container finds the model: in this machine's cache, into which it is downloaded first, or in a volume.
async fn model_cache(launch: &Launch, grant: &Grant, run: &Run) -> Result<ModelCache> {
    let mut cache = ModelCache::default();
    if launch.cache.is_none() {
        return Ok(cache);
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

/// Downloads the model into this machine's cache, unless it is there. Returns why that cannot be, though the container
/// perhaps can.
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
        phase(run, "downloading", &progress)
    };
    hub.complete(&model.id, model.weights, &report).await
}

/// All inputs of a start, owned, so that it can continue in its own task.
pub(in crate::runtime) struct ContainerStart {
    docker: Docker,
    plan: ContainerPlan,
    digest: String,
    logs: ServerLog,
    run: Arc<Run>,
    registry: ContainerRegistry,
}

impl ContainerStart {
    /// Creates and starts the container. Must not be interrupted before it is registered, or it would be lost.
    pub(in crate::runtime) async fn run(self) -> Result<Started> {
        let (docker, plan) = (&self.docker, &self.plan);
        lock(&self.registry.names).insert(plan.name.clone());
        let labels = super::labels(self.run.id());
        let own = match plan.grant.network {
            true => None,
            false => create::create_network(docker, &plan.name, labels.clone(), &self.run).await?,
        };
        let mut attempt = 1;
        let (id, base_url) = loop {
            let (reach, base_url) = match own {
                Some(address) => (Reach::Own(address), format!("http://{address}:{}", plan.launch.port)),
                // Somebody may take it before the daemon does; see [`ATTEMPTS`].
                None => {
                    let port = free_port(0)?;
                    (Reach::Published(port), format!("http://127.0.0.1:{port}"))
                }
            };
            let fault = match self.create_and_start(reach, labels.clone()).await {
                Ok(id) => break (id, base_url),
                Err(fault) => fault,
            };
            // Created or not, it is useless.
            let removed = container::remove(docker, &plan.name).await;
            if !daemon::is_port_conflict(&fault) || attempt == ATTEMPTS {
                if removed.is_ok() {
                    lock(&self.registry.names).remove(&plan.name);
                }
                return Err(fault);
            }
            attempt += 1;
        };
        follow(docker, &id, "all", self.logs.clone());
        let info = self.info(&id);
        let own = Own {
            run: self.run,
            limit: plan.own_limit,
            read_only: plan.is_read_only(),
            registry: self.registry,
            exit: Mutex::default(),
            removed: tokio::sync::Mutex::default(),
        };
        Ok(Started {
            base_url: (plan.launch.port != 0).then_some(base_url),
            backend: Backend::Container(Container {
                docker: self.docker,
                id,
                name: self.plan.name,
                own: Some(own),
            }),
            logs: self.logs,
            info,
        })
    }

    /// Creates a container, adds its files and starts it. Returns its id.
    async fn create_and_start(&self, reach: Reach, labels: HashMap<String, String>) -> Result<String> {
        let (docker, plan) = (&self.docker, &self.plan);
        let token = match plan.grant.token {
            true => launch::token_env(),
            false => Vec::new(),
        };
        let body = create::request(plan, reach, labels, &token);
        let options = CreateContainerOptionsBuilder::default().name(&plan.name).build();
        let created = docker.create_container(Some(options), body).await;
        let id = created.map_err(daemon::explain)?.id;
        if !plan.launch.files.is_empty() {
            let (path, name) = match plan.is_read_only() {
                true => (launch::CONTAINER_PATH, "."),
                false => ("/", launch::CONTAINER_PATH.trim_start_matches('/')),
            };
            container::upload(docker, &id, path, name, &plan.launch.files).await?;
        }
        let started = docker.start_container(&id, None::<StartContainerOptions>).await;
        started.map_err(daemon::explain).map(|()| id)
    }

    fn info(&self, id: &str) -> serde_json::Value {
        let ContainerPlan { launch, grant, .. } = &self.plan;
        json!({
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
        })
    }
}

/// All of a machine's memory but 2 GiB, or half of a small one's.
fn own_limit(machine: i64) -> Option<u64> {
    let machine = u64::try_from(machine).ok().filter(|machine| *machine > 0)?;
    Some(machine.saturating_sub(2 << 30).max(machine / 2))
}

/// Unique on this machine: `profiler-<run>-<pid>-engine-1`.
fn container_name(run: &str, name: &str) -> String {
    let run: String = run.chars().take(100).collect();
    let run = run.replace(
        |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')),
        "-",
    );
    let name = format!("profiler-{run}-{}-{name}", std::process::id());
    debug_assert!(super::check_container(&name).is_ok());
    name
}

/// Follows a container's log into `logs` until the container exits, starting with the last `tail` lines (`all` or a
/// number).
pub(in crate::runtime) fn follow(docker: &Docker, id: &str, tail: &str, logs: ServerLog) {
    let (docker, id, tail) = (docker.clone(), id.to_owned(), tail.to_owned());
    tokio::spawn(async move {
        let options = LogsOptionsBuilder::default()
            .follow(true)
            .stdout(true)
            .stderr(true)
            .tail(&tail)
            .build();
        let mut chunks = std::pin::pin!(docker.logs(&id, Some(options)));
        // Chunks of either stream may end in the middle of a line.
        let (mut out, mut err) = (LineSplitter::default(), LineSplitter::default());
        while let Some(chunk) = chunks.next().await {
            let lines = match chunk {
                Ok(LogOutput::StdErr { message }) => err.push(&message),
                Ok(LogOutput::StdOut { message } | LogOutput::StdIn { message } | LogOutput::Console { message }) => {
                    out.push(&message)
                }
                Err(error) => vec![format!("[profiler: reading the container's log failed: {error}]")],
            };
            lines.into_iter().for_each(|line| logs.push(line));
        }
        for line in [out.finish(), err.finish()].into_iter().flatten() {
            logs.push(line);
        }
        logs.end();
    });
}
