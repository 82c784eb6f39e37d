//! A second program beside a native server: with its environment and its mark, so that it ends with it.

use std::process::Stdio;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::Command;

use super::{Process, spawn};
use crate::fault::{Fault, Kind, Result};
use crate::runtime::ExecOutput;
use crate::runtime::exec_output::Collected;

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
}
