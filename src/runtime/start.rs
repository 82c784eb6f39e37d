//! Starting a server: first what it asks for is held against what the user allowed, then its runtime starts it.

use std::sync::Arc;

use super::service::Service;
use super::{Launch, LogBook, Permits, RuntimeKind, Services, docker, files, in_process, process};
use crate::fault::{Fault, Result};
use crate::run::{Event, Run};

/// What a start needs to know of the run.
#[derive(Clone)]
pub struct StartContext {
    /// The run: its id, its events, its `logs/`.
    pub run: Arc<Run>,
    /// What the user allowed.
    pub permits: Permits,
    /// Where the server is entered.
    pub services: Arc<Services>,
    /// Whether an adapter that ships with the program chose the image (or program) by itself: false as soon as an option of a
    /// script replaced it. Only then the token and the model cache are given without the user's word.
    pub shipped_image: bool,
    /// What kind of server it is in names of logs and containers: `engine`.
    pub prefix: String,
}

/// Starts what `launch` describes. It is entered among the services before it runs.
///
/// # Errors
///
/// `not_allowed`, before anything starts, for what the user did not allow; `missing` for Docker, an image, a GPU, a port or disk space
/// that is not there; `usage` for a launch without an image or command.
pub async fn start(kind: RuntimeKind, launch: &Launch, context: &StartContext) -> Result<Arc<Service>> {
    let grant = context.permits.check_launch(kind, launch, context.shipped_image)?;
    for withheld in &grant.withheld {
        context.run.warn(withheld)?;
    }
    files::check(&launch.files)?;
    let grace = launch.grace()?;
    context.services.sweep(kind, &context.run).await?;
    let name = context.services.next_name(&context.prefix);
    let logs = LogBook::of(&context.run, &name)?;
    match kind {
        RuntimeKind::Docker => docker::start(launch, &grant, &name, logs, context).await,
        RuntimeKind::Process => {
            phase(context, "starting", launch.command.first().map_or("", String::as_str))?;
            let service = process::start(launch, &grant, &name, logs, context)?;
            Ok(context.services.enter(service.with_grace(grace)))
        }
        RuntimeKind::Sim => {
            context.run.set_simulated();
            Ok(context
                .services
                .enter(in_process::start(launch, &name, logs)?.with_grace(grace)))
        }
        RuntimeKind::Attach => Err(Fault::usage("the runtime `attach` starts nothing").hint("use `engines::attach`")),
    }
}

/// Tells the run what is going on.
pub(super) fn phase(context: &StartContext, phase: &str, detail: &str) -> Result<()> {
    context.run.note(Event::Phase {
        phase: phase.to_owned(),
        detail: detail.to_owned(),
    })
}
