//! Native processes: started in their own process group with an environment variable, stopped with all descendants.

mod oom_watch;
mod spawn;
pub(super) mod tree;

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::output::OutputBuffer;
use super::{Captured, ExecOutput};
use super::{Exit, State};
use crate::fault::{Fault, Kind, Result};

pub(super) use spawn::start;

/// Id of the run, in the environment of everything it starts.
pub(super) const RUN_VARIABLE: &str = "PROFILER_RUN";
/// Owner of the process; see `ProcessIdentity::encode`.
pub(super) const HOST_VARIABLE: &str = "PROFILER_HOST";
/// One server of one host process.
pub(super) const SERVICE_VARIABLE: &str = "PROFILER_SERVICE";

/// Descendants are not our children, so their exit has to be polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Time for the kernel to end a killed process (it may be writing a core dump or waiting for a disk).
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Process {
    service_id: String,
    root: tree::Root,
    env: BTreeMap<String, String>,
    exit: watch::Receiver<Option<Exit>>,
    force_kill: CancellationToken,
    // Temporary folder, removed with the process.
    _files: Option<tempfile::TempDir>,
}

impl Process {
    pub(super) fn state(&self) -> State {
        self.exit.borrow().clone().map_or(State::Running, State::Exited)
    }

    pub(super) async fn wait(&self) -> Exit {
        let mut exit = self.exit.clone();
        match exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.clone().unwrap_or_default(),
            Err(_) => Exit::default(),
        }
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        tree::members(&self.service_id, self.root)
    }

    /// Stops the whole process tree: SIGTERM, then SIGKILL after `grace` or when stopping is forced.
    pub(super) async fn stop(&self, grace: Duration) -> Result<()> {
        tree::signal(&self.pids(), Signal::SIGTERM);
        tokio::select! {
            () = self.all_exited() => {}
            () = tokio::time::sleep(grace) => {}
            () = self.force_kill.cancelled() => {}
        }
        let deadline = Instant::now() + KILL_TIMEOUT;
        loop {
            // Listed again each time: a dying tree may still fork.
            let remaining = self.pids();
            if remaining.is_empty() {
                break;
            }
            if Instant::now() > deadline {
                return Err(Fault::internal(format!(
                    "processes {remaining:?} do not exit after SIGKILL"
                )));
            }
            tree::signal(&remaining, Signal::SIGKILL);
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.wait().await;
        Ok(())
    }

    async fn all_exited(&self) {
        while !self.pids().is_empty() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

impl Process {
    pub(in crate::runtime) async fn exec(&self, command: &[String]) -> Result<ExecOutput> {
        let (reader, writer) = std::io::pipe().map_err(|error| spawn::pipe_error(&error))?;
        let (mut child, program) = self.command(command, &BTreeMap::new())?;
        child
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .stderr(writer.try_clone().map_err(|error| spawn::pipe_error(&error))?)
            .stdout(writer);
        let mut running = child.spawn().map_err(|error| spawn::spawn_error(program, &error))?;
        // Our copy of the pipe's write end would keep it open.
        drop(child);
        let mut reader = pipe::Receiver::from_owned_fd(reader.into()).map_err(|error| spawn::pipe_error(&error))?;
        let mut output = OutputBuffer::default();
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = reader.read(&mut buffer).await {
            output.push(&buffer[..count]);
        }
        let status = running
            .wait()
            .await
            .map_err(|error| Fault::new(Kind::Io, format!("`{program}`: {error}")))?;
        Ok(output.finish(spawn::exit_code(status)))
    }

    /// Runs a command until it exits, with separate output streams. Its standard input closes when the caller is
    /// gone.
    pub(in crate::runtime) async fn capture(
        &self,
        command: &[String],
        env: &BTreeMap<String, String>,
    ) -> Result<Captured> {
        let (mut child, program) = self.command(command, env)?;
        child
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut running = child.spawn().map_err(|error| spawn::spawn_error(program, &error))?;
        let stdin = running.stdin.take();
        let (out, err) = (running.stdout.take(), running.stderr.take());
        let (mut first, mut second) = (Captured::default(), Captured::default());
        tokio::join!(
            read_stream(out, |bytes| first.push_stdout(bytes)),
            read_stream(err, |bytes| second.push_stderr(bytes))
        );
        let status = running
            .wait()
            .await
            .map_err(|error| Fault::new(Kind::Io, format!("`{program}`: {error}")))?;
        drop(stdin);
        Ok(Captured {
            code: spawn::exit_code(status),
            stderr: second.stderr,
            ..first
        })
    }

    /// A command with the server's environment and `env`, without the token, in its own process group; and its program.
    fn command<'a>(&self, command: &'a [String], env: &BTreeMap<String, String>) -> Result<(Command, &'a str)> {
        let (program, args) = command
            .split_first()
            .ok_or_else(|| Fault::usage("a command needs a program"))?;
        let mut child = Command::new(program);
        child.args(args).envs(&self.env).envs(env).process_group(0);
        for name in crate::runtime::launch::TOKEN_VARIABLES {
            child.env_remove(name);
        }
        Ok((child, program))
    }

    /// The Python interpreter of the server as it was called (a virtual environment is found by that name), if any.
    pub(in crate::runtime) fn python(&self) -> Option<String> {
        let program = tree::command_line(self.root.pid)?.into_iter().next()?;
        let name = program.rsplit('/').next().unwrap_or(&program);
        name.starts_with("python").then_some(program)
    }
}

async fn read_stream(stream: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&[u8])) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        take(&buffer[..count]);
    }
}
