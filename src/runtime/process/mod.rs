//! Native processes: started below a supervisor, with an environment variable, and stopped with all descendants; and
//! what is known of any process and those below it.

mod spawn;

pub(super) use spawn::start;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use super::output::OutputBuffer;
use super::supervisor::{Supervised, Work};
use super::{Captured, ExecOutput, Exit, State};
use crate::fault::{Fault, Result};
use crate::task::lock;

/// Id of the run, in the environment of everything it starts.
pub(super) const RUN_VARIABLE: &str = "PROFILER_RUN";

/// Time for the kernel to end a killed process (it may be writing a core dump or waiting for a disk).
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Process {
    root: Supervised,
    /// Commands that ended and left something running.
    left: Mutex<Vec<Supervised>>,
    env: BTreeMap<String, String>,
    force_kill: CancellationToken,
}

impl Process {
    pub(super) fn state(&self) -> State {
        self.root.exit().borrow().clone().map_or(State::Running, State::Exited)
    }

    pub(super) async fn wait(&self) -> Exit {
        exit_of(&self.root).await
    }

    /// All that runs of it, its first process first.
    pub(super) fn pids(&self) -> Vec<u32> {
        let mut pids = self.root.pids();
        pids.extend(self.left().iter().flat_map(Supervised::pids));
        pids
    }

    /// Stops the whole process tree: SIGTERM, then SIGKILL after `grace` or when stopping is forced.
    pub(super) async fn stop(&self, grace: Duration) -> Result<()> {
        signal(&self.pids(), Signal::SIGTERM);
        tokio::select! {
            () = self.all_exited() => {}
            () = tokio::time::sleep(grace) => {}
            () = self.force_kill.cancelled() => {}
        }
        self.kill();
        let killed = tokio::time::timeout(KILL_TIMEOUT, self.all_exited()).await;
        killed.map_err(|_| Fault::internal(format!("processes {:?} do not exit after SIGKILL", self.pids())))
    }

    /// Kills the whole process tree. Returns at once.
    pub(super) fn kill(&self) {
        self.root.end();
        self.left().iter().for_each(Supervised::end);
    }

    async fn all_exited(&self) {
        let left: Vec<_> = self.left().iter().map(|command| command.gone().clone()).collect();
        for gone in left.iter().chain([self.root.gone()]) {
            gone.cancelled().await;
        }
    }

    fn left(&self) -> MutexGuard<'_, Vec<Supervised>> {
        lock(&self.left)
    }
}

impl Process {
    pub(in crate::runtime) async fn exec(&self, command: &[String]) -> Result<ExecOutput> {
        let (mut reader, stdout, stderr) = spawn::pipe()?;
        let command = self.start(command, &BTreeMap::new(), false, stdout, stderr).await?;
        let mut output = OutputBuffer::default();
        read_stream(&mut reader, |bytes| output.push(bytes)).await;
        Ok(output.finish(self.end(command).await))
    }

    /// Runs a command until it exits, with separate output streams. Its standard input closes when the caller is
    /// gone.
    pub(in crate::runtime) async fn capture(
        &self,
        command: &[String],
        env: &BTreeMap<String, String>,
    ) -> Result<Captured> {
        let ((mut out, stdout, _), (mut err, stderr, _)) = (spawn::pipe()?, spawn::pipe()?);
        let command = self.start(command, env, true, stdout, stderr).await?;
        let (mut first, mut second) = (Captured::default(), Captured::default());
        tokio::join!(
            read_stream(&mut out, |bytes| first.push_stdout(bytes)),
            read_stream(&mut err, |bytes| second.push_stderr(bytes))
        );
        Ok(Captured {
            code: self.end(command).await,
            stderr: second.stderr,
            ..first
        })
    }

    /// Starts a command with the server's environment and `env`, without the token.
    async fn start(
        &self,
        command: &[String],
        env: &BTreeMap<String, String>,
        holds_stdin: bool,
        stdout: Stdio,
        stderr: Stdio,
    ) -> Result<Supervised> {
        let own = self.env.iter().chain(env);
        let work = Work {
            command: command.to_vec(),
            env: own.map(|(name, value)| (name.clone(), value.clone())).collect(),
            holds_stdin,
            folder: None,
        };
        spawn::supervised(work, stdout, stderr).await
    }

    /// Waits for the end of a command; what it left running ends with the server.
    async fn end(&self, command: Supervised) -> Option<i64> {
        let exit = exit_of(&command).await;
        if !command.pids().is_empty() {
            self.left().push(command);
        }
        exit.code
    }

    /// The Python interpreter of the server as it was called (a virtual environment is found by that name), if any.
    pub(in crate::runtime) fn python(&self) -> Option<String> {
        let program = command_line(self.root.pid())?.into_iter().next()?;
        let name = program.rsplit('/').next().unwrap_or(&program);
        name.starts_with("python").then_some(program)
    }
}

async fn exit_of(command: &Supervised) -> Exit {
    match command.exit().wait_for(Option::is_some).await {
        Ok(exit) => exit.clone().unwrap_or_default(),
        Err(_) => Exit::default(),
    }
}

async fn read_stream(stream: &mut pipe::Receiver, mut take: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        take(&buffer[..count]);
    }
}

/// The running processes that descend from `root`, without itself.
pub(in crate::runtime) fn below(root: u32) -> Vec<u32> {
    let all = list();
    let mut found = HashSet::from([root]);
    // Add children until nothing changes.
    loop {
        let before = found.len();
        let children = all.iter().filter(|(_, parent)| found.contains(parent));
        let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
        found.extend(children);
        if found.len() == before {
            break;
        }
    }
    found.remove(&root);
    found.into_iter().collect()
}

/// Sends a signal to each; processes that have exited are ignored.
pub(in crate::runtime) fn signal(pids: &[u32], signal: Signal) {
    for &pid in pids {
        if let Ok(pid) = i32::try_from(pid) {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

pub(in crate::runtime) fn command_line(pid: u32) -> Option<Vec<String>> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = words.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// Pid and parent of all running processes.
fn list() -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}

fn stat(pid: u32) -> Option<(u32, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    // Zombies count as dead; only their parent can remove them.
    (!matches!(fields.next()?, "Z" | "X")).then_some(())?;
    Some((pid, fields.next()?.parse().ok()?))
}
