//! Starts servers and attaches to them. Registers everything that this run started, so that it is all stopped after
//! success, failure, Ctrl-C and panic.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::json;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::attach::{Target, attach_container, attach_url, find_place};
use super::docker::{self, ContainerRegistry};
use super::service::{Backend, Service};
use super::state::{RuntimeKind, Started};
use super::{Grant, Launch, Origin, Permits, ServerLog, launch, orphans, phase, process};
use crate::fault::{Fault, Result};
use crate::run::EnginePhase;
use crate::run::{Run, can_be_hidden, is_secret_name};
use crate::sim::{Sim, SimHandle, Spec};
use crate::task::lock;
use crate::telemetry;
use crate::warning::Warning;

/// The parts of a run that a start needs.
#[derive(Clone)]
pub struct StartContext {
    /// The run: id, events, `logs/`.
    pub run: Arc<Run>,
    /// The user's permissions.
    pub permits: Permits,
    /// Where the server is registered.
    pub services: Arc<Services>,
    /// Who decided what is started.
    pub origin: Origin,
    /// Prefix of server names, such as `engine`.
    pub prefix: String,
}

/// Starts the server that `launch` describes and registers it.
///
/// # Errors
///
/// `not_allowed`, before anything starts; `missing` if Docker, an image, a GPU, a port or disk space is not
/// available; `usage` for a launch without an image or command.
pub async fn start(kind: RuntimeKind, launch: &Launch, context: &StartContext) -> Result<Arc<Service>> {
    let grant = context.permits.check_launch(kind, launch, &context.origin)?;
    for withheld in &grant.withheld {
        context.run.warn(Warning::from(withheld.as_str()))?;
    }
    for (name, value) in &launch.env {
        if is_secret_name(name) && !value.is_empty() && !can_be_hidden(value) {
            let message = format!(
                "the value of `{name}` is too plain to be hidden (8 characters of two kinds can be): it stays in what the engine writes"
            );
            context.run.warn(Warning::new("plain_secret", message))?;
        }
    }
    launch::check_files(&launch.files)?;
    let grace = launch.grace()?;
    let services = &context.services;
    let name = services.next_name(&context.prefix);
    let logs = ServerLog::create(&context.run, &name)?;
    let service = match kind {
        RuntimeKind::Docker => {
            services.swept.get_or_try_init(|| orphans::sweep(&context.run)).await?;
            let registry = services.containers.clone();
            let start = docker::prepare(launch, &grant, &context.run, &name, logs, registry).await?;
            let all = Arc::clone(services);
            let work = async move {
                let started = start.run().await?.map(Backend::Container);
                Ok(all.register(Service::new(&name, started, grace)))
            };
            services.run_to_completion(work).await?
        }
        RuntimeKind::Process if launch.container.is_some() => {
            let container = launch.container.as_deref().unwrap_or_default();
            phase(
                &context.run,
                EnginePhase::Starting,
                &format!("in the container {container}"),
            )?;
            let (launch, permits, run) = (launch.clone(), context.permits.clone(), Arc::clone(&context.run));
            let all = Arc::clone(services);
            let work = async move {
                let container = launch.container.as_deref().unwrap_or_default();
                let place = find_place(container, launch.port, &permits).await?;
                let started = docker::start_inside(place, &launch, &grant, &run, logs, all.force_kill()).await?;
                Ok(all.register(Service::new(
                    &name,
                    started.map(|inside| Backend::Inside(Box::new(inside))),
                    grace,
                )))
            };
            services.run_to_completion(work).await?
        }
        RuntimeKind::Process => {
            let program = launch.command.first().map_or("", String::as_str);
            phase(&context.run, EnginePhase::Starting, program)?;
            let started = process::start(launch, &grant, &context.run, &name, logs, services.force_kill()).await?;
            services.register(Service::new(&name, started.map(Backend::Process), grace))
        }
        RuntimeKind::Sim => {
            context.run.set_simulated();
            services.register(Service::new(
                &name,
                start_simulated(launch, logs)?.map(Backend::InProcess),
                grace,
            ))
        }
        RuntimeKind::Attach => {
            return Err(Fault::usage("the runtime `attach` starts nothing").hint("use `engines::attach`"));
        }
    };
    let running = Arc::downgrade(&service);
    context.permits.open_port(move || {
        let service = running.upgrade().filter(|service| !service.has_ended())?;
        service.base_url().map(str::to_owned)
    });
    Ok(service)
}

/// Starts this program again with this command, as a job that sees these GPUs (all if the list is empty). It needs no
/// permission, because it has only the permissions in its command.
///
/// # Errors
///
/// `missing` if a GPU does not exist; `io` if its log cannot be written.
pub async fn start_own(command: Vec<String>, gpus: &[String], context: &StartContext) -> Result<Arc<Service>> {
    let services = &context.services;
    // There may be many jobs, and those that have ended need no stop.
    services.lock().retain(|service| !service.is_gone());
    let logs = ServerLog::create(&context.run, &context.prefix)?;
    let launch = Launch {
        env: telemetry::only_visible(gpus)?,
        command,
        ..Launch::default()
    };
    let grant = Grant {
        token: true,
        ..Grant::default()
    };
    let (run, name) = (&context.run, &context.prefix);
    let started = process::start(&launch, &grant, run, name, logs, services.force_kill()).await?;
    Ok(services.register(Service::new(name, started.map(Backend::Process), None)))
}

/// Attaches to a running server. A container's log is followed, starting with its newest 1000 lines.
///
/// # Errors
///
/// `not_allowed` for a remote address or a container that the user neither named nor allowed; `usage` for an invalid
/// URL, or a container that publishes several ports; `missing` for a container that does not exist or is not running.
pub async fn attach(target: &Target, context: &StartContext) -> Result<Arc<Service>> {
    let name = context.services.next_name(&context.prefix);
    let started = match target {
        Target::Url(url) => attach_url(url, &context.permits)?,
        Target::Container(container, port) => {
            attach_container(container, *port, &name, &context.run, &context.permits).await?
        }
    };
    Ok(context
        .services
        .register(Service::new(&name, started.map(Backend::Attached), None)))
}

/// How long to wait for a start in progress. After that, its container is found by label.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Everything that this run started.
#[derive(Default)]
pub struct Services {
    started: Mutex<Vec<Arc<Service>>>,
    // Starts that must not be interrupted between creating a container, or a command in one, and registering it.
    starting: Mutex<Vec<JoinHandle<()>>>,
    containers: ContainerRegistry,
    count: AtomicUsize,
    /// Held by an engine from the choice of a server's name until the event of its start is noted, so that servers are
    /// numbered in the order of these events.
    pub naming: Mutex<()>,
    swept: OnceCell<()>,
}

impl Services {
    /// Next free name: `engine-1`, `engine-2`, …
    pub(super) fn next_name(&self, prefix: &str) -> String {
        format!("{prefix}-{}", self.count.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Registers a server, so that it is stopped with the run.
    pub fn register(&self, service: Service) -> Arc<Service> {
        let service = Arc::new(service);
        self.lock().push(Arc::clone(&service));
        service
    }

    /// All registered servers, oldest first.
    pub fn list(&self) -> Vec<Arc<Service>> {
        self.lock().clone()
    }

    /// Runs `work` to its end even if the caller is cancelled.
    pub(super) async fn run_to_completion<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            // If the caller is gone, the result has been registered all the same.
            let _ = sender.send(work.await);
        });
        {
            let mut starting = lock(&self.starting);
            starting.retain(|task| !task.is_finished());
            starting.push(task);
        }
        receiver
            .await
            .map_err(|_| Fault::internal("a start task ended without a result"))?
    }

    /// Stops everything, each server with its own grace period but at most `grace`. Tries all; returns the first
    /// failure.
    pub async fn stop_all(&self, grace: Duration) -> Result<()> {
        let starting = std::mem::take(&mut *lock(&self.starting));
        for task in starting {
            let _ = tokio::time::timeout(START_TIMEOUT, task).await;
        }
        let services = self.list();
        let stops = services
            .iter()
            .rev()
            .map(|service| service.stop(grace.min(service.grace())));
        let stopped = futures_util::future::join_all(stops).await;
        stopped.into_iter().collect::<Result<()>>()?;
        self.lock().clear();
        Ok(())
    }

    /// Kills everything at once: on a second Ctrl-C, or as a last resort if [`Services::stop_all`] was not called.
    /// Blocks, works without the async runtime and may be called on any thread.
    pub fn kill_all(&self) {
        self.containers.force_kill.cancel();
        for service in &*self.lock() {
            match service.backend() {
                Backend::Process(process) => process.kill(),
                Backend::Inside(inside) => inside.kill(),
                Backend::Container(_) | Backend::Attached(_) | Backend::InProcess(_) => {}
            }
        }
        let containers: Vec<String> = lock(&self.containers.names).iter().cloned().collect();
        if !containers.is_empty() {
            // A new thread, because blocking inside an async runtime would panic.
            let removal = std::thread::spawn(move || docker::remove_blocking(&containers));
            let _ = removal.join();
        }
    }

    /// Cancelled when stopping is forced.
    pub(super) fn force_kill(&self) -> CancellationToken {
        self.containers.force_kill.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Service>>> {
        lock(&self.started)
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        if self.lock().is_empty() && lock(&self.containers.names).is_empty() {
            self.containers.dismiss();
        } else {
            self.kill_all();
        }
    }
}

/// Starts the simulated engine described by `launch.sim` on a loopback port chosen by the kernel.
fn start_simulated(launch: &Launch, logs: ServerLog) -> Result<Started<SimHandle>> {
    let spec = launch
        .sim
        .clone()
        .ok_or_else(|| Fault::usage("`sim` is missing: the simulated engine needs a profile"))?;
    let spec: Spec = serde_path_to_error::deserialize(spec)
        .map_err(|error| Fault::usage(format!("option `sim.{}`: {}", error.path(), error.inner())))?;
    let (profile, options) = spec.resolve()?;
    let sink = logs.clone();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let info = json!({"runtime": "sim", "profile": spec.profile, "gpu": profile.gpu, "options": spec.options});
    let handle = Sim::start(profile, options, address, Arc::new(move |line| sink.push(line)))?;
    Ok(Started {
        base_url: Some(handle.url.clone()),
        backend: handle,
        logs,
        info,
    })
}
