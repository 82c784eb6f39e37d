//! A started or attached server with the same operations for each runtime; and Python programs that run inside it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::attach::Attached;
use super::docker::{Container, Inside};
use super::process::Process;
use super::state::{Exit, RuntimeKind, Started, State};
use super::{Captured, ExecOutput, Launch, ServerLog, launch};
use crate::fault::{Fault, Kind, Result};
use crate::sim::{self, SimHandle};

/// Docker's own default.
const DEFAULT_STOP_GRACE: Duration = Duration::from_secs(10);

/// A started or attached server.
pub struct Service {
    name: String,
    started: Started<Backend>,
    grace: Duration,
    /// Whether it was seen to have exited, or was stopped.
    ended: AtomicBool,
}

pub(super) enum Backend {
    Container(Arc<Container>),
    Process(Process),
    Inside(Box<Inside>),
    Attached(Attached),
    InProcess(SimHandle),
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Service").field(&self.name).finish()
    }
}

impl Service {
    /// If `grace` is `None`, Docker's default grace period is used.
    pub(super) fn new(name: &str, started: Started<Backend>, grace: Option<Duration>) -> Self {
        Self {
            name: name.to_owned(),
            started,
            grace: grace.unwrap_or(DEFAULT_STOP_GRACE),
            ended: AtomicBool::new(false),
        }
    }

    /// The time between SIGTERM and SIGKILL: from its launch, or 10 seconds.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// The runtime that it runs in.
    pub fn kind(&self) -> RuntimeKind {
        match self.backend() {
            Backend::Container(_) => RuntimeKind::Docker,
            Backend::Process(_) | Backend::Inside(_) => RuntimeKind::Process,
            Backend::Attached(..) => RuntimeKind::Attach,
            Backend::InProcess(_) => RuntimeKind::Sim,
        }
    }

    pub(super) fn backend(&self) -> &Backend {
        &self.started.backend
    }

    /// Name in this run, such as `engine-1`. Its log is `logs/engine-1.log`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Base URL such as `http://127.0.0.1:49153`, without a trailing slash. `None` for a server without a port.
    pub fn base_url(&self) -> Option<&str> {
        self.started.base_url.as_deref()
    }

    /// Description for the manifest: image and digest, command line, model path; no secrets.
    pub fn info(&self) -> &Value {
        &self.started.info
    }

    /// Its output. Empty for a server attached by URL.
    pub fn logs(&self) -> &ServerLog {
        &self.started.logs
    }

    /// Whether it is paused, for example by `docker pause`, or was at any time in the last `period`. Always false for servers
    /// that are not containers.
    pub async fn was_paused(&self, period: Duration) -> Result<bool> {
        match self.container() {
            Some(container) => Ok(container.was_paused(period).await),
            None => Ok(false),
        }
    }

    /// A small file in the attached container; `None` if it does not exist or is larger than `most` bytes.
    ///
    /// # Errors
    ///
    /// `missing` if the Docker daemon does not answer.
    pub async fn read_file(&self, path: &str, most: u64) -> Result<Option<Vec<u8>>> {
        match (self.backend(), self.container()) {
            (Backend::Container(_), _) | (_, None) => Ok(None),
            (_, Some(container)) => container.read_file(path, most).await,
        }
    }

    /// Whether it is running. Once it has exited, its log is complete.
    ///
    /// # Errors
    ///
    /// `missing` if Docker no longer answers.
    pub async fn state(&self) -> Result<State> {
        let state = match self.backend() {
            Backend::Container(container)
            | Backend::Attached(Attached {
                container: Some(container),
                ..
            }) => container.state().await?,
            Backend::Process(process) => process.state(),
            Backend::Inside(inside) => inside.state(),
            Backend::Attached(Attached { container: None, .. }) => State::Running,
            Backend::InProcess(sim) => match sim.state() {
                sim::ProcessState::Exited(exit) => State::Exited(exit.into()),
                sim::ProcessState::Starting | sim::ProcessState::Ready => State::Running,
            },
        };
        if state.exit().is_some() {
            self.note_end().await;
        }
        Ok(state)
    }

    /// Whether it is known to have ended. For a container, this is known after [`Service::state`] was called.
    pub(super) fn has_ended(&self) -> bool {
        let exited = matches!(self.backend(), Backend::Process(process) if process.state().exit().is_some());
        exited || self.ended.load(Ordering::Relaxed)
    }

    /// Whether it is a process that has exited with all its descendants.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self.backend(), Backend::Process(process) if process.state().exit().is_some() && process.pids().is_empty())
    }

    /// Waits at most a second for the last lines: a grandchild may hold the pipe open.
    async fn note_end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        if self.sim().is_some() {
            // It logs everything before it exits.
            self.logs().end();
        }
        let _ = tokio::time::timeout(Duration::from_secs(1), self.logs().wait_end()).await;
    }

    /// Waits until it exits. A server attached by URL never does.
    pub async fn wait_exit(&self) -> Result<Exit> {
        let exit = match self.backend() {
            Backend::Container(container)
            | Backend::Attached(Attached {
                container: Some(container),
                ..
            }) => container.wait_exit().await?,
            Backend::Process(process) => process.wait().await,
            Backend::Inside(inside) => inside.wait().await,
            Backend::Attached(Attached { container: None, .. }) => std::future::pending().await,
            Backend::InProcess(sim) => sim.wait_exited().await.into(),
        };
        self.note_end().await;
        Ok(exit)
    }

    /// Sends SIGTERM, then SIGKILL after `grace`, and removes the container. Does nothing if already stopped, or if
    /// this run did not start the server.
    pub async fn stop(&self, grace: Duration) -> Result<()> {
        self.ended.store(true, Ordering::Relaxed);
        match self.backend() {
            Backend::Container(container) => container.stop(grace).await,
            Backend::Process(process) => process.stop(grace).await,
            Backend::Inside(inside) => inside.stop(grace).await,
            Backend::Attached(..) => Ok(()),
            Backend::InProcess(sim) => {
                sim.stop(grace).await;
                self.logs().end();
                Ok(())
            }
        }
    }

    /// The simulated engine, if it is one; read by telemetry.
    pub fn sim(&self) -> Option<&SimHandle> {
        match self.backend() {
            Backend::InProcess(sim) => Some(sim),
            _ => None,
        }
    }

    /// Runs a command inside a server of this run until it exits. If this program is killed, the command ends with the
    /// server. Containers that this run did not start are refused, because there nothing would end the command.
    ///
    /// # Errors
    ///
    /// `usage` if the runtime does not support it.
    pub async fn exec(&self, command: &[String]) -> Result<ExecOutput> {
        if command.is_empty() {
            return Err(Fault::usage("`exec` needs a command"));
        }
        let env = BTreeMap::new();
        let done = match self.backend() {
            Backend::Process(process) => process.exec(command, &env, false).await?,
            Backend::Container(container) => container.exec(command, &env, false).await?,
            Backend::Inside(_) | Backend::Attached(..) | Backend::InProcess(_) => return Err(self.no_exec()),
        };
        Ok(done.into())
    }

    fn no_exec(&self) -> Fault {
        let why = match self.backend() {
            Backend::Inside(inside) => format!(
                "`exec` runs nothing in the container `{}`, which this run did not start",
                inside.container().name()
            ),
            _ => format!("the runtime `{}` does not support `exec`", self.kind()),
        };
        Fault::usage(why).hint("use the docker runtime")
    }

    /// The container that probes may run in.
    fn container_for_probes(&self) -> Result<&Container> {
        match self.backend() {
            Backend::Container(container) => Ok(container),
            // Its start had the permission.
            Backend::Inside(inside) => Ok(inside.container()),
            Backend::Attached(Attached {
                container: Some(container),
                permits,
            }) => {
                permits.check_exec(container.name())?;
                Ok(container)
            }
            Backend::Attached(Attached { container: None, .. }) => {
                Err(Fault::usage("a probe inside the engine needs a container, not a URL")
                    .hint("attach to the container by its name"))
            }
            Backend::Process(_) | Backend::InProcess(_) => Err(self.no_exec()),
        }
    }

    /// The container that it runs in, started by this run or attached.
    fn container(&self) -> Option<&Container> {
        match self.backend() {
            Backend::Container(container)
            | Backend::Attached(Attached {
                container: Some(container),
                ..
            }) => Some(container),
            Backend::Inside(inside) => Some(inside.container()),
            _ => None,
        }
    }

    /// Its pids on this host. Empty if they are not visible.
    pub async fn pids(&self) -> Result<Vec<u32>> {
        match self.backend() {
            Backend::Process(process) => Ok(process.pids()),
            Backend::Inside(inside) => inside.pids().await,
            Backend::InProcess(_) => Ok(vec![std::process::id()]),
            Backend::Container(_) | Backend::Attached(..) => match self.container() {
                Some(container) => container.pids().await,
                None => Ok(Vec::new()),
            },
        }
    }

    /// Folder of its memory cgroup (with `memory.current` or `memory.usage_in_bytes`), if it has its own.
    pub async fn cgroup(&self) -> Result<Option<PathBuf>> {
        match self.container() {
            Some(container) => container.cgroup().await,
            None => Ok(None),
        }
    }
}

impl From<sim::Exit> for Exit {
    fn from(exit: sim::Exit) -> Self {
        Self {
            code: Some(exit.code.into()),
            oom_killed: exit.oom_killed,
            ..Self::default()
        }
    }
}

/// Enforces the timeout, exits when standard input is closed, and removes secrets from the environment.
const GUARD: &str = include_str!("guard.py");
/// Keeps a container or process alive without doing anything.
const IDLE_PROGRAM: &str = "import signal; signal.pause()";
/// Time that the guard itself may take beyond the program's timeout.
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
    /// `timeout` if it runs too long; `missing` if the interpreter cannot be run; `usage` if the runtime does not
    /// support it; `not_allowed` in a container that this run did not start.
    pub async fn run_program(&self, program: &Program) -> Result<Captured> {
        let timeout = program.timeout;
        let time = Duration::try_from_secs_f64(timeout)
            .map_err(|_| Fault::usage(format!("option `timeout` is {timeout}, not a number of seconds")))?;
        let named = program.python.clone();
        let python = named.or_else(|| match self.backend() {
            Backend::Process(process) => process.python(),
            _ => None,
        });
        let python = python.unwrap_or_else(|| "python3".to_owned());
        let command = |folder: &str| {
            let guard = ["-c", GUARD, &program.timeout.to_string(), folder, &python].map(str::to_owned);
            let file = format!("{folder}/{}", program.file);
            let words = std::iter::once(python.clone()).chain(guard).chain([file]);
            words.chain(program.args.iter().cloned()).collect::<Vec<String>>()
        };
        let limit = time + GUARD_OVERHEAD;
        let captured = match self.backend() {
            Backend::Process(process) => {
                let folder = launch::temp_folder(&program.files)?;
                let folder = folder.ok_or_else(|| Fault::internal("a probe without files"))?;
                let command = command(&folder.path().to_string_lossy());
                tokio::time::timeout(limit, process.exec(&command, &program.env, true)).await
            }
            _ => {
                let container = self.container_for_probes()?;
                // Removed by the guard.
                let command = command(&container.upload_files(&folder_name(), &program.files).await?);
                tokio::time::timeout(limit, container.exec(&command, &program.env, true)).await
            }
        };
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

/// The launch with an idle program in place of the server: same image, devices and folders.
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

/// A unique name, so that concurrent probes do not remove each other's files.
fn folder_name() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("profiler-probe-{}-{number}", std::process::id())
}

fn timed_out(program: &Program, captured: &Captured) -> Fault {
    let said = match captured.stderr_tail(5) {
        words if words.is_empty() => String::new(),
        words => format!("; its last output: {words}"),
    };
    let message = format!(
        "the probe `{}` was ended after {} s{said}",
        program.file, program.timeout
    );
    Fault::new(Kind::Timeout, message).hint("give it more time with the option `timeout`")
}

/// The text of a failure. Docker reports its own failures on standard output.
fn error_text(captured: &Captured) -> String {
    match captured.stderr_tail(3) {
        words if words.is_empty() => String::from_utf8_lossy(&captured.stdout).trim().to_owned(),
        words => words,
    }
}
