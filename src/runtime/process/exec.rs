//! Runs another program next to a native server, with the same environment, so that it is stopped together with it.

use std::collections::BTreeMap;
use std::process::Stdio;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe;
use tokio::process::Command;

use super::{Process, spawn, tree};
use crate::fault::{Fault, Kind, Result};
use crate::runtime::exec_output::OutputBuffer;
use crate::runtime::{Captured, ExecOutput};

impl Process {
    pub(in crate::runtime) async fn exec(&self, command: &[String]) -> Result<ExecOutput> {
        let (program, args) = command
            .split_first()
            .ok_or_else(|| Fault::usage("`exec` needs a command"))?;
        let (reader, writer) = std::io::pipe().map_err(|error| spawn::pipe_error(&error))?;
        let mut child = Command::new(program);
        child
            .args(args)
            .envs(&self.env)
            .stdin(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        for name in crate::runtime::credentials::TOKEN_VARIABLES {
            child.env_remove(name);
        }
        child
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
        let (program, args) = command
            .split_first()
            .ok_or_else(|| Fault::usage("a probe needs an interpreter"))?;
        let mut child = Command::new(program);
        child
            .args(args)
            .envs(&self.env)
            .envs(env)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for name in crate::runtime::credentials::TOKEN_VARIABLES {
            child.env_remove(name);
        }
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
