//! Open files of a run's folder, and the limit on its size.
//!
//! `--max-disk` limits what the script, the journal and the engine logs may write. Measured answers, the result and the
//! page are always written, so a run that reaches the limit keeps its findings.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::fault::{Fault, Kind, Result};
use crate::file::disk_free;
use crate::fmt::thousands;
use crate::task::lock;
use crate::world::{Change, change};

/// An open file, with the path under which it was opened.
#[derive(Debug)]
pub struct WrittenFile {
    file: File,
    path: PathBuf,
}

impl WrittenFile {
    pub(super) fn new(file: File, path: PathBuf) -> Self {
        Self { file, path }
    }

    pub(super) fn set_len(&self, length: u64) -> io::Result<()> {
        change(Change::Cut(&self.path, length))?;
        self.file.set_len(length)
    }

    pub(super) fn sync_data(&self) -> io::Result<()> {
        change(Change::Sync(&self.path))?;
        self.file.sync_data()
    }

    pub(super) fn sync_all(&self) -> io::Result<()> {
        change(Change::Sync(&self.path))?;
        self.file.sync_all()
    }
}

/// For reading, locking and metadata.
impl Deref for WrittenFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Write for WrittenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        change(Change::Write(&self.path, bytes))?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Default limit in bytes.
const MAX_DISK: u64 = 10 << 30;

/// Bytes that measured answers may use beyond the limit.
pub(super) const RESERVE: u64 = 64 << 20;

/// Bytes counted for each file or folder besides its contents, so that endless empty files reach the limit too.
pub(super) const NAME: usize = 512;

/// The disk that a run uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes in the run's folder, at most: replaced files may count twice.
    pub written: u64,
    /// Free bytes on its file system, if known.
    pub free: Option<u64>,
}

/// The folder of a run, and its size limit.
#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    most: u64,
    /// An upper bound of the folder's size: replaced files count twice until the folder is measured again.
    held: Mutex<u64>,
}

impl Disk {
    /// `most` is in bytes.
    pub(super) fn new(folder: &Path, most: Option<u64>) -> Self {
        Self {
            folder: folder.to_owned(),
            most: most.unwrap_or(MAX_DISK),
            held: Mutex::new(measured(folder)),
        }
    }

    /// Bytes in the run's folder, and those that are free beside it.
    pub(super) fn used(&self) -> DiskUse {
        DiskUse {
            written: *lock(&self.held),
            free: disk_free(&self.folder),
        }
    }

    /// Claims `bytes` before they are written. `reserve` bytes may be used beyond the limit.
    ///
    /// # Errors
    ///
    /// `limit` if the folder would exceed its limit.
    pub(super) fn claim(&self, bytes: usize, reserve: u64) -> Result<()> {
        let bytes = bytes as u64;
        let most = self.most.saturating_add(reserve);
        let mut held = lock(&self.held);
        if held.saturating_add(bytes) > most {
            *held = measured(&self.folder);
        }
        let all = held.saturating_add(bytes);
        if all > most {
            let (folder, most) = (self.folder.display(), self.most.div_ceil(1_000_000));
            let message = format!("`{folder}` holds as much as a run may write: {} MB", thousands(most));
            return Err(Fault::new(Kind::Limit, message).hint(format!(
                "let the script write less, or allow more: --max-disk {}MB; what was measured is kept",
                2 * most
            )));
        }
        *held = all;
        Ok(())
    }
}

/// Bytes of all files below a folder, plus [`NAME`] for each entry. Does not follow links.
fn measured(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => measured(&entry.path()),
        Ok(data) => data.len(),
        Err(_) => 0,
    };
    entries.map(|entry| NAME as u64 + size(entry)).sum()
}

/// A file that grows during a run, such as a log. Writing fails at the run's limit.
#[derive(Debug)]
pub struct BoundedFile {
    file: WrittenFile,
    disk: Arc<Disk>,
}

impl BoundedFile {
    pub(super) fn new(file: WrittenFile, disk: Arc<Disk>) -> Self {
        Self { file, disk }
    }
}

#[cfg(test)]
impl From<File> for BoundedFile {
    fn from(file: File) -> Self {
        Self {
            file: WrittenFile::new(file, PathBuf::new()),
            disk: Arc::new(Disk::new(Path::new(""), None)),
        }
    }
}

impl Write for BoundedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let claimed = self.disk.claim(bytes.len(), 0);
        claimed.map_err(|fault| io::Error::other(fault.message))?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
