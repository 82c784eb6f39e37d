//! Files that a script leaves in the run's folder: below `files/`, where nothing of the run itself is.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Run, disk, hide};
use crate::fault::{Fault, Result};

/// Files that were begun in this life of the run.
#[derive(Debug, Default)]
pub(super) struct Begun(Mutex<HashSet<PathBuf>>);

impl Run {
    /// Writes `files/NAME`, in the place of what is there; gives its path, none where the run leaves no folder. What was given as a secret is hidden.
    ///
    /// # Errors
    ///
    /// `usage` for a name that leads elsewhere; `io` and `missing` when it cannot be written.
    pub fn write_file(&self, name: &str, text: &str) -> Result<Option<PathBuf>> {
        let Some(path) = self.place(name)? else { return Ok(None) };
        disk::replace(&path, hide(text).as_bytes())?;
        self.begin(&path);
        Ok(Some(path))
    }

    /// Adds to the end of `files/NAME`, which is empty when it is first written to in this life of the run; gives its path.
    ///
    /// # Errors
    ///
    /// As [`Run::write_file`].
    pub fn append_file(&self, name: &str, text: &str) -> Result<Option<PathBuf>> {
        let Some(path) = self.place(name)? else { return Ok(None) };
        if self.begin(&path) {
            disk::replace(&path, hide(text).as_bytes())?;
            return Ok(Some(path));
        }
        let opened = File::options().append(true).open(&path);
        opened
            .and_then(|mut file| file.write_all(hide(text).as_bytes()))
            .map_err(|error| Fault::io(&path, &error))?;
        Ok(Some(path))
    }

    /// Whether it is the first time that this file is written to.
    fn begin(&self, path: &Path) -> bool {
        let mut begun = self.begun.0.lock().unwrap_or_else(PoisonError::into_inner);
        begun.insert(path.to_owned())
    }

    fn place(&self, name: &str) -> Result<Option<PathBuf>> {
        let inside = Path::new(name);
        let plain =
            |part: Component<'_>| matches!(part, Component::Normal(name) if !name.as_encoded_bytes().starts_with(b"."));
        if name.is_empty() || name.ends_with('/') || !inside.components().all(plain) {
            return Err(Fault::usage(format!("`{name}` is no name of a file of this run"))
                .hint("give a name, or a path without `..`, such as `rows.csv` or `models/a.json`"));
        }
        let Some(folder) = self.folder() else { return Ok(None) };
        let path = folder.join("files").join(inside);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|error| Fault::io(parent, &error))?;
        }
        Ok(Some(path))
    }
}
