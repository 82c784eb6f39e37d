//! The server behind an engine, wherever it lives: what it wrote, whether it lives, and its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Engine;
use super::failure::Exit;
use crate::fault::{Fault, Result};
use crate::runtime::{Arrived, Captured, Launch, Program, RuntimeKind, Service, StartContext, Target, attach, start};
use crate::sim::Spec;
use crate::telemetry::Reading;

/// How long the death of an engine that broke a stream is waited for: the kernel's word comes after the connection's end.
const DEATH: Duration = Duration::from_secs(2);

/// A server under way.
pub(super) struct Server {
    service: Arc<Service>,
    base_url: String,
}

impl Engine {
    /// Starts what the adapter describes.
    pub(super) fn launch(&self, mut launch: Launch) -> Result<Server> {
        launch.in_process |= self.options.in_process;
        if let Some(spec) = launch.sim.take() {
            // The files that a script names lie below its folder.
            launch.sim = Some(json!(Spec::of_script(spec, &self.context.home)?));
        }
        let mut words = launch.command.iter().chain(launch.env.values());
        if self.runtime == RuntimeKind::Process && words.any(|word| word.contains("{port}")) {
            // An adapter's port is the one inside a container; on this machine somebody else may have it.
            launch.port = self.options.port.unwrap_or_default();
        }
        let context = self.start_context();
        let service = self.context.tasks.wait(start(self.runtime, &launch, &context))?;
        Server::of(service)
    }

    /// Finds a server that runs already.
    pub(super) fn find(&self) -> Result<Server> {
        let target = match (&self.options.url, &self.options.container) {
            (Some(url), None) => Target::Url(url.clone()),
            (None, Some(container)) => Target::Container(container.clone(), None),
            (None, None) => {
                return Err(
                    Fault::usage("nothing to attach to").hint("give `url`, or the name of a running `container`")
                );
            }
            (Some(_), Some(_)) => {
                return Err(Fault::usage("`url` and `container` are both given").hint("give one of them"));
            }
        };
        let context = self.start_context();
        Server::of(self.context.tasks.wait(attach(&target, &context))?)
    }

    pub(super) fn start_context(&self) -> StartContext {
        StartContext {
            run: Arc::clone(&self.context.run),
            permits: self.context.permits.clone(),
            services: Arc::clone(&self.context.services),
            shipped_image: self.shipped_image(),
            prefix: "engine".to_owned(),
        }
    }

    /// Whether a shipped adapter chooses what is started by itself.
    pub(super) fn shipped_image(&self) -> bool {
        self.adapter.shipped() && self.options.image.is_none() && self.options.program.is_none()
    }
}

impl Server {
    fn of(service: Arc<Service>) -> Result<Self> {
        let base_url = service
            .base_url()
            .ok_or_else(|| {
                Fault::usage("the engine listens on no port").hint("let `launch(options)` of the adapter give `port`")
            })?
            .to_owned();
        Ok(Self { service, base_url })
    }

    /// Where it listens, without a final slash.
    pub(super) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The address of a page of it.
    pub(super) fn url(&self, path: &str) -> Result<String> {
        check_path(path)?;
        Ok(format!("{}{path}", self.base_url))
    }

    /// Whether it can be started again.
    pub(super) fn ours(&self) -> bool {
        self.service.kind() != RuntimeKind::Attach
    }

    /// What was started, for the manifest.
    pub(super) fn describe(&self) -> &serde_json::Value {
        self.service.info()
    }

    /// How it ended, if it did.
    pub(super) async fn exit(&self) -> Result<Option<Exit>> {
        Ok(self.service.state().await?.exit().map(|exit| Exit {
            code: exit.code,
            oom_killed: exit.oom_killed,
        }))
    }

    /// How it ended, if it did; where a connection to it `broke`, its death is waited for, as the kernel's word comes after the connection's end. Nobody here would be told
    /// of the death of what somebody else started.
    pub(super) async fn ended(&self, broke: bool) -> Result<Option<Exit>> {
        let deadline = Instant::now() + DEATH;
        loop {
            let exit = self.exit().await?;
            if exit.is_some() || !broke || !self.ours() || Instant::now() >= deadline {
                return Ok(exit);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The number of lines so far: a cursor for [`Server::since`].
    pub(super) fn cursor(&self) -> u64 {
        self.service.logs().cursor()
    }

    /// The lines after a cursor.
    pub(super) fn since(&self, cursor: u64) -> Vec<String> {
        self.service.logs().since(cursor).0
    }

    /// The lines from number `cursor` on, and when they came.
    pub(super) fn arrived(&self, cursor: u64) -> Vec<Arrived> {
        self.service.logs().arrived(cursor)
    }

    /// The newest lines.
    pub(super) fn last(&self, count: usize) -> Vec<String> {
        self.service.logs().last(count)
    }

    /// Its name in this run: `engine-1`.
    pub(super) fn name(&self) -> &str {
        self.service.name()
    }

    /// Its memory control group, where it has one of its own.
    pub(super) async fn cgroup(&self) -> Result<Option<std::path::PathBuf>> {
        self.service.cgroup().await
    }

    /// Its processes, the first one first. Empty where they cannot be seen from here.
    pub(super) async fn pids(&self) -> Result<Vec<u32>> {
        self.service.pids().await
    }

    /// Ends it, unless it is not ours to end.
    pub(super) async fn stop(&self, grace: Duration) -> Result<()> {
        self.service.stop(grace).await
    }

    /// Runs a program inside it, beside what serves.
    pub(super) async fn run_program(&self, program: &Program) -> Result<Captured> {
        self.service.run_program(program).await
    }

    /// Memory of the simulated device, where this is one.
    pub(super) fn simulated(&self) -> Option<impl Fn() -> Reading + Send + 'static + use<>> {
        self.service.sim().map(|handle| handle.reader())
    }

    /// Memory of the simulated device before the start, where this is one.
    pub(super) fn simulated_before(&self) -> Option<Reading> {
        self.service.sim().map(|handle| handle.before())
    }
}

/// Refuses a path that would turn a request to another host than the engine's: after `http://127.0.0.1:8000`, a path `@elsewhere/` would.
pub(super) fn check_path(path: &str) -> Result<()> {
    if path.starts_with('/') {
        return Ok(());
    }
    Err(Fault::usage(format!("the path `{path}` does not begin with `/`"))
        .hint("an adapter's paths are below the address of its engine"))
}
