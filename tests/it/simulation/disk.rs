//! A disk that forgets. After a kill, a run folder holds everything written. After a power failure, it holds what was
//! synced and any part of the rest: a prefix of a file's new bytes, and any of the new names in a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use profiler::world::Change;

use super::chance::Chance;

/// A file, independent of its names.
type Id = usize;

#[derive(Clone, Default)]
struct Contents {
    synced: Vec<u8>,
    written: Vec<u8>,
}

/// The target of a name.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Entry {
    File(Id),
    Folder,
}

/// The file or folder that changes; for a rename, the new name.
pub fn changed<'a>(change: Change<'a>) -> &'a Path {
    match change {
        Change::Open(path) | Change::Write(path, _) | Change::Cut(path, _) | Change::Sync(path) => path,
        Change::Rename(_, path) | Change::SyncFolder(path) | Change::Remove(path) | Change::MakeFolder(path) => path,
    }
}

#[derive(Default)]
pub struct Disk {
    files: Vec<Contents>,
    /// The file behind each name at the time it was opened.
    opened: BTreeMap<PathBuf, Id>,
    names: BTreeMap<PathBuf, Entry>,
    synced_names: BTreeMap<PathBuf, Entry>,
    /// Names added or removed since their folder was synced, in order.
    new_names: Vec<(PathBuf, Option<Entry>)>,
}

impl Disk {
    /// A disk with the files below a folder.
    pub fn of(root: &Path) -> Self {
        let mut disk = Self::default();
        disk.add(root);
        disk
    }

    fn add(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let entry = if path.is_dir() {
                self.add(&path);
                Entry::Folder
            } else {
                let bytes = fs::read(&path).unwrap();
                self.files.push(Contents {
                    synced: bytes.clone(),
                    written: bytes,
                });
                Entry::File(self.files.len() - 1)
            };
            self.names.insert(path.clone(), entry);
            self.synced_names.insert(path, entry);
        }
    }

    fn name(&mut self, path: &Path, entry: Option<Entry>) {
        match entry {
            Some(entry) => self.names.insert(path.to_owned(), entry),
            None => self.names.remove(path),
        };
        self.new_names.push((path.to_owned(), entry));
    }

    fn file(&mut self, opened: &Path) -> &mut Contents {
        &mut self.files[self.opened[opened]]
    }

    pub fn apply(&mut self, change: Change<'_>) {
        match change {
            Change::Open(path) => {
                let id = match self.names.get(path) {
                    Some(Entry::File(id)) => *id,
                    _ => {
                        self.files.push(Contents::default());
                        self.name(path, Some(Entry::File(self.files.len() - 1)));
                        self.files.len() - 1
                    }
                };
                self.opened.insert(path.to_owned(), id);
            }
            Change::Write(path, bytes) => self.file(path).written.extend_from_slice(bytes),
            Change::Cut(path, length) => self.file(path).written.truncate(usize::try_from(length).unwrap()),
            Change::Sync(path) => {
                let file = self.file(path);
                file.synced.clone_from(&file.written);
            }
            Change::SyncFolder(folder) => {
                let inside = |path: &Path| path.parent() == Some(folder);
                for (path, entry) in self.new_names.iter().filter(|(path, _)| inside(path)) {
                    match entry {
                        Some(entry) => self.synced_names.insert(path.clone(), *entry),
                        None => self.synced_names.remove(path),
                    };
                }
                self.new_names.retain(|(path, _)| !inside(path));
            }
            Change::Rename(from, to) => {
                let entry = self.names.get(from).copied();
                self.name(to, entry);
                self.name(from, None);
            }
            Change::Remove(path) => {
                if self.names.contains_key(path) {
                    self.name(path, None);
                }
            }
            Change::MakeFolder(path) => {
                if !self.names.contains_key(path) {
                    self.name(path, Some(Entry::Folder));
                }
            }
        }
    }

    /// Applies a prefix of a write, as if a kill had interrupted it.
    pub fn apply_in_part(&mut self, change: Change<'_>, chance: &mut Chance) {
        if let Change::Write(path, bytes) = change {
            let part = chance.below(bytes.len() as u64 + 1);
            self.apply(Change::Write(path, &bytes[..usize::try_from(part).unwrap()]));
        }
    }

    /// Replaces the files below `root` with those that survive a power failure or a kill.
    pub fn leave(&self, root: &Path, power: bool, chance: &mut Chance) {
        let mut names = if power {
            self.synced_names.clone()
        } else {
            self.names.clone()
        };
        if power {
            for (path, entry) in &self.new_names {
                if chance.one_in(2) {
                    match entry {
                        Some(entry) => names.insert(path.clone(), *entry),
                        None => names.remove(path),
                    };
                }
            }
        }
        let _ = fs::remove_dir_all(root);
        fs::create_dir_all(root).unwrap();
        // Folders come before their content. The content of a lost folder is lost.
        for (path, entry) in &names {
            match entry {
                Entry::Folder => drop(fs::create_dir(path)),
                Entry::File(id) => drop(fs::write(path, self.files[*id].left(power, chance))),
            }
        }
    }
}

impl Contents {
    fn left(&self, power: bool, chance: &mut Chance) -> Vec<u8> {
        if !power {
            return self.written.clone();
        }
        let Some(new) = self.written.strip_prefix(&self.synced[..]) else {
            // The file was truncated.
            return if chance.one_in(2) {
                self.written.clone()
            } else {
                self.synced.clone()
            };
        };
        let kept = usize::try_from(chance.below(new.len() as u64 + 1)).unwrap();
        let mut left = [&self.synced, &new[..kept]].concat();
        if chance.one_in(4) {
            // The new length was stored, but not the bytes.
            left.resize(self.written.len(), 0);
        }
        left
    }
}
