//! The layout of the hub's cache folder, as in its Python library: `models--org--name/refs/main` names the commit of
//! `main`, `snapshots/COMMIT/FILE` is a link to `../../blobs/ETAG`, and `blobs/ETAG` is the content.
//!
//! Files appear atomically: they are written under a temporary name and renamed.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::fault::{Fault, Result};

use super::ModelId;

/// One model in the cache.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    folder: PathBuf,
    revision: String,
}

impl Entry {
    pub(super) fn new(cache: &Path, model: &ModelId) -> Self {
        Self {
            folder: cache.join(model.folder()),
            revision: model.revision.clone(),
        }
    }

    /// The snapshot folder of the revision, if it contains `file`.
    pub(super) fn snapshot_with(&self, file: &str) -> Option<PathBuf> {
        let commit = self.commit();
        let snapshot = self.snapshot(commit.as_deref().unwrap_or(&self.revision));
        snapshot.join(file).is_file().then_some(snapshot)
    }

    /// The cached commit of the revision.
    pub(super) fn commit(&self) -> Option<String> {
        let commit = fs::read_to_string(self.reference()).ok()?;
        Some(commit.trim().to_owned()).filter(|commit| is_commit(commit))
    }

    /// The folder of a commit's files.
    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// The path of content by its hash, or of what is to become it.
    pub(super) fn blob(&self, name: &str) -> Result<PathBuf> {
        let blobs = self.folder.join("blobs");
        make_folder(&blobs)?;
        Ok(blobs.join(name))
    }

    /// A temporary file on the file system of [`Entry::store`]'s destination.
    pub(super) fn temp_file(&self) -> Result<NamedTempFile> {
        let blobs = self.blob("")?;
        NamedTempFile::new_in(&blobs).map_err(|error| Fault::io(&blobs, &error))
    }

    /// Stores completely written content as `file` of this commit.
    pub(super) fn store(&self, content: NamedTempFile, etag: &str, commit: &str, file: &str) -> Result<()> {
        self.keep(&content.into_temp_path(), etag, commit, file)
    }

    /// The same for a file that lies among the content already.
    pub(super) fn keep(&self, path: &Path, etag: &str, commit: &str, file: &str) -> Result<()> {
        let blob = self.blob(etag)?;
        fs::rename(path, &blob).map_err(|error| Fault::io(&blob, &error))?;
        readable_by_all(&blob)?;
        self.link(etag, commit, file)
    }

    /// Makes content `file` of this commit.
    pub(super) fn link(&self, etag: &str, commit: &str, file: &str) -> Result<()> {
        let snapshot = self.snapshot(commit);
        make_folder(&snapshot)?;
        let link = snapshot.join(file);
        let temporary = snapshot.join(format!(".{file}.{}", std::process::id()));
        let _left_by_a_killed_run = fs::remove_file(&temporary);
        symlink(Path::new("../../blobs").join(etag), &temporary).map_err(|error| Fault::io(&temporary, &error))?;
        fs::rename(&temporary, &link).map_err(|error| Fault::io(&link, &error))
    }

    /// Records the commit of the revision.
    pub(super) fn point_at(&self, commit: &str) -> Result<()> {
        if commit == self.revision {
            return Ok(());
        }
        let reference = self.reference();
        let folder = reference.parent().unwrap_or(&self.folder);
        make_folder(folder)?;
        let write = || {
            let mut file = NamedTempFile::new_in(folder)?;
            file.write_all(commit.as_bytes())?;
            file.persist(&reference)?;
            Ok::<(), std::io::Error>(())
        };
        write().map_err(|error| Fault::io(&reference, &error))?;
        readable_by_all(&reference)
    }

    fn reference(&self) -> PathBuf {
        self.folder.join("refs").join(&self.revision)
    }
}

/// Whether this is a commit hash. Nothing else from a server becomes a folder name.
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| {
        let fault = Fault::io(path, &error);
        match fault.hint {
            Some(_) => fault,
            None => fault.hint("set HF_HOME to a folder that can be written"),
        }
    })
}

/// Temporary files are private to their owner, but containers with other users share the cache.
fn readable_by_all(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).map_err(|error| Fault::io(path, &error))
}
