//! The runs that a run has others do, its jobs: each in a folder of its own below `jobs/`, with its parameters in a file next to it.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};
use tar::Builder;

use super::secrets::hidden_value;
use super::writer::latest_attempt;
use super::{Folder, Manifest, Run};
use crate::fault::{Fault, Result};

/// The folder of all jobs.
pub(super) const JOBS: &str = "jobs";

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
            true => latest_attempt(&Folder::open(&folder)?)?,
            false => 0,
        };
        Ok(Some(JobFolder {
            parameters: root.join(file),
            folder,
            attempt,
        }))
    }

    /// A tar archive of what another host needs to do a job: these files, by their paths below the current folder, the job's
    /// parameters, and what there is of its run.
    ///
    /// # Errors
    ///
    /// `usage` for a path that leads out of the current folder; `io` if anything cannot be read or written.
    pub fn pack_job(&self, name: &str, files: &[PathBuf]) -> Result<File> {
        let inside = Path::new(JOBS).join(format!("{name}.json"));
        let root = self.folder().unwrap_or(Path::new(""));
        let mut archive = Builder::new(tempfile::tempfile().map_err(failed(Path::new("an archive")))?);
        archive.follow_symlinks(false);
        for file in files {
            let is_inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
            if !file.components().all(is_inside) {
                let path = file.display();
                let message = format!("`{path}` is not below the current folder, and cannot be sent to a host");
                return Err(Fault::usage(message).hint("start the fleet in a folder above its scripts"));
            }
            // What the path leads to is sent, also through a link.
            let mut opened = crate::file::open(file)?;
            archive.append_file(file, &mut opened).map_err(failed(file))?;
        }
        let parameters = root.join(&inside);
        let appended = archive.append_path_with_name(&parameters, &inside);
        appended.map_err(failed(&parameters))?;
        let run = root.join(JOBS).join(name);
        // What came back without its manifest is not whole: it is measured again.
        if run.join("manifest.json").is_file() {
            let appended = archive.append_dir_all(Path::new(JOBS).join(name), &run);
            appended.map_err(failed(&run))?;
        }
        let mut file = archive.into_inner().map_err(failed(&run))?;
        file.rewind().map_err(failed(&run))?;
        Ok(file)
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

/// The fault of what cannot be read or written.
fn failed(path: &Path) -> impl Fn(io::Error) -> Fault {
    move |error| Fault::io(path, &error)
}
