//! The runs that a run has others do, its jobs: each in a folder of its own below `jobs/`, with its parameters in a file next to it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::secrets::hidden_value;
use super::{Folder, Manifest, Run, attempt};
use crate::fault::{Fault, Result};

/// The folder of all jobs.
const JOBS: &str = "jobs";

/// Where a job runs.
#[derive(Clone, Debug)]
pub struct JobFolder {
    /// The folder of its run, an absolute path. It need not exist yet.
    pub folder: PathBuf,
    /// The file of its parameters.
    pub parameters: PathBuf,
    /// The number of the latest attempt at it; 0 if there was none.
    pub attempt: u64,
}

impl Run {
    /// The place of a job, with its parameters written; `None` if the run has no folder.
    ///
    /// # Errors
    ///
    /// `usage` for a name that is no plain word, and for parameters with a secret, which no file keeps; `io` and `missing` if
    /// they cannot be written.
    pub fn job(&self, name: &str, parameters: &Map<String, Value>) -> Result<Option<JobFolder>> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
            return Err(Fault::usage(format!("`{name}` is not a valid name of a job"))
                .hint("use letters, digits, `_`, `-` and `.`"));
        }
        let value = Value::Object(parameters.clone());
        if hidden_value(value.clone()) != value {
            return Err(
                Fault::usage(format!("the parameters of `{name}` have a secret, which no file keeps"))
                    .hint("name the environment variable that holds it, such as `api_key_env`"),
            );
        }
        let Some(writer) = &self.writer else { return Ok(None) };
        let file = Path::new(JOBS).join(format!("{name}.json"));
        let root = writer.folder.path();
        let root = std::fs::canonicalize(root).map_err(|error| Fault::io(root, &error))?;
        let text = value.to_string();
        let known = writer.folder.read(&file)?;
        if known.is_none_or(|known| known != text.as_bytes()) {
            // Not synced: what a power failure takes is written again.
            let mut written = writer.folder.append(&file)?;
            let written = written.set_len(0).and_then(|()| written.write_all(text.as_bytes()));
            written.map_err(|error| Fault::io(&root.join(&file), &error))?;
        }
        let folder = root.join(JOBS).join(name);
        let attempt = match folder.is_dir() {
            true => attempt::latest(&Folder::open(&folder)?)?,
            false => 0,
        };
        Ok(Some(JobFolder {
            parameters: root.join(file),
            folder,
            attempt,
        }))
    }

    /// The text of `jobs/NAME.log`; empty if there is none.
    ///
    /// # Errors
    ///
    /// `io` if it cannot be read.
    pub fn job_log(&self, name: &str) -> Result<String> {
        let Some(writer) = &self.writer else {
            return Ok(String::new());
        };
        let text = writer.folder.read(Path::new(JOBS).join(format!("{name}.log")))?;
        Ok(String::from_utf8_lossy(&text.unwrap_or_default()).into_owned())
    }

    /// The folder of a job whose run came to an end of its own: it was done, or failed. `None` if it was never begun, was
    /// interrupted or killed, or is under way.
    ///
    /// # Errors
    ///
    /// `io` if it cannot be read.
    pub fn ended_job(&self, name: &str) -> Result<Option<PathBuf>> {
        let Some(writer) = &self.writer else { return Ok(None) };
        let folder = writer.folder.path().join(JOBS).join(name);
        if !folder.is_dir() {
            return Ok(None);
        }
        let inside = Folder::open(&folder)?;
        if !inside.has_file("manifest.json") {
            return Ok(None);
        }
        let status = Manifest::read(&inside)?.status;
        Ok(matches!(status.as_str(), "done" | "failed").then_some(folder))
    }
}
