//! The jobs of a run: runs of their own below `jobs/`, each with its parameters in a file next to it. A remote host gets
//! the files of a job as an archive, and sends back the files of its run.

use std::fs::File;
use std::io::{self, Read, Seek as _, Write as _};
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};
use tar::Builder;

use super::Run;
use super::RunStatus;
use super::attempt::latest_attempt;
use super::folder::Folder;
use super::manifest::Manifest;
use super::pack::{SHOWN, unpack};
use super::secrets::hidden_value;
use crate::fault::{Fault, Kind, Result};
use crate::temporary::Temporary;
use crate::warning::Warning;

/// The folder of all jobs.
const JOBS: &str = "jobs";

/// The paths of a job.
#[derive(Clone, Debug)]
pub struct JobFolder {
    /// The folder of its run, an absolute path. It need not exist yet.
    pub folder: PathBuf,
    /// The file of its parameters.
    pub parameters: PathBuf,
    /// The number of its latest attempt; 0 if there was none.
    pub attempt: u64,
}

impl Run {
    /// Writes a job's parameters and returns its paths; `None` if the run has no folder.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid name, and for parameters with a secret, which must not be stored; `io` and `missing` if
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
            // Not synced: after a power failure it is written again.
            let mut written = writer.folder.append(&file)?;
            let written = written.set_len(0).and_then(|()| written.write_all(text.as_bytes()));
            written.map_err(|error| Fault::io(&root.join(&file), &error))?;
        }
        let folder = root.join(JOBS).join(name);
        let attempt = if folder.is_dir() {
            latest_attempt(&Folder::open_dir(&folder)?)?
        } else {
            0
        };
        Ok(Some(JobFolder {
            parameters: root.join(file),
            folder,
            attempt,
        }))
    }

    /// A tar archive for another host to run a job: these files, by their paths below the current folder, the job's
    /// parameters, and the files of its run so far.
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
            // Links are followed: the target's content is sent.
            let mut opened = crate::file::open(file)?;
            archive.append_file(file, &mut opened).map_err(failed(file))?;
        }
        let parameters = root.join(&inside);
        let appended = archive.append_path_with_name(&parameters, &inside);
        appended.map_err(failed(&parameters))?;
        let run = root.join(JOBS).join(name);
        // A run that came back without its manifest is incomplete, and is measured again.
        if run.join("manifest.json").is_file() {
            let appended = archive.append_dir_all(Path::new(JOBS).join(name), &run);
            appended.map_err(failed(&run))?;
        }
        let mut file = archive.into_inner().map_err(failed(&run))?;
        file.rewind().map_err(failed(&run))?;
        Ok(file)
    }

    /// Unpacks an untrusted tar archive with the files of a job's run in place of the job's folder. Only folders and
    /// regular files are unpacked; a warning names the others.
    ///
    /// # Errors
    ///
    /// `io` for an archive that is broken, leads out of the folder, has no manifest of a run, or is more than the run
    /// may write, and if a file cannot be written.
    pub fn unpack_job(&self, name: &str, archive: impl Read) -> Result<()> {
        let Some(writer) = &self.writer else { return Ok(()) };
        // Refuses links above it.
        writer.folder.make_folder(&Path::new(JOBS).join(name))?;
        let jobs = writer.folder.path().join(JOBS);
        let (new, old) = (
            Temporary::folder_in(&jobs, ".new-")?,
            Temporary::folder_in(&jobs, ".old-")?,
        );
        let (new_at, old_at) = (new.path().join(name), old.path().join(name));
        let unpacked = || {
            let folder = Folder::make(&new_at)?;
            let left_out = unpack(archive, &folder, &writer.disk)?;
            if folder.has_file("manifest.json") {
                Manifest::read(&folder)?;
            }
            Ok(left_out)
        };
        // Errors of the archive are the host's: nothing of it stays, and the earlier run does. A full disk is ours.
        let left_out = unpacked().map_err(|fault: Fault| match fault.kind {
            Kind::Missing => fault,
            _ => Fault {
                kind: Kind::Io,
                hint: None,
                ..fault.while_doing(format!("what the host returned for job `{name}`"))
            },
        })?;
        let folder = jobs.join(name);
        // Without a manifest it is incomplete: a run that was there with one is worth more.
        let is_run = |folder: &Path| folder.join("manifest.json").is_file();
        if is_run(&folder) && !is_run(&new_at) {
            return Ok(());
        }
        std::fs::rename(&folder, &old_at).map_err(failed(&folder))?;
        if let Err(error) = std::fs::rename(&new_at, &folder) {
            std::fs::rename(&old_at, &folder).map_err(failed(&folder))?;
            return Err(failed(&folder)(error));
        }
        if left_out.count > 0 {
            let (count, shown) = (left_out.count, left_out.first.join(", "));
            let more = if count > SHOWN { ", …" } else { "" };
            let message =
                format!("job `{name}`: {count} not copied, as only folders and regular files are: {shown}{more}");
            self.warn(Warning::new("not_copied", message))?;
        }
        Ok(())
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

    /// The folder of a job whose run another attempt would not take further: it is done, it failed, or its time was
    /// over. `None` if it has not started, was interrupted or killed, or is under way.
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
        let inside = Folder::open_dir(&folder)?;
        if !inside.has_file("manifest.json") {
            return Ok(None);
        }
        let status = Manifest::read(&inside)?.status;
        Ok(matches!(status, RunStatus::Done | RunStatus::Failed | RunStatus::OutOfTime).then_some(folder))
    }
}

/// Returns a function that turns an I/O error for this path into a fault.
fn failed(path: &Path) -> impl Fn(io::Error) -> Fault {
    move |error| Fault::io(path, &error)
}
