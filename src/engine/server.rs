//! The server process or container behind an engine: its log, its exit status and its address.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Engine;
use super::failure::Exit;
use crate::fault::{Fault, Result};
use crate::runtime::{Captured, Launch, LogLine, Program, RuntimeKind, Service, StartContext, Target, attach, start};
use crate::sim::Spec;
use crate::telemetry::Reading;

/// How long to wait for the exit of an engine that broke a stream: the exit is reported after the socket closes.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Server {
    service: Arc<Service>,
    base_url: String,
}

impl Engine {
    /// Starts the server that the adapter describes.
    pub(super) fn launch(&self, mut launch: Launch) -> Result<Server> {
        launch.in_process |= self.options.in_process;
        if let Some(spec) = launch.sim.take() {
            // Files named by a script are relative to its folder.
            launch.sim = Some(json!(Spec::from_script(spec, &self.context.home)?));
        }
        let mut words = launch.command.iter().chain(launch.env.values());
        if self.runtime == RuntimeKind::Process && words.any(|word| word.contains("{port}")) {
            // The adapter's port is the one inside a container; on this machine it may be taken.
            launch.port = self.options.port.unwrap_or_default();
        }
        let context = self.start_context();
        let service = self.context.tasks.wait(start(self.runtime, &launch, &context))?;
        Server::new(service)
    }

    /// Connects to a server that already runs.
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
        Server::new(self.context.tasks.wait(attach(&target, &context))?)
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

    /// Whether a shipped adapter alone decides what is started.
    pub(super) fn shipped_image(&self) -> bool {
        self.adapter.shipped() && self.options.image.is_none() && self.options.program.is_none()
    }
}

impl Server {
    fn new(service: Arc<Service>) -> Result<Self> {
        let base_url = service
            .base_url()
            .ok_or_else(|| {
                Fault::usage("the engine listens on no port").hint("let `launch(options)` of the adapter give `port`")
            })?
            .to_owned();
        Ok(Self { service, base_url })
    }

    /// URL without a trailing slash.
    pub(super) fn base_url(&self) -> &str {
        &self.base_url
    }

    pub(super) fn url(&self, path: &str) -> Result<String> {
        check_path(path)?;
        Ok(format!("{}{path}", self.base_url))
    }

    /// Whether we started it and may restart it.
    pub(super) fn ours(&self) -> bool {
        self.service.kind() != RuntimeKind::Attach
    }

    /// The launch description for the manifest.
    pub(super) fn describe(&self) -> &serde_json::Value {
        self.service.info()
    }

    /// The exit status, if the process has exited.
    pub(super) async fn exit(&self) -> Result<Option<Exit>> {
        Ok(self.service.state().await?.exit().map(|exit| Exit {
            code: exit.code,
            oom_killed: exit.oom_killed,
        }))
    }

    /// The exit status, if the process has exited. If a connection just broke, waits briefly, because the exit is
    /// reported after the socket closes. Attached servers are never waited for.
    pub(super) async fn ended(&self, broke: bool) -> Result<Option<Exit>> {
        let deadline = Instant::now() + EXIT_TIMEOUT;
        loop {
            let exit = self.exit().await?;
            if exit.is_some() || !broke || !self.ours() || Instant::now() >= deadline {
                return Ok(exit);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Number of log lines so far; a cursor for [`Server::since`].
    pub(super) fn cursor(&self) -> u64 {
        self.service.logs().cursor()
    }

    pub(super) fn since(&self, cursor: u64) -> Vec<String> {
        self.service.logs().since(cursor).0
    }

    /// Log lines from number `cursor` on, with their arrival times.
    pub(super) fn arrived(&self, cursor: u64) -> Vec<LogLine> {
        self.service.logs().lines_since(cursor)
    }

    pub(super) fn last(&self, count: usize) -> Vec<String> {
        self.service.logs().last(count)
    }

    /// Its name in this run, such as `engine-1`.
    pub(super) fn name(&self) -> &str {
        self.service.name()
    }

    /// Its own memory cgroup, if it has one.
    pub(super) async fn cgroup(&self) -> Result<Option<std::path::PathBuf>> {
        self.service.cgroup().await
    }

    /// Its process ids, the main process first. Empty if they are not visible from here.
    pub(super) async fn pids(&self) -> Result<Vec<u32>> {
        self.service.pids().await
    }

    /// Stops it unless it was attached to.
    pub(super) async fn stop(&self, grace: Duration) -> Result<()> {
        self.service.stop(grace).await
    }

    /// Runs a program inside it, next to the serving process.
    pub(super) async fn run_program(&self, program: &Program) -> Result<Captured> {
        self.service.run_program(program).await
    }

    /// A reader of the simulated device's memory, if this is the simulated engine.
    pub(super) fn simulated(&self) -> Option<impl Fn() -> Reading + Send + 'static + use<>> {
        self.service.sim().map(|handle| handle.reader())
    }

    /// The simulated device's memory before the start, if this is the simulated engine.
    pub(super) fn simulated_before(&self) -> Option<Reading> {
        self.service.sim().map(|handle| handle.before())
    }
}

/// Rejects a path that would redirect a request to another host: after `http://127.0.0.1:8000`, `@elsewhere/` would.
pub(super) fn check_path(path: &str) -> Result<()> {
    if path.starts_with('/') {
        return Ok(());
    }
    Err(Fault::usage(format!("the path `{path}` does not begin with `/`"))
        .hint("an adapter's paths are below the address of its engine"))
}
