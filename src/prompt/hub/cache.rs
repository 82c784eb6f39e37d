//! The cache's folders, as the hub's Python library lays them out:
//!
//! ```text
//! models--org--name/
//!   refs/main                     the commit that `main` was at
//!   snapshots/COMMIT/FILE         a link to ../../blobs/ETAG
//!   blobs/ETAG                    the content
//! ```
//!
//! Each file appears at once and whole: it is written beside its place and moved there.

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

    /// The folder of the model's files at its revision, where it holds `file`.
    pub(super) fn snapshot_with(&self, file: &str) -> Option<PathBuf> {
        let commit = self.commit();
        let snapshot = self.snapshot(commit.as_deref().unwrap_or(&self.revision));
        snapshot.join(file).is_file().then_some(snapshot)
    }

    /// The commit that the cache has the revision at.
    pub(super) fn commit(&self) -> Option<String> {
        let commit = fs::read_to_string(self.reference()).ok()?;
        Some(commit.trim().to_owned()).filter(|commit| is_commit(commit))
    }

    /// The folder of the model's files at a commit.
    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// A file to write content to, on the file system where [`Entry::keep`] moves it.
    pub(super) fn scratch(&self) -> Result<NamedTempFile> {
        let blobs = self.folder.join("blobs");
        make_folder(&blobs)?;
        NamedTempFile::new_in(&blobs).map_err(|error| Fault::io(&blobs, &error))
    }

    /// Keeps a content that was written whole as `file` of this commit.
    pub(super) fn keep(&self, content: NamedTempFile, etag: &str, commit: &str, file: &str) -> Result<()> {
        let blob = self.folder.join("blobs").join(etag);
        content.persist(&blob).map_err(|error| Fault::io(&blob, &error.error))?;
        readable_by_all(&blob)?;

        let snapshot = self.snapshot(commit);
        make_folder(&snapshot)?;
        let link = snapshot.join(file);
        let beside = snapshot.join(format!(".{file}.{}", std::process::id()));
        let _left_by_a_killed_run = fs::remove_file(&beside);
        symlink(Path::new("../../blobs").join(etag), &beside).map_err(|error| Fault::io(&beside, &error))?;
        fs::rename(&beside, &link).map_err(|error| Fault::io(&link, &error))
    }

    /// Remembers the commit that the revision is at.
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

/// A commit's hash. Nothing else that a server says becomes the name of a folder.
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

/// Temporary files are made for their owner alone; the cache is shared with containers that run as somebody else.
fn readable_by_all(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).map_err(|error| Fault::io(path, &error))
}
