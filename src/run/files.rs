//! Files that a script leaves in the run's folder: below `files/`, where nothing of the run itself is.

use std::collections::HashSet;
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Folder, Run, hide};
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
        let Some((folder, file)) = self.script_file(name)? else {
            return Ok(None);
        };
        folder.replace_text(&file, &hide(text))?;
        self.begin(&file);
        Ok(Some(folder.path().join(file)))
    }

    /// Adds to the end of `files/NAME`, which is empty when it is first written to in this life of the run; gives its path.
    ///
    /// # Errors
    ///
    /// As [`Run::write_file`].
    pub fn append_file(&self, name: &str, text: &str) -> Result<Option<PathBuf>> {
        let Some((folder, file)) = self.script_file(name)? else {
            return Ok(None);
        };
        let path = folder.path().join(&file);
        if self.begin(&file) {
            folder.replace_text(&file, &hide(text))?;
        } else {
            let written = folder.append(&file)?.write_all(hide(text).as_bytes());
            written.map_err(|error| Fault::io(&path, &error))?;
        }
        Ok(Some(path))
    }

    /// Whether it is the first time that this file is written to.
    fn begin(&self, file: &Path) -> bool {
        let mut begun = self.begun.0.lock().unwrap_or_else(PoisonError::into_inner);
        begun.insert(file.to_owned())
    }

    /// The run's folder and the file's name in it.
    fn script_file(&self, name: &str) -> Result<Option<(&Folder, PathBuf)>> {
        let inside = Path::new(name);
        let plain =
            |part: Component<'_>| matches!(part, Component::Normal(name) if !name.as_encoded_bytes().starts_with(b"."));
        if name.is_empty() || name.ends_with('/') || !inside.components().all(plain) {
            return Err(Fault::usage(format!("`{name}` is no name of a file of this run"))
                .hint("give a name, or a path without `..`, such as `rows.csv` or `models/a.json`"));
        }
        Ok(self
            .keeper
            .as_ref()
            .map(|keeper| (&keeper.folder, Path::new("files").join(inside))))
    }
}
