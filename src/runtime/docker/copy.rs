//! Copies files and folders into and out of a container, as tar archives.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::Path;

use bollard::query_parameters::{DownloadFromContainerOptionsBuilder, UploadToContainerOptionsBuilder};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::io::AsyncReadExt;

use super::{ContainerClient, fault};
use crate::fault::{Fault, Result};

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
            .map_err(|error| fault::explain(&error).while_doing(format!("cannot copy to `{to}`")))
    }

    /// Copies `from` of the container into the existing folder `to` of the host.
    pub(in crate::runtime) async fn copy_out(&self, from: &str, to: &Path) -> Result<()> {
        let options = DownloadFromContainerOptionsBuilder::default().path(from).build();
        let chunks = self.docker.download_from_container(&self.id, Some(options));
        let mut chunks = std::pin::pin!(chunks.map_err(|error| fault::explain(&error)));
        let mut archive = tempfile::tempfile().map_err(|error| Fault::io(to, &error))?;
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|fault| fault.while_doing(format!("cannot copy `{from}`")))?;
            archive.write_all(&chunk).map_err(|error| Fault::io(to, &error))?;
        }
        let target = to.to_owned();
        blocking(move || unpack(archive, &target))
            .await
            .map_err(|error| Fault::io(to, &error))
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

/// Extracts only files and folders: a link could lead a reader on the host somewhere else.
fn unpack(mut archive: File, to: &Path) -> io::Result<()> {
    archive.rewind()?;
    let mut archive = tar::Archive::new(archive);
    for entry in archive.entries()? {
        let mut entry = entry?;
        entry.set_preserve_permissions(false);
        if matches!(
            entry.header().entry_type(),
            tar::EntryType::Regular | tar::EntryType::Directory
        ) {
            entry.unpack_in(to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_not_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("model");
        fs::create_dir(&from).unwrap();
        fs::write(from.join("config.json"), "{}").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", from.join("link")).unwrap();
        let to = folder.path().join("out");
        fs::create_dir(&to).unwrap();
        unpack(pack(&from).unwrap(), &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("model/config.json")).unwrap(), "{}");
        assert!(fs::symlink_metadata(to.join("model/link")).is_err());
    }

    #[test]
    fn an_archive_cannot_write_outside_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("out");
        fs::create_dir(&to).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        // `set_path` refuses such a name; a malicious container would not.
        header.as_old_mut().name[..9].copy_from_slice(b"../escape");
        header.set_cksum();
        let mut file = tempfile::tempfile().unwrap();
        let mut archive = tar::Builder::new(&mut file);
        archive.append(&header, &b"x"[..]).unwrap();
        archive.finish().unwrap();
        drop(archive);
        unpack(file, &to).unwrap();
        assert!(!folder.path().join("escape").exists());
    }
}
