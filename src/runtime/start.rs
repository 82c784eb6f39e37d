//! Starting or attaching to a server: checks permissions, then starts it in its runtime.

use std::sync::Arc;

use super::attach::{Target, attach_container, attach_url};
use super::service::{Backend, Service};
use super::{Launch, Permits, RuntimeKind, ServerLog, Services, docker, in_process, launch, phase, process};
use crate::fault::{Fault, Result};
use crate::run::Run;
use crate::warning::Warning;

/// What a start needs from the run.
#[derive(Clone)]
pub struct StartContext {
    /// The run: id, events, `logs/`.
    pub run: Arc<Run>,
    /// The user's permissions.
    pub permits: Permits,
    /// Where the server is registered.
    pub services: Arc<Services>,
    /// Whether a shipped adapter chose the image or program itself (false once a script's option replaces it). Only
    /// then are the token and the model cache given without explicit permission.
    pub shipped_image: bool,
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
    let grant = context.permits.check_launch(kind, launch, context.shipped_image)?;
    for withheld in &grant.withheld {
        context.run.warn(Warning::from(withheld.as_str()))?;
    }
    launch::check_files(&launch.files)?;
    let grace = launch.grace()?;
    let services = &context.services;
    services.sweep(kind, &context.run).await?;
    let name = services.next_name(&context.prefix);
    let logs = ServerLog::create(&context.run, &name)?;
    match kind {
        RuntimeKind::Docker => {
            let registry = services.container_registry();
            let start = docker::prepare(launch, &grant, &context.run, &name, logs, registry).await?;
            let context = context.clone();
            services
                .run_to_completion(async move {
                    let service = Service::new(&name, start.run().await?, Backend::Container, grace);
                    Ok(context.services.register(service))
                })
                .await
        }
        RuntimeKind::Process => {
            let program = launch.command.first().map_or("", String::as_str);
            phase(&context.run, "starting", program)?;
            let started = process::start(launch, &grant, &context.run, &name, logs, services.force_kill())?;
            Ok(services.register(Service::new(&name, started, Backend::Process, grace)))
        }
        RuntimeKind::Sim => {
            context.run.set_simulated();
            let started = in_process::start(launch, logs)?;
            Ok(services.register(Service::new(&name, started, Backend::InProcess, grace)))
        }
        RuntimeKind::Attach => Err(Fault::usage("the runtime `attach` starts nothing").hint("use `engines::attach`")),
    }
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
    let service = Service::new(&name, started, Backend::Attached, None);
    Ok(context.services.register(service))
}
