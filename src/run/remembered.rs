//! What is remembered of this user's runs: which texts they ran, what the command line named to them, and what scripts may
//! always do.
//!
//! One line for each fact in `profiler/remembered` of the state folder (`$XDG_STATE_HOME`, `~/.local/state`). When the file
//! is full, its older half goes.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::fault::{Fault, Result};

/// Bytes of the file before its older half is removed: thousands of runs.
const MAX_SIZE: usize = 1 << 20;

/// The file, which need not exist; `None` without a home.
fn file() -> Option<PathBuf> {
    Some(dirs::state_dir()?.join("profiler/remembered"))
}

/// Whether this line was remembered.
#[must_use]
pub fn is_remembered(fact: &str) -> bool {
    let read = |path: PathBuf| -> io::Result<String> {
        let file = open(&path, File::options().read(true))?;
        file.lock_shared()?;
        text(&file)
    };
    file().is_some_and(|file| read(file).is_ok_and(|text| text.lines().any(|line| line == fact)))
}

/// The line by which it is remembered that this text, a script or a module of it, ran in a run of the user's own.
#[must_use]
pub fn own_run(id: &str, sha256: &str) -> String {
    format!("run {id} {sha256}")
}

/// Forgets what scripts may always do.
///
/// # Errors
///
/// `io` if the file cannot be changed.
pub fn forget_allowed() -> Result<()> {
    let Some(path) = file().filter(|path| path.exists()) else {
        return Ok(());
    };
    let forget = || {
        let file = open(&path, File::options().read(true).append(true))?;
        file.lock()?;
        let kept: Vec<String> = text(&file)?.lines().map(str::to_owned).collect();
        replace(&file, kept.iter().filter(|line| !line.starts_with("allow ")))
    };
    forget().map_err(|error| Fault::io(&path, &error))
}

/// Remembers a line, once.
///
/// # Errors
///
/// `io` and `missing` if there is no state folder or it cannot be written.
pub fn remember(fact: &str) -> Result<()> {
    if is_remembered(fact) {
        return Ok(());
    }
    let path =
        file().ok_or_else(|| Fault::missing("there is no home to remember this in", "set HOME or XDG_STATE_HOME"))?;
    add(&path, fact).map_err(|error| Fault::io(&path, &error))
}

fn add(path: &Path, fact: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut options = OpenOptions::new();
    let mut file = open(path, options.read(true).append(true).create(true).mode(0o600))?;
    file.lock()?;
    if file.metadata()?.len() > MAX_SIZE as u64 {
        let text = text(&file)?;
        let lines: Vec<&str> = text.lines().collect();
        replace(&file, &lines[lines.len() / 2..])?;
    }
    // One write, so that a crash leaves no half of a line before another.
    file.write_all(format!("{fact}\n").as_bytes())
}

/// Opens a regular file. A pipe in its place must not wait for its other end.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

fn text(file: &File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(2 * MAX_SIZE as u64).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn replace(mut file: &File, lines: impl IntoIterator<Item = impl AsRef<str>>) -> io::Result<()> {
    let lines: String = lines.into_iter().map(|line| format!("{}\n", line.as_ref())).collect();
    file.set_len(0)?;
    file.write_all(lines.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_facts_are_kept_when_the_file_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/profiler/remembered");
        let fact = |number: usize| format!("run {number} {}", "0".repeat(MAX_SIZE / 16));
        for number in 0..40 {
            add(&path, &fact(number)).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.len() <= 2 * MAX_SIZE && text.ends_with(&format!("{}\n", fact(number))));
            assert!(number == 0 || text.contains(&fact(number - 1)));
        }
    }
}
