//! A small process above each native process, and one above the containers of a run. It ends everything below it as
//! soon as this program is gone, even if it was killed.
//!
//! It is this program with the hidden command `supervise` (`supervise.rs`). Its standard input is a socket: it receives
//! an order and sends reports, and the end of the input means that this program is gone or wants everything to end.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncBufReadExt;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::launch::TOKEN_VARIABLES;
use super::process_tree;
use super::state::{EndedBy, Exit};
use crate::fault::{Fault, Result};
use crate::own_program;

/// The task of a supervisor.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    Command(Work),
    /// Containers and networks with the labels of this run and host, at the daemon with this address.
    Containers(String, String, String),
}

/// A command to run.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Work {
    pub(super) command: Vec<String>,
    /// Added to this program's environment without the token.
    pub(super) env: BTreeMap<String, String>,
    /// Whether its standard input is held open until the end instead of being empty.
    pub(super) holds_stdin: bool,
    /// A folder to remove when everything has ended.
    pub(super) folder: Option<PathBuf>,
    /// Taken out of the environment.
    #[serde(default)]
    pub(super) without: Vec<String>,
    /// The file that is its standard input, unless that is held open.
    #[serde(default)]
    pub(super) stdin: Option<PathBuf>,
    /// The folder that it runs in.
    #[serde(default)]
    pub(super) current: Option<PathBuf>,
    #[serde(default)]
    pub(super) limits: Limits,
}

/// Limits of the kernel on each process of a command.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory of its own.
    pub memory: Option<u64>,
    /// Bytes of a file that it writes.
    pub file: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    Started(u32),
    /// Carries the system's error number.
    NotStarted(i32),
    Exited(Exit),
}

/// Sent if nothing is left to end.
pub(super) const DONE: &[u8] = b"done\n";

/// A running supervisor. When dropped, it ends everything below it.
pub(super) struct Supervisor {
    pid: u32,
    socket: UnixStream,
    gone: CancellationToken,
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.end();
    }
}

impl Supervisor {
    /// Starts a supervisor of the containers of this run and host at the daemon with this address.
    pub(super) fn of_containers(run: &str, host: String, address: String) -> Result<Self> {
        let order = Order::Containers(run.to_owned(), host, address);
        let (supervisor, mut child) = Self::spawn(&order, Stdio::null(), Stdio::null())?;
        let gone = supervisor.gone.clone();
        tokio::spawn(async move {
            let _ = child.wait().await;
            gone.cancel();
        });
        Ok(supervisor)
    }

    fn spawn(order: &Order, stdout: Stdio, stderr: Stdio) -> Result<(Self, tokio::process::Child)> {
        let failed = |error: io::Error| Fault::no_process("supervisor", &error);
        let program = own_program::get()
            .ok_or_else(|| Fault::internal("no program that supervises: `own_program::set` was not called"))?;
        let (mut socket, theirs) = UnixStream::pair().map_err(failed)?;
        let mut command = tokio::process::Command::new(program);
        command
            .arg0("profiler")
            .arg("supervise")
            .stdin(OwnedFd::from(theirs))
            .stdout(stdout)
            .stderr(stderr)
            // This program passes on the signals of the terminal.
            .process_group(0);
        for name in TOKEN_VARIABLES {
            command.env_remove(name);
        }
        let child = command.spawn().map_err(failed)?;
        let mut line = serde_json::to_vec(order).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        socket.write_all(&line).map_err(failed)?;
        let supervisor = Self {
            pid: child.id().unwrap_or_default(),
            socket,
            gone: CancellationToken::new(),
        };
        Ok((supervisor, child))
    }

    /// Ends everything below it. Returns at once.
    pub(super) fn end(&self) {
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Ends the supervisor, because nothing is left that it had to end.
    pub(super) fn dismiss(&self) {
        let _ = (&self.socket).write_all(DONE);
    }
}

/// A command below its own supervisor.
pub(super) struct Supervised {
    /// The pid of the command itself.
    pub(super) pid: u32,
    /// The exit status of the command.
    pub(super) exit: watch::Receiver<Option<Exit>>,
    supervisor: Supervisor,
}

impl Supervised {
    /// Starts a command with these output streams. Fails with the system's error.
    pub(super) async fn start(
        work: Work,
        stdout: Stdio,
        stderr: Stdio,
    ) -> Result<std::result::Result<Self, io::Error>> {
        let (supervisor, child) = Supervisor::spawn(&Order::Command(work), stdout, stderr)?;
        let failed = |error: io::Error| Fault::internal(format!("the supervisor of a process: {error}"));
        let socket = supervisor.socket.try_clone().map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let socket = tokio::net::UnixStream::from_std(socket).map_err(failed)?;
        let mut reports = tokio::io::BufReader::new(socket).lines();
        let first = reports.next_line().await.map_err(failed)?.unwrap_or_default();
        let pid = match serde_json::from_str(&first) {
            Ok(Report::Started(pid)) => pid,
            Ok(Report::NotStarted(error)) => return Ok(Err(io::Error::from_raw_os_error(error))),
            _ => return Err(Fault::internal("the supervisor of a process ended at once")),
        };
        let (sender, exit) = watch::channel(None);
        tokio::spawn(follow(reports, child, pid, sender, supervisor.gone.clone()));
        Ok(Ok(Self { pid, exit, supervisor }))
    }

    /// Cancelled when none of its processes runs any more.
    pub(super) fn gone(&self) -> &CancellationToken {
        &self.supervisor.gone
    }

    /// All its running processes, the command itself first.
    pub(super) fn pids(&self) -> Vec<u32> {
        if self.gone().is_cancelled() {
            return Vec::new();
        }
        let mut pids = process_tree::below(self.supervisor.pid);
        pids.sort_unstable_by_key(|&pid| (pid != self.pid, pid));
        pids
    }

    /// Kills everything. Returns at once.
    pub(super) fn end(&self) {
        self.supervisor.end();
    }

    /// Leaves what still runs to itself.
    pub(super) fn dismiss(&self) {
        self.supervisor.dismiss();
    }
}

type Lines = tokio::io::Lines<tokio::io::BufReader<tokio::net::UnixStream>>;

/// Follows the reports of a supervisor until it is gone.
async fn follow(
    mut reports: Lines,
    mut child: tokio::process::Child,
    pid: u32,
    sender: watch::Sender<Option<Exit>>,
    gone: CancellationToken,
) {
    while let Ok(Some(line)) = reports.next_line().await {
        if let Ok(Report::Exited(exit)) = serde_json::from_str(&line) {
            sender.send_replace(Some(exit));
        }
    }
    let _ = child.wait().await;
    if sender.borrow().is_none() {
        // The supervisor was killed.
        let _ = killpg(as_pid(pid), Signal::SIGKILL);
        sender.send_replace(Some(Exit {
            finished_at: Some(jiff::Timestamp::now().to_string()),
            ended_by: Some(EndedBy::Process(Signal::SIGKILL as i32)),
            ..Exit::default()
        }));
    }
    gone.cancel();
}

pub(super) fn as_pid(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX))
}
