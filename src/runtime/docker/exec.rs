//! A command inside a container.

use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use futures_util::StreamExt;

use super::{Inside, fault};
use crate::fault::Result;
use crate::runtime::ExecOutput;
use crate::runtime::exec_output::Collected;

impl Inside {
    /// Runs a command to its end, with the rights of the container and no more.
    pub(in crate::runtime) async fn exec(&self, command: &[String]) -> Result<ExecOutput> {
        let options = CreateExecOptions {
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(command.to_vec()),
            ..CreateExecOptions::default()
        };
        let created = self
            .docker
            .create_exec(&self.id, options)
            .await
            .map_err(|error| fault::explain(&error))?;
        let started = self
            .docker
            .start_exec(&created.id, None::<StartExecOptions>)
            .await
            .map_err(|error| fault::explain(&error))?;
        let mut collected = Collected::default();
        if let StartExecResults::Attached { mut output, .. } = started {
            while let Some(piece) = output.next().await {
                collected.push(piece.map_err(|error| fault::explain(&error))?.as_ref());
            }
        }
        let ended = self
            .docker
            .inspect_exec(&created.id)
            .await
            .map_err(|error| fault::explain(&error))?;
        Ok(collected.output(ended.exit_code))
    }
}
