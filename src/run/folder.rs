//! Where a run leaves its files: a fresh folder, never one in use.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::clock;
use crate::fault::{Fault, Result};

/// The folder of a run.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Files of this life, by room and name.
    given: Mutex<HashMap<PathBuf, PathBuf>>,
}

impl Folder {
    /// A folder that is there.
    pub(super) fn at(path: PathBuf) -> Self {
        Self {
            path,
            given: Mutex::default(),
        }
    }

    /// A fresh folder: `out`, or `runs/TIME-NAME`, or the first numbered sibling of it that is not there yet.
    ///
    /// An empty folder that the user made is taken as it is.
    pub(super) fn create(out: Option<&Path>, name: &str) -> Result<Self> {
        let wanted = match out {
            Some(out) => out.to_owned(),
            None => Path::new("runs").join(format!("{}-{name}", clock::stamp())),
        };
        if let Some(parent) = wanted.parent() {
            fs::create_dir_all(parent).map_err(|error| Fault::io(parent, &error))?;
        }
        for number in 1.. {
            let path = if number == 1 {
                wanted.clone()
            } else {
                numbered(&wanted, number)
            };
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self::at(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    if number == 1 && is_empty(&path) {
                        return Ok(Self::at(path));
                    }
                }
                Err(error) => return Err(Fault::io(&path, &error)),
            }
        }
        Err(Fault::internal("there is no free folder"))
    }

    /// The folder itself.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A file of this life below `room`; what an earlier life left under that name stays, and this one is numbered.
    pub(super) fn file(&self, room: &str, name: &str) -> Result<PathBuf> {
        let inside = Path::new(room).join(name);
        if !confined(&inside) {
            return Err(Fault::internal(format!(
                "`{}` leads out of the run's folder",
                inside.display()
            )));
        }
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = given.get(&inside) {
            return Ok(path.clone());
        }
        let wanted = self.path.join(&inside);
        if let Some(parent) = wanted.parent() {
            fs::create_dir_all(parent).map_err(|error| Fault::io(parent, &error))?;
        }
        let mut path = wanted.clone();
        let mut number = 1;
        while path.exists() {
            number += 1;
            path = numbered(&wanted, number);
        }
        given.insert(inside, path.clone());
        Ok(path)
    }

    /// Writes one of the texts that ran, below `modules/`; `None` is the script itself.
    pub(super) fn keep(&self, module: Option<&str>, text: &str) -> Result<()> {
        let path = match module {
            None => self.path.join("script.rhai"),
            Some(module) => self.path.join("modules").join(plain(Path::new(module))),
        };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|error| Fault::io(parent, &error))?;
        }
        super::disk::replace(&path, text.as_bytes())
    }
}

/// `name.ext` as `name-2.ext`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    // A dot in a folder's name, as in `--out run.d`, looks like an extension, and the number is as readable before it.
    match path.extension() {
        Some(extension) => path.with_file_name(format!("{stem}-{number}.{}", extension.to_string_lossy())),
        None => path.with_file_name(format!("{stem}-{number}")),
    }
}

fn is_empty(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

fn confined(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// The path without what could lead elsewhere.
fn plain(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_folder_in_use_gets_a_numbered_sibling() {
        let temp = tempfile::tempdir().unwrap();
        let out = temp.path().join("deep").join("out");
        let first = Folder::create(Some(&out), "x").unwrap();
        assert_eq!(first.path(), out);
        fs::write(out.join("kept"), "").unwrap();
        let second = Folder::create(Some(&out), "x").unwrap();
        assert_eq!(second.path(), temp.path().join("deep").join("out-2"));
        let third = Folder::create(Some(&out), "x").unwrap();
        assert_eq!(third.path(), temp.path().join("deep").join("out-3"));
    }

    #[test]
    fn files_of_an_earlier_life_stay() {
        let temp = tempfile::tempdir().unwrap();
        let life = || Folder::at(temp.path().to_owned());
        let (first, again) = (life(), life());
        let log = first.file("logs", "vllm-1.log").unwrap();
        fs::write(&log, "kept").unwrap();
        assert_eq!(first.file("logs", "vllm-1.log").unwrap(), log, "one life, one file");
        assert_eq!(
            again.file("logs", "vllm-1.log").unwrap(),
            temp.path().join("logs").join("vllm-1-2.log")
        );
        assert!(first.file("logs", "../../x").is_err());
    }

    #[test]
    fn modules_stay_below_their_folder() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::at(temp.path().to_owned());
        folder.keep(Some("/abs/../lib/a.rhai"), "1").unwrap();
        assert!(temp.path().join("modules/abs/lib/a.rhai").is_file());
    }
}
