//! Temporary folders, and files that are renamed when they are complete. They are removed when they are dropped, and
//! before a signal ends the process.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use crate::fault::{Fault, Result};
use crate::task::lock;

static LEFT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static ENDING: AtomicBool = AtomicBool::new(false);

/// Whether a signal ends the process: nothing more is to be written.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::Relaxed)
}

/// A path that is removed with everything below it.
#[derive(Debug)]
pub struct Temporary(PathBuf);

impl Temporary {
    /// A new folder in the system's folder for them.
    ///
    /// # Errors
    ///
    /// `io` and `missing` if it cannot be created.
    pub fn folder() -> Result<Self> {
        Self::folder_in(&std::env::temp_dir(), "profiler-")
    }

    /// A new folder in another one, with a name that begins so.
    ///
    /// # Errors
    ///
    /// Fails as [`Temporary::folder`] does.
    pub fn folder_in(parent: &Path, prefix: &str) -> Result<Self> {
        let made = tempfile::Builder::new().prefix(prefix).tempdir_in(parent);
        let made = made.map_err(|error| Fault::io(parent, &error))?;
        Ok(Self::of(made.keep()))
    }

    /// Removes this path unless it is kept.
    pub fn of(path: PathBuf) -> Self {
        lock(&LEFT).insert(path.clone());
        Self(path)
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Keeps the path.
    pub fn keep(self) {
        lock(&LEFT).remove(&self.0);
        std::mem::forget(self);
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // If it cannot be removed now, it is tried again at the end.
        if remove(&self.0).is_ok() {
            lock(&LEFT).remove(&self.0);
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes all that are left. Other threads may still write into them, until they see that the process ends.
pub fn remove_all() {
    ENDING.store(true, Ordering::Relaxed);
    let left: Vec<PathBuf> = lock(&LEFT).iter().cloned().collect();
    for path in left {
        for _ in 0..10 {
            if remove(&path).is_ok() {
                break;
            }
            sleep(Duration::from_millis(10));
        }
    }
}
