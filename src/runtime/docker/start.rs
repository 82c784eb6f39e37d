//! Starts a container.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, StartContainerOptions, UploadToContainerOptionsBuilder,
};
use serde_json::json;

use super::create::{self, CreateParams};
use super::{Container, connect, fault, gpu, image, labels, logs, names, remove};
use crate::fault::{Fault, Kind, Result};
use crate::runtime::service::{Backend, Service};
use crate::runtime::start::phase;
use crate::runtime::{Grant, Launch, ProcessIdentity, ServerLog, StartContext, credentials, files, hook, redact};

/// Attempts with another port if the chosen one was taken meanwhile.
const ATTEMPTS: usize = 3;

/// Starts the container that `launch` describes.
pub(in crate::runtime) async fn start(
    launch: &Launch,
    grant: &Grant,
    name: &str,
    logs: ServerLog,
    context: &StartContext,
) -> Result<Arc<Service>> {
    let image = launch
        .image
        .as_deref()
        .ok_or_else(|| Fault::usage("`image` is missing: a container needs one"))?;
    let docker = connect().await?;
    let image = image::ensure(&docker, image, context).await?;
    let gpus = match launch.gpus.is_empty() {
        true => None,
        false => Some(gpu::resolve(&docker, &launch.gpus).await?),
    };
    let cache = grant.cache.then(|| credentials::cache_with_model(launch)).flatten();
    if grant.cache && cache.is_none() && grant.mounts.is_empty() {
        context
            .run
            .warn("the model is not in this machine's model cache: the container downloads it at every start")?;
    }
    phase(
        context,
        "starting",
        &format!("{} {}", image.reference, redact::command_line(&launch.args).join(" ")),
    )?;

    let path = image.env.iter().find_map(|entry| entry.strip_prefix("PYTHONPATH="));
    let launch = hook::add_hook(launch, path.map(str::to_owned), name);
    let start = ContainerStart {
        docker,
        launch: files::with_folder(&launch, &files::container_path()),
        grant: grant.clone(),
        image,
        gpus,
        cache: cache.map(|folder| folder.to_string_lossy().into_owned()),
        container: container_name(context.run.id(), name),
        name: name.to_owned(),
        logs,
        context: context.clone(),
        grace: launch.grace()?,
    };
    // Uninterruptible from the first request until registration; otherwise the container would be lost.
    context
        .services
        .run_to_completion(async move { start.run().await })
        .await
}

/// All inputs, owned, so that the start can continue in its own task.
struct ContainerStart {
    docker: Docker,
    launch: Launch,
    grant: Grant,
    image: image::Image,
    gpus: Option<gpu::Gpus>,
    cache: Option<String>,
    container: String,
    name: String,
    logs: ServerLog,
    context: StartContext,
    grace: Option<Duration>,
}

impl ContainerStart {
    async fn run(self) -> Result<Arc<Service>> {
        let mut attempt = 1;
        let (id, port) = loop {
            let port = free_port()?;
            match self.create_and_start(port).await {
                Ok(id) => break (id, port),
                Err(fault) if fault::is_port_conflict(&fault) && attempt < ATTEMPTS => attempt += 1,
                Err(fault) => return Err(fault),
            }
        };
        logs::follow(&self.docker, &id, "all", self.logs.clone());
        let base_url = (self.launch.port != 0).then(|| format!("http://127.0.0.1:{port}"));
        let info = self.info(&id);
        let container = Container::new(self.docker, id, self.container, &self.context.services);
        let service = Service::new(&self.name, base_url, self.logs, info, Backend::Container(container));
        Ok(self.context.services.register(service.with_stop_grace(self.grace)))
    }

    async fn create_and_start(&self, port: u16) -> Result<String> {
        self.context.services.container_names().add(&self.container);
        let params = CreateParams {
            image: self.image.reference.clone(),
            host_port: port,
            labels: labels::labels(self.context.run.id(), &ProcessIdentity::current()),
            gpus: self.gpus.clone(),
            cache: self.cache.clone(),
            token: if self.grant.token {
                credentials::token_env()
            } else {
                Vec::new()
            },
        };
        let body = create::request(&self.launch, &self.grant, params);
        let options = CreateContainerOptionsBuilder::default().name(&self.container).build();
        let created = self
            .docker
            .create_container(Some(options), body)
            .await
            .map_err(|error| fault::explain(&error))?;
        match self.fill_and_start(&created.id).await {
            Ok(()) => Ok(created.id),
            Err(fault) => {
                // Created but not started: useless.
                remove::remove(&self.docker, &created.id).await?;
                self.context.services.container_names().remove(&self.container);
                Err(fault)
            }
        }
    }

    /// Adds the files before starting, so that the engine finds them.
    async fn fill_and_start(&self, id: &str) -> Result<()> {
        if !self.launch.files.is_empty() {
            let options = UploadToContainerOptionsBuilder::default().path("/").build();
            let archive = bollard::body_full(files::archive(files::CONTAINER_FOLDER, &self.launch.files)?);
            self.docker
                .upload_to_container(id, Some(options), archive)
                .await
                .map_err(|error| fault::explain(&error).while_doing("cannot copy the files into the container"))?;
        }
        self.docker
            .start_container(id, None::<StartContainerOptions>)
            .await
            .map_err(|error| fault::explain(&error))
    }

    fn info(&self, id: &str) -> serde_json::Value {
        let env = self
            .launch
            .env
            .iter()
            .map(|(key, value)| (key.clone(), redact::env(key, value).to_owned()));
        json!({
            "runtime": "docker",
            "container": self.container,
            "id": id,
            "image": self.image.reference,
            "digest": self.image.digest,
            "entrypoint": self.launch.entrypoint,
            "args": redact::command_line(&self.launch.args),
            "env": env.collect::<std::collections::BTreeMap<_, _>>(),
            "files": self.launch.files,
            "gpus": self.launch.gpus,
            "memory_limit": self.launch.memory_limit,
            "shm_size": self.launch.shm_size,
            "mounts": self.grant.mounts,
            "cache": self.cache,
        })
    }
}

/// Unique on this machine: `profiler-<run>-<pid>-engine-1`.
fn container_name(run: &str, name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') {
            c
        } else {
            '-'
        }
    };
    let run: String = run.chars().map(plain).take(100).collect();
    let name = format!("profiler-{run}-{}-{name}", std::process::id());
    debug_assert!(names::check_container(&name).is_ok());
    name
}

/// A free loopback port. Somebody may take it before the daemon does; see [`ATTEMPTS`].
fn free_port() -> Result<u16> {
    TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| Fault::new(Kind::Io, format!("no free port on 127.0.0.1: {error}")))
}
