//! Texts of scripts, and those of a run: its main script and every imported module, as they were read.
//!
//! Each file is read once, so that diagnostics and the run's folder show the text that ran.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use rhai::Position;

use crate::fault::{Fault, Kind, Result};
use crate::file;
use crate::task::lock;

/// Size limit of a script in bytes. Parsing cannot be interrupted and compares every key of a map literal with every
/// other key; the limit bounds it to seconds.
pub(super) const MAX_SIZE: u64 = 256 << 10;

/// A Rhai file as it was read.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name for people, unique in its run: the path as the user would type it, or `std/search.rhai`.
    pub key: Arc<str>,
    /// Its text.
    pub text: Arc<str>,
    /// SHA-256 of the text, in hexadecimal.
    pub sha256: String,
}

impl Source {
    /// Creates a source and hashes its text.
    pub fn new(key: &str, text: &str) -> Self {
        Self {
            key: key.into(),
            text: text.into(),
            sha256: file::sha256(text),
        }
    }
}

/// Removes `.` and inner `..` without accessing the file system.
pub(super) fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match (component, normal.components().next_back()) {
            (Component::CurDir, _) | (Component::ParentDir, Some(Component::RootDir)) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                normal.pop();
            }
            (other, _) => normal.push(other),
        }
    }
    normal
}

/// Reads a script's file, within the size limit.
pub(super) fn bytes(path: &Path) -> Result<Vec<u8>> {
    file::read(path, MAX_SIZE).map_err(|fault| match fault.kind {
        Kind::Limit => Fault::usage(fault.message).hint("a script is program text; keep data elsewhere"),
        _ => fault,
    })
}

/// All texts of a run by key, and the position of the latest API call.
#[derive(Debug, Default)]
pub struct Sources {
    texts: Mutex<BTreeMap<Arc<str>, Source>>,
    called: Mutex<Option<(String, Position)>>,
}

impl Sources {
    /// Adds a text, replacing one with the same key (as for the REPL's lines).
    pub fn insert(&self, source: Source) {
        lock(&self.texts).insert(Arc::clone(&source.key), source);
    }

    /// The text with that key.
    pub fn get(&self, key: &str) -> Option<Source> {
        lock(&self.texts).get(key).cloned()
    }

    /// All texts, sorted by key.
    pub fn all(&self) -> Vec<Source> {
        lock(&self.texts).values().cloned().collect()
    }

    /// All texts except those of the standard library.
    pub fn own(&self) -> impl Iterator<Item = Source> {
        self.all().into_iter().filter(|source| !source.key.starts_with("std/"))
    }

    /// Notes the position of an API call.
    pub(super) fn note_call(&self, key: &str, at: Position) {
        *lock(&self.called) = Some((key.to_owned(), at));
    }

    /// The position of the latest API call, if it was in this file.
    pub(super) fn newest_call(&self, key: &str) -> Option<Position> {
        let called = lock(&self.called).clone();
        called
            .filter(|(file, at)| file == key && !at.is_none())
            .map(|(_, at)| at)
    }
}
