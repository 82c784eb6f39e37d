//! A server that a script started itself.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::Host;
use crate::fault::{Fault, Result};
use crate::runtime::{self, Exit, Launch, RuntimeKind, StartContext};

#[derive(Clone, Debug)]
pub(super) struct Service(Arc<runtime::Service>);

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LogOptions {
    /// Number of latest lines.
    last: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { last: usize::MAX }
    }
}

impl Service {
    /// Starts a service. An option of another runtime is an error.
    pub(super) fn start(host: &Host, kind: RuntimeKind, launch: &Launch) -> Result<Self> {
        check_runtime_options(kind, launch)?;
        if host.settings.dry_run {
            // A dry run refuses what a run would refuse.
            host.permits.check_launch(kind, launch, false)?;
            return Err(Fault::dry_run(match &launch.image {
                Some(image) => format!("the image `{image}` would be started"),
                None => format!(
                    "`{}` would be started",
                    launch.command.first().map_or("", String::as_str)
                ),
            }));
        }
        let context = StartContext {
            run: Arc::clone(&host.run),
            permits: host.permits.clone(),
            services: Arc::clone(&host.services),
            // The script chose the image.
            shipped_image: false,
            prefix: "service".to_owned(),
        };
        host.tasks.wait(runtime::start(kind, launch, &context)).map(Self)
    }

    pub(super) fn url(&self) -> Option<&str> {
        self.0.base_url()
    }

    pub(super) fn name(&self) -> &str {
        self.0.name()
    }

    pub(super) fn logs(&self, options: &LogOptions) -> Vec<String> {
        self.0.logs().last(options.last)
    }

    pub(super) fn state(&self, host: &Host) -> Result<runtime::State> {
        host.tasks.wait(self.0.state())
    }

    /// `None` if it is still running after `timeout`.
    pub(super) fn wait(&self, host: &Host, timeout: Option<Duration>) -> Result<Option<Exit>> {
        host.tasks.wait(async {
            let end = self.0.wait_exit();
            match timeout {
                None => end.await.map(Some),
                Some(timeout) => tokio::time::timeout(timeout, end).await.ok().transpose(),
            }
        })
    }

    pub(super) fn stop(&self, host: &Host, grace: Option<Duration>) -> Result<()> {
        host.tasks.wait(self.0.stop(grace.unwrap_or_else(|| self.0.grace())))
    }

    pub(super) fn exec(&self, host: &Host, command: &[String]) -> Result<runtime::ExecOutput> {
        host.tasks.wait(self.0.exec(command))
    }

    /// Copies a file into the service. It must be in a folder that the user permitted.
    pub(super) fn copy_in(&self, host: &Host, from: &str, to: &str) -> Result<()> {
        let from = host.permits.check_read(Path::new(from))?;
        host.tasks.wait(self.0.copy_in(&from, to))
    }

    /// Copies a file out of the service, into the run's folder.
    pub(super) fn copy_out(&self, host: &Host, from: &str) -> Result<String> {
        let folder = host.run.make_folder("files", self.0.name())?.ok_or_else(|| {
            Fault::usage("`copy_out` needs a run with a folder").hint("start the script with `profiler run`")
        })?;
        host.tasks.wait(self.0.copy_out(from, &folder))?;
        Ok(folder.to_string_lossy().into_owned())
    }
}

fn check_runtime_options(kind: RuntimeKind, launch: &Launch) -> Result<()> {
    let docker = [
        ("image", launch.image.is_some()),
        ("entrypoint", !launch.entrypoint.is_empty()),
        ("args", !launch.args.is_empty()),
        ("mounts", !launch.mounts.is_empty()),
        ("cache", launch.cache.is_some()),
        ("gpus", !launch.gpus.is_empty()),
        ("shm_size", launch.shm_size.is_some()),
        ("ulimits", !launch.ulimits.is_empty()),
        ("memory_limit", launch.memory_limit.is_some()),
    ];
    let process = [("command", !launch.command.is_empty())];
    let (others, advice) = match kind {
        RuntimeKind::Docker => (&process[..], "use `entrypoint` and `args`"),
        _ => (&docker[..], "use `command`, or `docker::start`"),
    };
    let sim = [("sim", launch.sim.is_some())];
    match others.iter().chain(&sim).find(|(_, given)| *given) {
        Some((name, _)) => {
            Err(Fault::usage(format!("option `{name}` does not apply to the runtime `{kind}`")).hint(advice))
        }
        None => Ok(()),
    }
}
