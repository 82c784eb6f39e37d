//! A started or attached server, with the same operations for every runtime.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::attach::Attached;
use super::docker::Container;
use super::in_process::InProcess;
use super::process::Process;
use super::{Captured, ExecOutput, RuntimeKind, ServerLog, State, files};
use crate::fault::{Fault, Result};
use crate::runtime::state::Exit;
use crate::sim::SimHandle;

/// Docker's own default.
const DEFAULT_STOP_GRACE: Duration = Duration::from_secs(10);

/// A started or attached server.
#[derive(Debug)]
pub struct Service {
    name: String,
    base_url: Option<String>,
    logs: ServerLog,
    info: Value,
    grace: Duration,
    backend: Backend,
}

#[derive(Debug)]
pub(super) enum Backend {
    Container(Container),
    Process(Process),
    Attached(Attached),
    InProcess(InProcess),
}

impl Service {
    pub(super) fn new(name: &str, base_url: Option<String>, logs: ServerLog, info: Value, backend: Backend) -> Self {
        Self {
            name: name.to_owned(),
            base_url,
            logs,
            info,
            grace: DEFAULT_STOP_GRACE,
            backend,
        }
    }

    /// Replaces the stop grace period, if one is given.
    pub(super) fn with_stop_grace(mut self, grace: Option<Duration>) -> Self {
        self.grace = grace.unwrap_or(self.grace);
        self
    }

    /// How long it may take to stop after SIGTERM: as its launch says, else 10 seconds.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// The runtime that it runs in.
    #[must_use]
    pub fn kind(&self) -> RuntimeKind {
        match self.backend {
            Backend::Container(_) => RuntimeKind::Docker,
            Backend::Process(_) => RuntimeKind::Process,
            Backend::Attached(_) => RuntimeKind::Attach,
            Backend::InProcess(_) => RuntimeKind::Sim,
        }
    }

    pub(super) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Name in this run, such as `engine-1`. Its log is `logs/engine-1.log`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Base URL such as `http://127.0.0.1:49153`, without a trailing slash. None for a server without a port.
    #[must_use]
    pub fn base_url(&self) -> Option<&str> {
        self.base_url.as_deref()
    }

    /// What was started, for the manifest: image and digest, command line, model path; no secrets.
    #[must_use]
    pub fn info(&self) -> &Value {
        &self.info
    }

    /// Its output. Empty for a server attached by URL.
    #[must_use]
    pub fn logs(&self) -> &ServerLog {
        &self.logs
    }

    /// Whether it is running. Once it has exited, its log is complete.
    ///
    /// # Errors
    ///
    /// `missing` if Docker no longer answers.
    pub async fn state(&self) -> Result<State> {
        let state = match &self.backend {
            Backend::Container(container) => container.state().await?,
            Backend::Process(process) => process.state(),
            Backend::Attached(attached) => attached.state().await?,
            Backend::InProcess(sim) => sim.state(),
        };
        if state.exit().is_some() {
            self.complete_log().await;
        }
        Ok(state)
    }

    /// Waits at most a second for the last lines: a grandchild may hold the pipe open.
    async fn complete_log(&self) {
        if matches!(self.backend, Backend::InProcess(_)) {
            // It logs everything before it exits.
            self.logs.end();
        }
        let _ = tokio::time::timeout(Duration::from_secs(1), self.logs.wait_end()).await;
    }

    /// Waits until it exits. A server attached by URL never does.
    pub async fn wait_exit(&self) -> Result<Exit> {
        let exit = match &self.backend {
            Backend::Container(container) => container.wait().await?,
            Backend::Process(process) => process.wait().await,
            Backend::Attached(attached) => attached.wait().await?,
            Backend::InProcess(sim) => sim.wait().await,
        };
        self.complete_log().await;
        Ok(exit)
    }

    /// Sends SIGTERM, then SIGKILL after `grace`, and removes the container. Does nothing if already stopped, or if
    /// this run did not start the server.
    pub async fn stop(&self, grace: Duration) -> Result<()> {
        match &self.backend {
            Backend::Container(container) => container.stop(grace).await,
            Backend::Process(process) => process.stop(grace).await,
            Backend::Attached(_) => Ok(()),
            Backend::InProcess(sim) => {
                sim.stop(grace).await;
                self.logs.end();
                Ok(())
            }
        }
    }

    /// The simulated engine, if it is one; read by telemetry.
    #[must_use]
    pub fn sim(&self) -> Option<&SimHandle> {
        match &self.backend {
            Backend::InProcess(sim) => Some(&sim.0),
            _ => None,
        }
    }

    /// Runs a command inside the server until it exits.
    ///
    /// # Errors
    ///
    /// `not_allowed` in a container that this run did not start; `usage` if the runtime does not support it.
    pub async fn exec(&self, command: &[String]) -> Result<ExecOutput> {
        if command.is_empty() {
            return Err(Fault::usage("`exec` needs a command"));
        }
        match &self.backend {
            Backend::Container(container) => container.client().exec(command).await,
            Backend::Process(process) => process.exec(command).await,
            Backend::Attached(attached) => attached.exec(command).await,
            Backend::InProcess(_) => Err(unsupported("sim")),
        }
    }

    /// Copies a host file or folder into the folder `to` inside the server. `from` is not checked here; see
    /// `Permits::check_read`.
    pub async fn copy_in(&self, from: &Path, to: &str) -> Result<()> {
        match &self.backend {
            Backend::Container(container) => container.client().copy_in(from, to).await,
            Backend::Attached(attached) => attached.copy_in(from, to).await,
            Backend::Process(_) | Backend::InProcess(_) => Err(unsupported(self.kind().name())),
        }
    }

    /// Copies a file or folder inside the server into the existing host folder `to`.
    pub async fn copy_out(&self, from: &str, to: &Path) -> Result<()> {
        match &self.backend {
            Backend::Container(container) => container.client().copy_out(from, to).await,
            Backend::Attached(attached) => attached.copy_out(from, to).await,
            Backend::Process(_) | Backend::InProcess(_) => Err(unsupported(self.kind().name())),
        }
    }

    /// Runs a command inside the server until it exits, with separate output streams.
    pub(super) async fn capture(&self, command: &[String], env: &BTreeMap<String, String>) -> Result<Captured> {
        match &self.backend {
            Backend::Container(container) => container.client().capture(command, env).await,
            Backend::Process(process) => process.capture(command, env).await,
            Backend::Attached(attached) => attached.allowed_container()?.capture(command, env).await,
            Backend::InProcess(_) => Err(unsupported("sim")),
        }
    }

    /// Puts files where a command inside the server can read them.
    pub(super) async fn upload_files(&self, folder: &str, texts: &BTreeMap<String, String>) -> Result<ProbeFolder> {
        match &self.backend {
            Backend::Container(container) => container
                .client()
                .upload_files(folder, texts)
                .await
                .map(ProbeFolder::Container),
            Backend::Process(_) => match files::temp_folder(texts)? {
                Some(folder) => Ok(ProbeFolder::Local(folder)),
                None => Err(Fault::internal("a probe without files")),
            },
            Backend::Attached(attached) => attached
                .allowed_container()?
                .upload_files(folder, texts)
                .await
                .map(ProbeFolder::Container),
            Backend::InProcess(_) => Err(unsupported("sim")),
        }
    }

    /// The Python interpreter it runs in, if that can be determined.
    pub(super) fn python(&self) -> Option<String> {
        match &self.backend {
            Backend::Process(process) => process.python(),
            _ => None,
        }
    }

    /// Its pids on this host. Empty if they are not visible.
    pub async fn pids(&self) -> Result<Vec<u32>> {
        match &self.backend {
            Backend::Container(container) => container.client().pids().await,
            Backend::Process(process) => Ok(process.pids()),
            Backend::Attached(attached) => attached.pids().await,
            Backend::InProcess(_) => Ok(vec![std::process::id()]),
        }
    }

    /// Folder of its memory cgroup (with `memory.current` or `memory.usage_in_bytes`), if it has its own.
    pub async fn cgroup(&self) -> Result<Option<PathBuf>> {
        match &self.backend {
            Backend::Container(container) => container.client().cgroup().await,
            Backend::Attached(attached) => attached.cgroup().await,
            Backend::Process(_) | Backend::InProcess(_) => Ok(None),
        }
    }
}

/// A folder with the files of a probe.
pub(super) enum ProbeFolder {
    /// In a container; removed by the guard.
    Container(String),
    /// On this machine; removed on drop.
    Local(tempfile::TempDir),
}

impl ProbeFolder {
    /// Path as seen by a command inside the server.
    pub(super) fn path(&self) -> std::borrow::Cow<'_, str> {
        match self {
            ProbeFolder::Container(path) => path.into(),
            ProbeFolder::Local(folder) => folder.path().to_string_lossy(),
        }
    }
}

fn unsupported(kind: &str) -> Fault {
    Fault::usage(format!(
        "the runtime `{kind}` does not support `exec` and copying files"
    ))
    .hint("use the docker runtime")
}
