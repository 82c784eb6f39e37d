//! Facts remembered across this user's runs: the texts that they ran, the values named on the command line, and the
//! permissions that the user always gives.
//!
//! They are stored in `profiler/remembered` of the state folder (`$XDG_STATE_HOME`, `~/.local/state`), one fact per
//! line, followed by a tab and a note for people. When the file is full, its older half is removed.

use std::fs::DirBuilder;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::disk::WrittenFile;
use super::folder::Folder;
use crate::fault::{Fault, Result};
use crate::home;
use crate::world;

/// The name of the file.
const FILE: &str = "remembered";

/// A writer of the file locks this one, because the file itself is replaced.
const LOCK: &str = "remembered.lock";

/// Bytes of the file before its older half is removed: thousands of runs.
const MAX_SIZE: usize = 1 << 20;

/// The folder of the file, which may not exist yet; `None` without a home folder.
fn folder() -> Option<PathBuf> {
    Some(home::state()?.join("profiler"))
}

/// Whether this fact is in the file.
pub fn is_remembered(fact: &str) -> bool {
    let fact = one_line(fact);
    let text = folder().and_then(|path| text(&Folder::open_dir(&path).ok()?).ok());
    text.is_some_and(|text| holds(&text, &fact))
}

fn holds(text: &str, fact: &str) -> bool {
    text.lines().any(|line| line.split('\t').next() == Some(fact))
}

/// The fact that this text, a script or one of its modules, ran in one of the user's runs.
pub fn own_run(id: &str, sha256: &str) -> String {
    format!("run {id} {sha256}")
}

/// Forgets the permissions that the user always gives; returns their notes.
///
/// # Errors
///
/// `io` if the file cannot be changed.
pub fn forget_allowed() -> Result<Vec<String>> {
    let Some(path) = folder().filter(|path| path.join(FILE).exists()) else {
        return Ok(Vec::new());
    };
    let (folder, _lock) = lock(&path)?;
    let text = text(&folder)?;
    let (allowed, kept): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("allow "));
    if !allowed.is_empty() {
        replace(&folder, &kept)?;
    }
    let note = |line: &&str| line.split_once('\t').map_or(*line, |(_, note)| note).to_owned();
    Ok(allowed.iter().map(note).collect())
}

/// Remembers facts, without duplicates, with a note for people. A simulation remembers nothing.
///
/// # Errors
///
/// `io` and `missing` if there is no state folder or it cannot be written.
pub fn remember(facts: impl IntoIterator<Item = String>, note: &str) -> Result<()> {
    let mut facts = facts.into_iter().map(|fact| one_line(&fact)).peekable();
    if world::current().is_some() || facts.peek().is_none() {
        return Ok(());
    }
    let path =
        folder().ok_or_else(|| Fault::missing("there is no home to remember this in", "set HOME or XDG_STATE_HOME"))?;
    add(&path, facts, &one_line(note))
}

/// Replaces line ends and tabs. The id of a run may come from an untrusted source, which must not add facts.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

fn add(path: &Path, facts: impl Iterator<Item = String>, note: &str) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| Fault::io(path, &error))?;
    let (folder, _lock) = lock(path)?;
    let text = text(&folder)?;
    let new: String = facts
        .filter(|fact| !holds(&text, fact))
        .map(|fact| format!("{}\n", format!("{fact}\t{note}").trim_end()))
        .collect();
    if new.is_empty() {
        return Ok(());
    }
    if text.len() > MAX_SIZE {
        let lines: Vec<&str> = text.lines().collect();
        replace(&folder, &lines[lines.len() / 2..])?;
    }
    // A single write, so that a crash leaves no partial line in front of another.
    let written = folder.append(Path::new(FILE))?.write_all(new.as_bytes());
    written.map_err(|error| Fault::io(&path.join(FILE), &error))
}

/// Opens the folder and locks the file against other writers while the second value lives.
fn lock(path: &Path) -> Result<(Folder, WrittenFile)> {
    let folder = Folder::open_dir(path)?;
    let file = folder.append(Path::new(LOCK))?;
    file.lock().map_err(|error| Fault::io(&path.join(LOCK), &error))?;
    Ok((folder, file))
}

fn text(folder: &Folder) -> Result<String> {
    let bytes = folder.read(FILE)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Replaces all lines atomically: after a crash the file has either the old or the new ones.
fn replace(folder: &Folder, lines: &[&str]) -> Result<()> {
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    folder.replace_text(Path::new(FILE), &lines)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_newest_facts_are_kept_when_the_file_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/profiler");
        let fact = |number: usize| format!("run {number} {}", "0".repeat(MAX_SIZE / 16));
        for number in 0..40 {
            add(&path, [fact(number)].into_iter(), "").unwrap();
            let text = std::fs::read_to_string(path.join(FILE)).unwrap();
            assert!(text.len() <= 2 * MAX_SIZE && text.ends_with(&format!("{}\n", fact(number))));
            assert!(number == 0 || text.contains(&fact(number - 1)));
        }
        let mode = std::fs::metadata(path.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }
}
