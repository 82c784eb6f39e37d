//! The runtimes, a started or attached server with the same operations for each of them, and Python programs run inside
//! it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::attach::Attached;
use super::docker::{Container, ContainerClient};
use super::launch::Started;
use super::process::Process;
use super::services::InProcess;
use super::{Captured, ExecOutput, Launch, ServerLog, launch};
use crate::fault::{Fault, Kind, Result};
use crate::fmt::GIB;
use crate::sim::SimHandle;

/// Where an engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuntimeKind {
    /// In a container started by this run.
    Docker,
    /// In a process started by this run.
    Process,
    /// Already running elsewhere.
    Attach,
    /// In this process: the simulated engine.
    Sim,
}

impl RuntimeKind {
    /// Name as users and adapters write it.
    pub fn name(self) -> &'static str {
        match self {
            RuntimeKind::Docker => "docker",
            RuntimeKind::Process => "process",
            RuntimeKind::Attach => "attach",
            RuntimeKind::Sim => "sim",
        }
    }
}

impl std::fmt::Display for RuntimeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a server is running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// Running, as far as the runtime can tell.
    Running,
    /// Exited.
    Exited(Exit),
}

impl State {
    /// The exit status, if it has exited.
    pub fn exit(&self) -> Option<&Exit> {
        match self {
            State::Running => None,
            State::Exited(exit) => Some(exit),
        }
    }
}

/// Exit status of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code; 128 + signal number after a signal, as shells and Docker report it.
    pub code: Option<i64>,
    /// The signal, if the runtime reports it.
    pub signal: Option<i32>,
    /// Whether the kernel reported an OOM kill. Exit code 137 alone is not enough.
    pub oom_killed: bool,
    /// Time of exit in UTC, RFC 3339.
    pub finished_at: Option<String>,
    /// What somebody else did to end it, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside: Option<Outside>,
}

impl Exit {
    /// Who ended it, if neither this program nor the kernel did.
    pub fn stopped_by(&self) -> Option<String> {
        Some(match self.outside? {
            Outside::Removed => "somebody else removed the engine's container".to_owned(),
            Outside::Signal(signal) => format!("somebody else stopped the engine's container (signal {signal})"),
            Outside::OwnLimit(bytes) => format!(
                "the engine's container reached the memory limit of {:.1} GiB that profiler sets so that the machine stays usable; set `memory_limit` yourself",
                bytes as f64 / GIB
            ),
            Outside::Process(signal) => {
                format!("the engine was ended by signal {signal}: somebody else stopped it, or it did so itself")
            }
        })
    }

    /// The exit status, for people.
    pub fn status(&self) -> String {
        self.code
            .map_or_else(|| "an unknown status".to_owned(), |code| format!("status {code}"))
    }
}

/// How somebody else, not this program and not the kernel for lack of memory, ended a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outside {
    /// Its container was removed.
    Removed,
    /// Its container was sent a signal: `docker stop`, `docker kill`.
    Signal(i32),
    /// The kernel, because its container reached the limit of memory, in bytes, that this program chose.
    OwnLimit(u64),
    /// A process ended by SIGTERM or SIGKILL, which it may have sent itself.
    Process(i32),
}

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
    /// Whether it was seen to have ended, or was stopped.
    ended: AtomicBool,
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
    /// `wrap` is the variant of [`Backend`]; without `grace`, Docker's default stop grace period is used.
    pub(super) fn new<B>(
        name: &str,
        started: Started<B>,
        wrap: impl FnOnce(B) -> Backend,
        grace: Option<Duration>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            base_url: started.base_url,
            logs: started.logs,
            info: started.info,
            grace: grace.unwrap_or(DEFAULT_STOP_GRACE),
            ended: AtomicBool::new(false),
            backend: wrap(started.backend),
        }
    }

    /// How long it may take to stop after SIGTERM: as its launch says, else 10 seconds.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// The runtime that it runs in.
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
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Base URL such as `http://127.0.0.1:49153`, without a trailing slash. None for a server without a port.
    pub fn base_url(&self) -> Option<&str> {
        self.base_url.as_deref()
    }

    /// What was started, for the manifest: image and digest, command line, model path; no secrets.
    pub fn info(&self) -> &Value {
        &self.info
    }

    /// Its output. Empty for a server attached by URL.
    pub fn logs(&self) -> &ServerLog {
        &self.logs
    }

    /// Whether it stood still, as by `docker pause`, at some time in the last `period`. Known of containers only.
    pub async fn was_paused(&self, period: Duration) -> Result<bool> {
        match self.any_container() {
            Some(container) => container.was_paused(period).await,
            None => Ok(false),
        }
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
            self.ended.store(true, Ordering::Relaxed);
            self.complete_log().await;
        }
        Ok(state)
    }

    /// Whether it is known to have ended. The end of a container is known once somebody asked for its state.
    pub(super) fn has_ended(&self) -> bool {
        let exited = matches!(&self.backend, Backend::Process(process) if process.state().exit().is_some());
        exited || self.ended.load(Ordering::Relaxed)
    }

    /// Whether it is a process that ended with all that it started.
    pub(super) fn is_gone(&self) -> bool {
        matches!(&self.backend, Backend::Process(process) if process.state().exit().is_some() && process.pids().is_empty())
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
        self.ended.store(true, Ordering::Relaxed);
        self.complete_log().await;
        Ok(exit)
    }

    /// Sends SIGTERM, then SIGKILL after `grace`, and removes the container. Does nothing if already stopped, or if
    /// this run did not start the server.
    pub async fn stop(&self, grace: Duration) -> Result<()> {
        self.ended.store(true, Ordering::Relaxed);
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
    pub fn sim(&self) -> Option<&SimHandle> {
        match &self.backend {
            Backend::InProcess(sim) => Some(&sim.0),
            _ => None,
        }
    }

    /// Runs a command inside a server of this run until it exits. If this program is killed, the command ends with the
    /// server; in a container of somebody else's nothing would end it.
    ///
    /// # Errors
    ///
    /// `usage` if the runtime does not support it.
    pub async fn exec(&self, command: &[String]) -> Result<ExecOutput> {
        if command.is_empty() {
            return Err(Fault::usage("`exec` needs a command"));
        }
        match &self.backend {
            Backend::Process(process) => process.exec(command).await,
            _ => self.own_container()?.exec(command).await,
        }
    }

    /// Runs a command inside the server until it exits, with separate output streams.
    pub(super) async fn capture(&self, command: &[String], env: &BTreeMap<String, String>) -> Result<Captured> {
        match &self.backend {
            Backend::Process(process) => process.capture(command, env).await,
            _ => self.container()?.capture(command, env).await,
        }
    }

    /// Puts files where a command inside the server can read them.
    pub(super) async fn upload_files(&self, folder: &str, texts: &BTreeMap<String, String>) -> Result<ProbeFolder> {
        match &self.backend {
            Backend::Process(_) => match launch::temp_folder(texts)? {
                Some(folder) => Ok(ProbeFolder::Local(folder)),
                None => Err(Fault::internal("a probe without files")),
            },
            _ => {
                let path = self.container()?.upload_files(folder, texts).await?;
                Ok(ProbeFolder::Container(path))
            }
        }
    }

    /// The container in which programs may run.
    fn container(&self) -> Result<&ContainerClient> {
        match &self.backend {
            Backend::Attached(attached) => attached.allowed_container(),
            _ => self.own_container(),
        }
    }

    /// The container that this run started.
    /// The container that it runs in, its own or one that was attached to.
    fn any_container(&self) -> Option<&ContainerClient> {
        match &self.backend {
            Backend::Container(container) => Some(container.client()),
            Backend::Attached(attached) => attached.container(),
            Backend::Process(_) | Backend::InProcess(_) => None,
        }
    }

    fn own_container(&self) -> Result<&ContainerClient> {
        match &self.backend {
            Backend::Container(container) => Ok(container.client()),
            _ => Err(
                Fault::usage(format!("the runtime `{}` does not support `exec`", self.kind()))
                    .hint("use the docker runtime"),
            ),
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
            Backend::Process(process) => Ok(process.pids()),
            Backend::InProcess(_) => Ok(vec![std::process::id()]),
            Backend::Container(_) | Backend::Attached(_) => match self.any_container() {
                Some(container) => container.pids().await,
                None => Ok(Vec::new()),
            },
        }
    }

    /// Folder of its memory cgroup (with `memory.current` or `memory.usage_in_bytes`), if it has its own.
    pub async fn cgroup(&self) -> Result<Option<PathBuf>> {
        match self.any_container() {
            Some(container) => container.cgroup().await,
            None => Ok(None),
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

/// Enforces the timeout, exits when standard input is closed, and removes secrets from the environment.
const GUARD: &str = include_str!("guard.py");
/// Keeps a container or process alive without doing anything.
const IDLE_PROGRAM: &str = "import signal; signal.pause()";
/// Time the guard itself may take beyond the program's timeout.
const GUARD_OVERHEAD: Duration = Duration::from_secs(15);
/// Exit code of the guard on timeout.
const TIMEOUT_EXIT_CODE: i64 = 124;

/// A Python program to run inside a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The entry of `files` to run.
    pub file: String,
    /// Source texts by plain file name, all in one folder.
    pub files: BTreeMap<String, String>,
    /// Command line arguments.
    pub args: Vec<String>,
    /// Environment variables in addition to the server's.
    pub env: BTreeMap<String, String>,
    /// Interpreter. Default: the one of the server's own process if it is Python, else `python3`.
    pub python: Option<String>,
    /// Timeout in seconds.
    pub timeout: f64,
}

impl Service {
    /// Runs a program inside the server until it exits.
    ///
    /// # Errors
    ///
    /// `timeout` when it runs too long; `missing` if the interpreter cannot be run; `usage` if the runtime does not
    /// support it; `not_allowed` in a container that this run did not start.
    pub async fn run_program(&self, program: &Program) -> Result<Captured> {
        let time = Duration::try_from_secs_f64(program.timeout).map_err(|_| {
            Fault::usage(format!(
                "option `timeout` is {}, not a number of seconds",
                program.timeout
            ))
        })?;
        let python = program.python.clone().or_else(|| self.python());
        let python = python.unwrap_or_else(|| "python3".to_owned());
        let probe_folder = self.upload_files(&folder_name(), &program.files).await?;
        let folder = probe_folder.path();
        let file = format!("{folder}/{}", program.file);
        let mut command = vec![
            python.clone(),
            "-c".to_owned(),
            GUARD.to_owned(),
            program.timeout.to_string(),
        ];
        command.extend([folder.into_owned(), python.clone(), file]);
        command.extend(program.args.iter().cloned());
        let captured = tokio::time::timeout(time + GUARD_OVERHEAD, self.capture(&command, &program.env)).await;
        match captured {
            Ok(Ok(captured)) if captured.code == Some(TIMEOUT_EXIT_CODE) => Err(timed_out(program, &captured)),
            // Exit codes of shells and Docker for a program that cannot be found or run.
            Ok(Ok(captured)) if matches!(captured.code, Some(126 | 127)) => Err(Fault::missing(
                format!("cannot run `{python}` there: {}", error_text(&captured)),
                "give the engine's Python interpreter with the option `python`",
            )),
            Ok(done) => done,
            Err(_) => Err(timed_out(program, &Captured::default())),
        }
    }
}

/// The launch without its server: an idle program in the same image, with the same devices and folders.
pub fn placeholder_launch(launch: Launch, python: Option<&str>) -> Launch {
    let words = |python: &str| vec![python.to_owned(), "-c".to_owned(), IDLE_PROGRAM.to_owned()];
    let mut command = words(python.unwrap_or("python3"));
    Launch {
        entrypoint: command.drain(..1).collect(),
        args: command,
        command: words(python.unwrap_or("python3")),
        port: 0,
        token: false,
        in_process: false,
        ..launch
    }
}

/// Unique, so that concurrent probes do not remove each other's files.
fn folder_name() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!(
        "profiler-probe-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

fn timed_out(program: &Program, captured: &Captured) -> Fault {
    let fault = Fault::new(
        Kind::Timeout,
        format!(
            "the probe `{}` was ended after {} s{}",
            program.file,
            program.timeout,
            stderr_suffix(captured)
        ),
    );
    fault.hint("give it more time with the option `timeout`")
}

fn stderr_suffix(captured: &Captured) -> String {
    match captured.stderr_tail(5) {
        words if words.is_empty() => String::new(),
        words => format!("; its last output: {words}"),
    }
}

/// Docker reports its own failure on standard output.
fn error_text(captured: &Captured) -> String {
    let words = captured.stderr_tail(3);
    if words.is_empty() {
        String::from_utf8_lossy(&captured.stdout).trim().to_owned()
    } else {
        words
    }
}
