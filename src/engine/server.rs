//! The server process or container behind an engine: its log, its exit status and its address.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::facts::FactValues;
use super::failure::Exit;
use super::rules::check_path;
use crate::fault::{Fault, Result};
use crate::runtime::{Captured, LogLine, Program, RuntimeKind, Service};
use crate::telemetry::{Reading, Sampler};

/// How long to wait for the exit of an engine that broke a stream: the exit is reported after the socket closes.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Server {
    service: Arc<Service>,
    base_url: String,
}

impl Server {
    pub(super) fn new(service: Arc<Service>) -> Result<Self> {
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
            outside: exit.outside,
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

    /// Whether it stood still at some time in the last `period`.
    pub(super) async fn was_paused(&self, period: Duration) -> Result<bool> {
        self.service.was_paused(period).await
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

    /// Seconds of real time per second of model time, if this is the simulated engine.
    pub(super) fn time_scale(&self) -> Option<f64> {
        self.service.sim().map(|handle| handle.time_scale)
    }

    /// The simulated device's memory before the start, if this is the simulated engine.
    pub(super) fn simulated_before(&self) -> Option<Reading> {
        self.service.sim().map(|handle| handle.before())
    }
}

/// A server that is ready.
pub(super) struct Ready {
    pub(super) server: Server,
    pub(super) sampler: Option<Sampler>,
    /// Facts in its start log.
    pub(super) facts: FactValues,
}
