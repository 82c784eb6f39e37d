//! Runs commands in a container, and copies files into and out of it as tar archives.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::query_parameters::{DownloadFromContainerOptionsBuilder, UploadToContainerOptionsBuilder};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use super::{ContainerClient, daemon};
use crate::fault::{Fault, Result};
use crate::run::Run;
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

const CHUNK_BYTES: usize = 256 * 1024;

impl ContainerClient {
    /// Copies `from` of the host into the existing folder `to` of the container.
    pub(in crate::runtime) async fn copy_in(&self, from: &Path, to: &str) -> Result<()> {
        let source = from.to_owned();
        let archive = blocking(move || pack(&source))
            .await
            .map_err(|error| Fault::io(from, &error))?;
        let file = tokio::fs::File::from_std(archive);
        let chunks = stream::try_unfold(file, |mut file| async move {
            let mut chunk = vec![0; CHUNK_BYTES];
            let count = file.read(&mut chunk).await?;
            chunk.truncate(count);
            Ok::<_, io::Error>((count > 0).then(|| (Bytes::from(chunk), file)))
        });
        let options = UploadToContainerOptionsBuilder::default().path(to).build();
        self.docker
            .upload_to_container(&self.id, Some(options), bollard::body_try_stream(chunks))
            .await
            .map_err(|error| daemon::explain(&error).while_doing(format!("cannot copy to `{to}`")))
    }

    /// Copies `from` of the container into the folder `files/NAME` of a run; returns that folder, `None` if the run has
    /// no folder.
    pub(in crate::runtime) async fn copy_out(&self, from: &str, run: &Arc<Run>, name: &str) -> Result<Option<PathBuf>> {
        let options = DownloadFromContainerOptionsBuilder::default().path(from).build();
        let chunks = self.docker.download_from_container(&self.id, Some(options));
        let (sender, receiver) = mpsc::channel(4);
        let (run, name) = (Arc::clone(run), name.to_owned());
        let unpacking = tokio::task::spawn_blocking(move || {
            let chunk = Bytes::new();
            run.unpack("files", &name, Archive { receiver, chunk })
        });
        let sending = async move {
            let mut chunks = std::pin::pin!(chunks);
            while let Some(chunk) = chunks.next().await {
                let chunk = chunk.map_err(|error| daemon::explain(&error))?;
                // What unpacks may have given up.
                if sender.send(chunk).await.is_err() {
                    break;
                }
            }
            Ok(())
        };
        let sent = sending.await;
        let unpacked = unpacking
            .await
            .map_err(|error| Fault::internal(format!("cannot unpack: {error}")))?;
        sent.and(unpacked)
            .map_err(|fault: Fault| fault.while_doing(format!("cannot copy `{from}`")))
    }
}

/// An archive, of which the rest is still to come.
struct Archive {
    receiver: mpsc::Receiver<Bytes>,
    chunk: Bytes,
}

impl Read for Archive {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.receiver.blocking_recv() {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.chunk.len());
        buffer[..count].copy_from_slice(&self.chunk.split_to(count));
        Ok(count)
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Links are packed as links, because their targets may lie outside what the user allowed.
fn pack(from: &Path) -> io::Result<File> {
    let name = from.file_name().ok_or_else(|| io::Error::other("it has no name"))?;
    let mut archive = tar::Builder::new(tempfile::tempfile()?);
    archive.follow_symlinks(false);
    if fs::symlink_metadata(from)?.is_dir() {
        archive.append_dir_all(name, from)?;
    } else {
        archive.append_path_with_name(from, name)?;
    }
    let mut file = archive.into_inner()?;
    file.rewind()?;
    Ok(file)
}
