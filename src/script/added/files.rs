//! The files of a script that is added, from a folder or a repository: which are taken, how many, how large.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path};

use crate::fault::{Fault, Result};
use crate::script::source;

/// Contents by relative path.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

pub(super) const MAX_FILES: usize = 200;
pub(super) const MAX_FILE: u64 = source::MAX_SIZE;

/// Extensions of the files that are copied from a folder, besides files whose names begin with `LICENSE`.
const TAKEN: [&str; 9] = ["rhai", "py", "toml", "json", "yaml", "yml", "csv", "txt", "md"];

/// The last part of a path or address.
pub(super) fn file_name(place: &str) -> String {
    let place = place.trim_end_matches('/');
    place.rsplit(['/', ':']).next().unwrap_or(place).to_owned()
}

/// Whether a file of a folder is copied, by its relative path: it stays below the folder and is not hidden.
pub(super) fn is_taken(path: &str) -> bool {
    let plain = |part: Component| matches!(part, Component::Normal(name) if !name.to_string_lossy().starts_with('.'));
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let wanted = TAKEN.contains(&extension) || name.starts_with("LICENSE");
    wanted && Path::new(path).components().all(plain) && !path.contains(char::is_control)
}

pub(super) fn add(files: &mut Files, name: String, bytes: Vec<u8>) -> Result<()> {
    if files.len() == MAX_FILES {
        return Err(Fault::usage(format!("more than {MAX_FILES} files"))
            .hint("add the folder of the script, not the one above it"));
    }
    files.insert(name, bytes);
    Ok(())
}

/// Most folders in each other, and most files and folders of one that is looked through.
const MAX_DEPTH: usize = 16;
const MAX_LISTED: usize = 20_000;

/// Collects the files below a folder. Does not follow links.
pub(super) fn collect(folder: &Path, prefix: &str, files: &mut Files) -> Result<()> {
    let io = |error: std::io::Error| Fault::io(folder, &error);
    for (count, entry) in fs::read_dir(folder).map_err(io)?.enumerate() {
        if count > MAX_LISTED || prefix.matches('/').count() > MAX_DEPTH {
            return Err(too_much(&format!("`{}`", folder.display())));
        }
        let entry = entry.map_err(io)?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().map_err(io)?;
        if kind.is_dir() && !entry.file_name().to_string_lossy().starts_with('.') {
            collect(&entry.path(), &format!("{name}/"), files)?;
        } else if kind.is_file() && is_taken(&name) {
            add(files, name, source::bytes(&entry.path())?)?;
        }
    }
    Ok(())
}

pub(super) fn too_much(place: &str) -> Fault {
    Fault::usage(format!("{place} has more than can be added"))
        .hint("add the folder of the script, not the one above it: git+ADDRESS[@REVISION][#PATH]")
}

pub(super) fn check_size(name: &str, size: u64) -> Result<()> {
    if size > MAX_FILE {
        Err(Fault::usage(format!("`{name}` is larger than {} KiB", MAX_FILE >> 10))
            .hint("a script is program text; keep data elsewhere"))
    } else {
        Ok(())
    }
}
