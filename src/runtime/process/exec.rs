//! A second program beside a native server: with its environment and its mark, so that it ends with it.

use std::collections::BTreeMap;
use std::process::Stdio;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe;
use tokio::process::Command;

use super::{Process, spawn, tree};
use crate::fault::{Fault, Kind, Result};
use crate::runtime::exec_output::Collected;
use crate::runtime::{Captured, ExecOutput};

impl Process {
    pub(in crate::runtime) async fn exec(&self, command: &[String]) -> Result<ExecOutput> {
        let (program, args) = command
            .split_first()
            .ok_or_else(|| Fault::usage("`exec` needs a command"))?;
        let (reader, writer) = std::io::pipe().map_err(|error| spawn::no_pipe(&error))?;
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
            .stderr(writer.try_clone().map_err(|error| spawn::no_pipe(&error))?)
            .stdout(writer);
        let mut running = child.spawn().map_err(|error| spawn::cannot_spawn(program, &error))?;
        // Our copies of the pipe's end would keep it open for ever.
        drop(child);
        let mut reader = pipe::Receiver::from_owned_fd(reader.into()).map_err(|error| spawn::no_pipe(&error))?;
        let mut collected = Collected::default();
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = reader.read(&mut buffer).await {
            collected.push(&buffer[..count]);
        }
        let status = running
            .wait()
            .await
            .map_err(|error| Fault::new(Kind::Io, format!("`{program}`: {error}")))?;
        Ok(collected.output(spawn::code(status)))
    }
    /// Runs a command to its end, its streams apart. Its standard input ends when nobody waits any more.
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
        let mut running = child.spawn().map_err(|error| spawn::cannot_spawn(program, &error))?;
        let held = running.stdin.take();
        let (out, err) = (running.stdout.take(), running.stderr.take());
        let (mut first, mut second) = (Captured::default(), Captured::default());
        tokio::join!(
            pump(out, |bytes| first.out(bytes)),
            pump(err, |bytes| second.err(bytes))
        );
        let status = running
            .wait()
            .await
            .map_err(|error| Fault::new(Kind::Io, format!("`{program}`: {error}")))?;
        drop(held);
        Ok(Captured {
            code: spawn::code(status),
            stderr: second.stderr,
            ..first
        })
    }

    /// The interpreter that the server runs in, as it was called (a virtual environment is found by that name), if it is a Python.
    pub(in crate::runtime) fn python(&self) -> Option<String> {
        let program = tree::command(self.root.pid)?.into_iter().next()?;
        let name = program.rsplit('/').next().unwrap_or(&program);
        name.starts_with("python").then_some(program)
    }
}

async fn pump(stream: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&[u8])) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        take(&buffer[..count]);
    }
}
