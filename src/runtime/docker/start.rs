//! From a launch to a running container.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, StartContainerOptions, UploadToContainerOptionsBuilder,
};
use serde_json::json;

use super::create::{self, Found};
use super::{Container, connect, fault, gpu, image, labels, logs, names, remove};
use crate::fault::{Fault, Kind, Result};
use crate::runtime::service::{Body, Service};
use crate::runtime::start::phase;
use crate::runtime::{Grant, Identity, Launch, LogBook, StartContext, credentials, files, hook, redact};

/// How often another port is tried when somebody took the one that the kernel gave.
const ATTEMPTS: usize = 3;

/// Starts the container that `launch` describes.
pub(in crate::runtime) async fn start(
    launch: &Launch,
    grant: &Grant,
    name: &str,
    logs: LogBook,
    context: &StartContext,
) -> Result<Arc<Service>> {
    let wanted = launch
        .image
        .as_deref()
        .ok_or_else(|| Fault::usage("`image` is missing: a container needs one"))?;
    let docker = connect().await?;
    let image = image::ensure(&docker, wanted, context).await?;
    let gpus = match launch.gpus.is_empty() {
        true => None,
        false => Some(gpu::find(&docker, &launch.gpus).await?),
    };
    let cache = grant.cache.then(|| credentials::cache_for(launch)).flatten();
    if grant.cache && cache.is_none() && grant.mounts.is_empty() {
        context.run.warn(
            "no model that the launch names is in the model cache of this machine: the container fetches it, at every start",
        )?;
    }
    phase(
        context,
        "starting",
        &format!("{} {}", image.reference, redact::words(&launch.args).join(" ")),
    )?;

    let path = image.env.iter().find_map(|entry| entry.strip_prefix("PYTHONPATH="));
    let launch = hook::hooked(launch, path.map(str::to_owned), name);
    let starter = Starter {
        docker,
        launch: files::placed(&launch, &files::inside()),
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
    // From the first request on until the container is entered: an interruption in between would lose it.
    context.services.undivided(async move { starter.run().await }).await
}

/// Everything that the start needs, so that it can go on by itself.
struct Starter {
    docker: Docker,
    launch: Launch,
    grant: Grant,
    image: image::Image,
    gpus: Option<gpu::Gpus>,
    cache: Option<String>,
    container: String,
    name: String,
    logs: LogBook,
    context: StartContext,
    grace: Option<Duration>,
}

impl Starter {
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
        let service = Service::new(&self.name, base_url, self.logs, info, Body::Container(container));
        Ok(self.context.services.enter(service.with_grace(self.grace)))
    }

    async fn create_and_start(&self, port: u16) -> Result<String> {
        self.context.services.claims().add(&self.container);
        let found = Found {
            image: self.image.reference.clone(),
            host_port: port,
            labels: labels::of(self.context.run.id(), &Identity::own()),
            gpus: self.gpus.clone(),
            cache: self.cache.clone(),
            token: if self.grant.token {
                credentials::token_environment()
            } else {
                Vec::new()
            },
        };
        let body = create::body(&self.launch, &self.grant, found);
        let options = CreateContainerOptionsBuilder::default().name(&self.container).build();
        let created = self
            .docker
            .create_container(Some(options), body)
            .await
            .map_err(|error| fault::explain(&error))?;
        match self.fill_and_start(&created.id).await {
            Ok(()) => Ok(created.id),
            Err(fault) => {
                // Created and not started: it is ours, and of no use.
                remove::remove(&self.docker, &created.id).await?;
                self.context.services.claims().drop(&self.container);
                Err(fault)
            }
        }
    }

    /// Gives the container its files, then starts it: the engine finds them from its first moment on.
    async fn fill_and_start(&self, id: &str) -> Result<()> {
        if !self.launch.files.is_empty() {
            let options = UploadToContainerOptionsBuilder::default().path("/").build();
            let archive = bollard::body_full(files::archive(files::INSIDE, &self.launch.files)?);
            self.docker
                .upload_to_container(id, Some(options), archive)
                .await
                .map_err(|error| fault::explain(&error).while_doing("cannot give the container its files"))?;
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
            "args": redact::words(&self.launch.args),
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

/// Unique on this machine, and telling: `profiler-<run>-<pid>-engine-1`.
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

/// Chosen by the kernel, on loopback. It is free again until the daemon takes it: see [`ATTEMPTS`].
fn free_port() -> Result<u16> {
    TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| Fault::new(Kind::Io, format!("no free port on 127.0.0.1: {error}")))
}
