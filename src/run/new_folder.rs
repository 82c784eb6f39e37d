//! Creates the folder of a new run, where that takes nothing from anyone.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::folder::{Folder, numbered, stamp, sync};
use super::journal::JOURNAL;
use super::manifest::{MANIFEST, Manifest};
use super::pack;
use crate::fault::{Fault, Result};
use crate::fmt::shell_quoted;
use crate::world::{Change, change};

/// Creates a new folder: `out`, or `runs/TIME-NAME`, numbered if that is taken. Accepts an empty folder.
///
/// # Errors
///
/// `usage` if `out` is not empty. With `force_new`, uses the first free numbered name (`…-2`) instead.
pub(super) fn create(out: Option<&Path>, name: &str, force_new: bool) -> Result<Folder> {
    let wanted = match out {
        Some(out) => out.to_owned(),
        None => Path::new("runs").join(format!("{}-{name}", stamp())),
    };
    if let Some(parent) = wanted.parent() {
        fs::create_dir_all(parent).map_err(|error| Fault::io(parent, &error))?;
    }
    for number in 1.. {
        let path = numbered(&wanted, number);
        match change(Change::MakeFolder(&path)).and_then(|()| fs::create_dir(&path)) {
            Ok(()) => {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                let parent = parent.unwrap_or(Path::new("."));
                sync(parent).map_err(|error| Fault::io(parent, &error))?;
                return Folder::open_dir(&path);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if number == 1 && is_empty(&path) {
                    return Folder::open_dir(&path);
                }
                if out.is_some() && !force_new {
                    check_free(&path)?;
                }
            }
            Err(error) => return Err(Fault::io(&path, &error)),
        }
    }
    Err(Fault::internal("there is no free folder"))
}

/// Checks that a new run may use this path: it does not exist, or is an empty folder.
///
/// # Errors
///
/// `usage` if the path is taken, naming its content; `io` if it cannot be read.
pub fn check_free(path: &Path) -> Result<()> {
    let shown = path.display();
    let quoted = shell_quoted(&shown.to_string());
    let taken = |message: String, go_on: String| {
        let free = (2..)
            .map(|number| numbered(path, number))
            .find(|name| name.symlink_metadata().is_err())
            .map_or_else(String::new, |free| shell_quoted(&free.display().to_string()));
        Fault::usage(message).hint(format!(
            "{go_on}choose another name, such as `--out {free}`; `--force-new` takes the next free number by itself"
        ))
    };
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Fault::io(path, &error)),
        Ok(_) if pack::is_pack(path) => return Err(taken(format!("`{shown}` is a packed run"), String::new())),
        Ok(_) if !path.is_dir() => return Err(taken(format!("`{shown}` is there and is no folder"), String::new())),
        Ok(_) => {}
    }
    let mut inside = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| Fault::io(path, &error))? {
        let entry = entry.map_err(|error| Fault::io(path, &error))?;
        inside.push(entry.file_name().to_string_lossy().into_owned());
    }
    if inside.is_empty() {
        return Ok(());
    }
    if inside.iter().any(|name| name == MANIFEST || name == JOURNAL) {
        let manifest = Folder::open_dir(path).and_then(|folder| Manifest::read(&folder));
        let resume = if manifest.is_ok_and(|manifest| manifest.script.path == FLEET) {
            format!("profiler fleet --follow {quoted}")
        } else {
            format!("profiler run --resume {quoted}")
        };
        let go_on = format!("`{resume}` resumes it; ");
        return Err(taken(format!("`{shown}` holds a run already"), go_on));
    }
    inside.sort();
    let (first, more) = inside.split_at(inside.len().min(MAX_NAMED));
    let more = match more.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!("`{shown}` is not empty: it holds {}{more}", first.join(", "));
    Err(taken(message, String::new()))
}

/// The shipped script whose runs have a resume command of their own.
const FLEET: &str = "fleet";

/// Most entries listed of a folder that is not a run.
const MAX_NAMED: usize = 3;

fn is_empty(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;
    use crate::fault::Kind;

    #[test]
    fn only_an_empty_folder_is_taken() {
        let temp = tempdir().unwrap();
        let out = temp.path().join("deep").join("out");
        let create = |force_new| create(Some(&out), "x", force_new);
        assert_eq!(create(false).unwrap().path(), out);
        assert_eq!(create(false).unwrap().path(), out, "it is empty");
        fs::write(out.join("mine"), "").unwrap();
        let fault = create(false).unwrap_err();
        assert!(fault.kind == Kind::Usage && fault.message.contains("mine"), "{fault}");
        for number in 2..4 {
            let numbered = temp.path().join("deep").join(format!("out-{number}"));
            assert_eq!(create(true).unwrap().path(), numbered);
        }
    }
}
