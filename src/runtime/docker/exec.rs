//! Runs commands in a container, and puts files into it.

use std::collections::BTreeMap;

use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::query_parameters::UploadToContainerOptionsBuilder;
use futures_util::StreamExt;

use super::{ContainerClient, daemon};
use crate::fault::Result;
use crate::runtime::output::OutputBuffer;
use crate::runtime::{Captured, ExecOutput, launch};

impl ContainerClient {
    /// Runs a command until it exits.
    pub(in crate::runtime) async fn exec(&self, command: &[String]) -> Result<ExecOutput> {
        let options = CreateExecOptions {
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(command.to_vec()),
            ..CreateExecOptions::default()
        };
        let (id, started) = self.start_exec(options).await?;
        let mut buffer = OutputBuffer::default();
        if let StartExecResults::Attached { mut output, .. } = started {
            while let Some(chunk) = output.next().await {
                buffer.push(chunk.map_err(|error| daemon::explain(&error))?.as_ref());
            }
        }
        Ok(buffer.finish(self.exit_code(&id).await?))
    }

    /// Runs a command until it exits, with separate output streams. Its standard input closes when the caller is
    /// gone.
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
        let (id, started) = self.start_exec(options).await?;
        let mut captured = Captured::default();
        if let StartExecResults::Attached { mut output, input } = started {
            while let Some(chunk) = output.next().await {
                match chunk.map_err(|error| daemon::explain(&error))? {
                    LogOutput::StdErr { message } => captured.push_stderr(&message),
                    other => captured.push_stdout(other.as_ref()),
                }
            }
            drop(input);
        }
        captured.code = self.exit_code(&id).await?;
        Ok(captured)
    }

    /// Starts a command; returns its id and streams.
    async fn start_exec(&self, options: CreateExecOptions<String>) -> Result<(String, StartExecResults)> {
        let created = self
            .docker
            .create_exec(&self.id, options)
            .await
            .map_err(|error| daemon::explain(&error))?;
        let started = self
            .docker
            .start_exec(&created.id, None::<StartExecOptions>)
            .await
            .map_err(|error| daemon::explain(&error))?;
        Ok((created.id, started))
    }

    /// Exit code of a finished command, if the daemon reports one.
    async fn exit_code(&self, id: &str) -> Result<Option<i64>> {
        let ended = self.docker.inspect_exec(id).await;
        Ok(ended.map_err(|error| daemon::explain(&error))?.exit_code)
    }

    /// Puts files into a new folder and returns its path.
    pub(in crate::runtime) async fn upload_files(
        &self,
        folder: &str,
        texts: &BTreeMap<String, String>,
    ) -> Result<String> {
        let parent = match self.read_only {
            true => launch::container_path(),
            false => String::new(),
        };
        let path = format!("{parent}/");
        let options = UploadToContainerOptionsBuilder::default().path(&path).build();
        let archive = bollard::body_full(launch::archive(folder, texts)?);
        self.docker
            .upload_to_container(&self.id, Some(options), archive)
            .await
            .map_err(|error| daemon::explain(&error).while_doing("cannot copy the probe into the container"))?;
        Ok(format!("{parent}/{folder}"))
    }
}
