//! One server under way, wherever it lives: what the engine room asks of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::attach::Attached;
use super::docker::Container;
use super::in_process::InProcess;
use super::process::Process;
use super::{Captured, ExecOutput, LogBook, RuntimeKind, State, files};
use crate::fault::{Fault, Result};
use crate::runtime::state::Exit;
use crate::sim::SimHandle;

/// What Docker gives a container to end by itself.
const GRACE: Duration = Duration::from_secs(10);

/// One server under way.
#[derive(Debug)]
pub struct Service {
    name: String,
    base_url: Option<String>,
    logs: LogBook,
    info: Value,
    grace: Duration,
    body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    Container(Container),
    Process(Process),
    Attached(Attached),
    InProcess(InProcess),
}

impl Service {
    pub(super) fn new(name: &str, base_url: Option<String>, logs: LogBook, info: Value, body: Body) -> Self {
        Self {
            name: name.to_owned(),
            base_url,
            logs,
            info,
            grace: GRACE,
            body,
        }
    }

    /// The same with the grace that its launch asks for.
    pub(super) fn with_grace(mut self, grace: Option<Duration>) -> Self {
        self.grace = grace.unwrap_or(self.grace);
        self
    }

    /// How long it may take to end when it is asked to: what its launch says, else 10 seconds as with Docker.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// Where it lives.
    #[must_use]
    pub fn kind(&self) -> RuntimeKind {
        match self.body {
            Body::Container(_) => RuntimeKind::Docker,
            Body::Process(_) => RuntimeKind::Process,
            Body::Attached(_) => RuntimeKind::Attach,
            Body::InProcess(_) => RuntimeKind::Sim,
        }
    }

    pub(super) fn body(&self) -> &Body {
        &self.body
    }

    /// Its name in this run: `engine-1`; its log is `logs/engine-1.log`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens: `http://127.0.0.1:49153`, without a final slash. None for a server without a port.
    #[must_use]
    pub fn base_url(&self) -> Option<&str> {
        self.base_url.as_deref()
    }

    /// What was started, for the manifest: image and digest, launch line, model path; no secrets.
    #[must_use]
    pub fn info(&self) -> &Value {
        &self.info
    }

    /// What it wrote. Empty for a URL.
    #[must_use]
    pub fn logs(&self) -> &LogBook {
        &self.logs
    }

    /// Whether it lives. Once it has ended its log is complete.
    ///
    /// # Errors
    ///
    /// `missing` when Docker does not answer any more.
    pub async fn state(&self) -> Result<State> {
        let state = match &self.body {
            Body::Container(container) => container.state().await?,
            Body::Process(process) => process.state(),
            Body::Attached(attached) => attached.state().await?,
            Body::InProcess(own) => own.state(),
        };
        if state.exit().is_some() {
            self.complete_log().await;
        }
        Ok(state)
    }

    /// After the end the last lines may still be under way; a grandchild that holds the pipe open must not hold us.
    async fn complete_log(&self) {
        if matches!(self.body, Body::InProcess(_)) {
            // Its lines are there before its end is.
            self.logs.end();
        }
        let _ = tokio::time::timeout(Duration::from_secs(1), self.logs.wait_end()).await;
    }

    /// Waits until it ends. A URL never does.
    pub async fn wait_exit(&self) -> Result<Exit> {
        let exit = match &self.body {
            Body::Container(container) => container.wait().await?,
            Body::Process(process) => process.wait().await,
            Body::Attached(attached) => attached.wait().await?,
            Body::InProcess(own) => own.wait().await,
        };
        self.complete_log().await;
        Ok(exit)
    }

    /// Asks it to end, ends it by force after `grace`, and removes what it left. Done already: nothing happens.
    /// What this run did not start is left as it is.
    pub async fn stop(&self, grace: Duration) -> Result<()> {
        match &self.body {
            Body::Container(container) => container.stop(grace).await,
            Body::Process(process) => process.stop(grace).await,
            Body::Attached(_) => Ok(()),
            Body::InProcess(own) => {
                own.stop(grace).await;
                self.logs.end();
                Ok(())
            }
        }
    }

    /// The simulated engine behind it, if it is one: what its telemetry reads.
    #[must_use]
    pub fn sim(&self) -> Option<&SimHandle> {
        match &self.body {
            Body::InProcess(own) => Some(&own.0),
            _ => None,
        }
    }

    /// Runs a command inside it, to its end.
    ///
    /// # Errors
    ///
    /// `not_allowed` in a container that this run did not start, `usage` where there is no inside.
    pub async fn exec(&self, command: &[String]) -> Result<ExecOutput> {
        if command.is_empty() {
            return Err(Fault::usage("`exec` needs a command"));
        }
        match &self.body {
            Body::Container(container) => container.inside().exec(command).await,
            Body::Process(process) => process.exec(command).await,
            Body::Attached(attached) => attached.exec(command).await,
            Body::InProcess(_) => Err(no_inside("sim")),
        }
    }

    /// Copies a file or folder of the host into the folder `to` inside it. `from` is not checked here: see `Permits::check_read`.
    pub async fn copy_in(&self, from: &Path, to: &str) -> Result<()> {
        match &self.body {
            Body::Container(container) => container.inside().copy_in(from, to).await,
            Body::Attached(attached) => attached.copy_in(from, to).await,
            Body::Process(_) | Body::InProcess(_) => Err(no_inside(self.kind().name())),
        }
    }

    /// Copies a file or folder inside it into the folder `to` of the host, which exists.
    pub async fn copy_out(&self, from: &str, to: &Path) -> Result<()> {
        match &self.body {
            Body::Container(container) => container.inside().copy_out(from, to).await,
            Body::Attached(attached) => attached.copy_out(from, to).await,
            Body::Process(_) | Body::InProcess(_) => Err(no_inside(self.kind().name())),
        }
    }

    /// Runs a command inside it, to its end, its streams apart.
    pub(super) async fn capture(&self, command: &[String], env: &BTreeMap<String, String>) -> Result<Captured> {
        match &self.body {
            Body::Container(container) => container.inside().capture(command, env).await,
            Body::Process(process) => process.capture(command, env).await,
            Body::Attached(attached) => attached.entered()?.capture(command, env).await,
            Body::InProcess(_) => Err(no_inside("sim")),
        }
    }

    /// Puts files where a command inside it finds them.
    pub(super) async fn place(&self, folder: &str, texts: &BTreeMap<String, String>) -> Result<Placed> {
        match &self.body {
            Body::Container(container) => container.inside().place(folder, texts).await.map(Placed::Inside),
            Body::Process(_) => match files::folder(texts)? {
                Some(folder) => Ok(Placed::Here(folder)),
                None => Err(Fault::internal("a probe without files")),
            },
            Body::Attached(attached) => attached.entered()?.place(folder, texts).await.map(Placed::Inside),
            Body::InProcess(_) => Err(no_inside("sim")),
        }
    }

    /// The Python that it runs in, where that can be seen from here.
    pub(super) fn python(&self) -> Option<String> {
        match &self.body {
            Body::Process(process) => process.python(),
            _ => None,
        }
    }

    /// Its processes, as this host numbers them. Empty where they cannot be seen from here.
    pub async fn pids(&self) -> Result<Vec<u32>> {
        match &self.body {
            Body::Container(container) => container.inside().pids().await,
            Body::Process(process) => Ok(process.pids()),
            Body::Attached(attached) => attached.pids().await,
            Body::InProcess(_) => Ok(vec![std::process::id()]),
        }
    }

    /// The folder of its memory control group (`memory.current` or `memory.usage_in_bytes` is in it), where it has one of its own.
    pub async fn cgroup(&self) -> Result<Option<PathBuf>> {
        match &self.body {
            Body::Container(container) => container.inside().cgroup().await,
            Body::Attached(attached) => attached.cgroup().await,
            Body::Process(_) | Body::InProcess(_) => Ok(None),
        }
    }
}

/// A folder with files of ours.
pub(super) enum Placed {
    /// In a container: the guard removes it.
    Inside(String),
    /// On this machine: removed with this.
    Here(tempfile::TempDir),
}

impl Placed {
    /// Its path, as a command inside the server finds it.
    pub(super) fn path(&self) -> std::borrow::Cow<'_, str> {
        match self {
            Placed::Inside(path) => path.into(),
            Placed::Here(folder) => folder.path().to_string_lossy(),
        }
    }
}

fn no_inside(kind: &str) -> Fault {
    Fault::usage(format!("the runtime `{kind}` has no inside to reach into")).hint("use the docker runtime")
}
