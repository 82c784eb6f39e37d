//! Bounds what a run writes into its folder (`--max-disk`).
//!
//! What a script, its journal and the logs of its engines write is counted. Answers of what was measured, the result and the
//! page are written in any case: a run that reaches the bound keeps what it has.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::{WrittenFile, lock};
use crate::fault::{Fault, Kind, Result};
use crate::fmt::thousands;

/// Default bound, bytes.
const MAX_DISK: u64 = 10 << 30;

/// What may be written beyond the bound, for answers of what was measured.
pub(super) const RESERVE: u64 = 64 << 20;

/// What a file or folder counts as besides its contents, bytes: empty ones without end must reach the bound too.
pub(super) const NAME: usize = 512;

/// The folder of a run, and what it may hold.
#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    most: u64,
    /// At least what the folder holds: replaced files are counted again until it is measured.
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

    /// Call before so many bytes are written. `reserve` may be used beyond the bound.
    ///
    /// # Errors
    ///
    /// `limit` if the folder would hold too much.
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

/// Bytes of all files below a folder, and of their names. Links are not followed.
fn measured(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => measured(&entry.path()),
        Ok(data) => data.len(),
        Err(_) => 0,
    };
    entries.map(|entry| NAME as u64 + size(entry)).sum()
}

/// A file that grows while a run goes on, such as a log. Writing fails at the bound of the run.
#[derive(Debug)]
pub struct BoundedFile {
    file: WrittenFile,
    disk: Option<Arc<Disk>>,
}

impl BoundedFile {
    pub(super) fn new(file: WrittenFile, disk: &Arc<Disk>) -> Self {
        Self {
            file,
            disk: Some(Arc::clone(disk)),
        }
    }
}

/// A file outside of a run, without a bound.
impl From<File> for BoundedFile {
    fn from(file: File) -> Self {
        Self {
            file: WrittenFile::new(file, PathBuf::new()),
            disk: None,
        }
    }
}

impl Write for BoundedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(disk) = &self.disk {
            disk.claim(bytes.len(), 0)
                .map_err(|fault| io::Error::other(fault.message))?;
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
