//! Starting a server: checks permissions, then starts it in its runtime.

use std::sync::Arc;

use super::service::Service;
use super::{Launch, Permits, RuntimeKind, ServerLog, Services, docker, files, in_process, process};
use crate::fault::{Fault, Result};
use crate::run::{Event, Run};

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
        context.run.warn(withheld)?;
    }
    files::check(&launch.files)?;
    let grace = launch.grace()?;
    context.services.sweep(kind, &context.run).await?;
    let name = context.services.next_name(&context.prefix);
    let logs = ServerLog::create(&context.run, &name)?;
    match kind {
        RuntimeKind::Docker => docker::start(launch, &grant, &name, logs, context).await,
        RuntimeKind::Process => {
            phase(context, "starting", launch.command.first().map_or("", String::as_str))?;
            let service = process::start(launch, &grant, &name, logs, context)?;
            Ok(context.services.register(service.with_stop_grace(grace)))
        }
        RuntimeKind::Sim => {
            context.run.set_simulated();
            Ok(context
                .services
                .register(in_process::start(launch, &name, logs)?.with_stop_grace(grace)))
        }
        RuntimeKind::Attach => Err(Fault::usage("the runtime `attach` starts nothing").hint("use `engines::attach`")),
    }
}

pub(super) fn phase(context: &StartContext, phase: &str, detail: &str) -> Result<()> {
    context.run.note(Event::Phase {
        phase: phase.to_owned(),
        detail: detail.to_owned(),
    })
}
