//! A command inside a container, and files for it.

use std::collections::BTreeMap;

use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::query_parameters::UploadToContainerOptionsBuilder;
use futures_util::StreamExt;

use super::{Inside, fault};
use crate::fault::Result;
use crate::runtime::exec_output::Collected;
use crate::runtime::{Captured, ExecOutput, files};

impl Inside {
    /// Runs a command to its end, with the rights of the container and no more.
    pub(in crate::runtime) async fn exec(&self, command: &[String]) -> Result<ExecOutput> {
        let options = CreateExecOptions {
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(command.to_vec()),
            ..CreateExecOptions::default()
        };
        let (id, started) = self.begin(options).await?;
        let mut collected = Collected::default();
        if let StartExecResults::Attached { mut output, .. } = started {
            while let Some(piece) = output.next().await {
                collected.push(piece.map_err(|error| fault::explain(&error))?.as_ref());
            }
        }
        Ok(collected.output(self.status(&id).await?))
    }

    /// Runs a command to its end, its streams apart. Its standard input ends when nobody waits any more.
    pub(in crate::runtime) async fn capture(
        &self,
        command: &[String],
        env: &BTreeMap<String, String>,
    ) -> Result<Captured> {
        let options = CreateExecOptions {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            env: Some(env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
            cmd: Some(command.to_vec()),
            ..CreateExecOptions::default()
        };
        let (id, started) = self.begin(options).await?;
        let mut captured = Captured::default();
        if let StartExecResults::Attached { mut output, input } = started {
            while let Some(piece) = output.next().await {
                match piece.map_err(|error| fault::explain(&error))? {
                    LogOutput::StdErr { message } => captured.err(&message),
                    other => captured.out(other.as_ref()),
                }
            }
            drop(input);
        }
        captured.code = self.status(&id).await?;
        Ok(captured)
    }

    /// Begins a command; gives its id, and its streams.
    async fn begin(&self, options: CreateExecOptions<String>) -> Result<(String, StartExecResults)> {
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
        Ok((created.id, started))
    }

    /// The exit status of a command that ended, where the daemon tells one.
    async fn status(&self, id: &str) -> Result<Option<i64>> {
        let ended = self.docker.inspect_exec(id).await;
        Ok(ended.map_err(|error| fault::explain(&error))?.exit_code)
    }

    /// Puts files into a new folder of the container's root, and gives its path.
    pub(in crate::runtime) async fn place(&self, folder: &str, texts: &BTreeMap<String, String>) -> Result<String> {
        let options = UploadToContainerOptionsBuilder::default().path("/").build();
        let archive = bollard::body_full(files::archive(folder, texts)?);
        self.docker
            .upload_to_container(&self.id, Some(options), archive)
            .await
            .map_err(|error| fault::explain(&error).while_doing("cannot copy the probe into the container"))?;
        Ok(format!("/{folder}"))
    }
}
