//! The server process or container behind an engine: its log, its exit status and its address.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::adapter::check_path;
use crate::engine::facts::log::strip_colours;
use crate::fault::{Fault, Result};
use crate::runtime::{Exit, RuntimeKind, Service};
use crate::telemetry::Reading;

/// Log lines kept for an unexplained failure.
pub(crate) const TAIL: usize = 40;

/// Time to wait for the exit of an engine that broke a stream: the exit is reported after the socket closes.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct Server {
    pub(crate) service: Arc<Service>,
    base_url: String,
}

impl Server {
    pub(crate) fn new(service: Arc<Service>) -> Result<Self> {
        let base_url = service
            .base_url()
            .ok_or_else(|| {
                Fault::usage("the engine listens on no port").hint("let `launch(options)` of the adapter give `port`")
            })?
            .to_owned();
        Ok(Self { service, base_url })
    }

    /// URL without a trailing slash.
    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    pub(crate) fn url(&self, path: &str) -> Result<String> {
        check_path(path)?;
        Ok(format!("{}{path}", self.base_url))
    }

    /// Whether we started it and may restart it.
    pub(crate) fn ours(&self) -> bool {
        self.service.kind() != RuntimeKind::Attach
    }

    /// The exit status, if the process has exited.
    pub(crate) async fn exit(&self) -> Result<Option<Exit>> {
        Ok(self.service.state().await?.exit().cloned())
    }

    /// The exit status, if the process has exited. If a connection just broke, waits briefly, because the exit is
    /// reported after the socket closes. Never waits for an attached server.
    pub(crate) async fn ended(&self, broke: bool) -> Result<Option<Exit>> {
        let deadline = Instant::now() + EXIT_TIMEOUT;
        loop {
            let exit = self.exit().await?;
            if exit.is_some() || !broke || !self.ours() || Instant::now() >= deadline {
                return Ok(exit);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Log lines since the cursor, without colour codes.
    pub(crate) fn since(&self, cursor: u64) -> Vec<String> {
        strip_colours(&self.service.logs().since(cursor).0)
    }

    /// The newest log lines, without colour codes.
    pub(crate) fn last(&self, count: usize) -> Vec<String> {
        strip_colours(&self.service.logs().last(count))
    }

    /// A reader of the simulated device's memory, if this is the simulated engine.
    pub(crate) fn simulated(&self) -> Option<impl Fn() -> Reading + Send + 'static + use<>> {
        self.service.sim().map(|handle| handle.reader())
    }

    /// Seconds of real time per second of model time, if this is the simulated engine.
    pub(crate) fn time_scale(&self) -> Option<f64> {
        self.service.sim().map(|handle| handle.time_scale)
    }
}
