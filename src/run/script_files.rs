//! Files that a script writes itself. They are stored below `files/`, apart from the run's own files.

use std::collections::HashSet;
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Folder, Run, hide};
use crate::fault::{Fault, Result};

/// Files that were already written to in this execution of the run.
#[derive(Debug, Default)]
pub(super) struct StartedFiles(Mutex<HashSet<PathBuf>>);

impl Run {
    /// Writes `files/NAME`, replacing an existing file, with secrets hidden. Returns its path; `None` if the run has no
    /// folder.
    ///
    /// # Errors
    ///
    /// `usage` for a name that leads out of the folder; `io` and `missing` if it cannot be written.
    pub fn write_file(&self, name: &str, text: &str) -> Result<Option<PathBuf>> {
        let Some((folder, file)) = self.script_file(name)? else {
            return Ok(None);
        };
        folder.replace_text(&file, &hide(text))?;
        self.is_first_write(&file);
        Ok(Some(folder.path().join(file)))
    }

    /// Appends to `files/NAME`, which the first call in each execution of the run truncates. Returns its path.
    ///
    /// # Errors
    ///
    /// As [`Run::write_file`].
    pub fn append_file(&self, name: &str, text: &str) -> Result<Option<PathBuf>> {
        let Some((folder, file)) = self.script_file(name)? else {
            return Ok(None);
        };
        let path = folder.path().join(&file);
        if self.is_first_write(&file) {
            folder.replace_text(&file, &hide(text))?;
        } else {
            let written = folder.append(&file)?.write_all(hide(text).as_bytes());
            written.map_err(|error| Fault::io(&path, &error))?;
        }
        Ok(Some(path))
    }

    /// Whether this is the first write to the file in this execution.
    fn is_first_write(&self, file: &Path) -> bool {
        let mut written = self.started_files.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.insert(file.to_owned())
    }

    /// The run's folder, and the file's path relative to it.
    fn script_file(&self, name: &str) -> Result<Option<(&Folder, PathBuf)>> {
        let inside = Path::new(name);
        let plain =
            |part: Component<'_>| matches!(part, Component::Normal(name) if !name.as_encoded_bytes().starts_with(b"."));
        if name.is_empty() || name.ends_with('/') || !inside.components().all(plain) {
            return Err(Fault::usage(format!("`{name}` is not a valid file name"))
                .hint("give a name, or a relative path without `..`, such as `rows.csv` or `models/a.json`"));
        }
        Ok(self
            .writer
            .as_ref()
            .map(|writer| (&writer.folder, Path::new("files").join(inside))))
    }
}
