//! The texts of a run: its main script and every module that it imported, as they were when they were read.
//!
//! Diagnostics quote them, the run folder keeps them. A file is read once, so that what is quoted is what ran.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rhai::Position;
use sha2::{Digest as _, Sha256};

use super::shipped;
use crate::fault::{Fault, Result};

/// Larger files are refused. Parsing cannot be interrupted, and the parser compares every key of a map literal with every
/// other: this bounds it to seconds.
const LARGEST: u64 = 256 << 10;

/// One file of Rhai as it was read.
#[derive(Clone, Debug)]
pub struct Source {
    /// For people, and unique in its run: the path as the user would type it, or `std/search.rhai`.
    pub key: Arc<str>,
    /// Its text.
    pub text: Arc<str>,
    /// SHA-256 of the text, in hexadecimal.
    pub sha256: String,
}

impl Source {
    /// A text under a key.
    #[must_use]
    pub fn new(key: &str, text: &str) -> Self {
        let mut sha256 = String::with_capacity(64);
        for byte in Sha256::digest(text.as_bytes()) {
            // Writing to a string cannot fail.
            let _ = write!(sha256, "{byte:02x}");
        }
        Self {
            key: key.into(),
            text: text.into(),
            sha256,
        }
    }
}

/// A main script and where its relative imports live.
#[derive(Clone, Debug)]
pub struct Main {
    /// The script.
    pub source: Source,
    /// The folder that imports and adapters given by path must stay below.
    pub root: PathBuf,
    /// Whether it ships with the program.
    pub shipped: bool,
}

impl Main {
    /// `script` is a path, or the name of a shipped script (its own imports are `std/…`; a user's adapter is then
    /// looked for in the current folder).
    pub fn open(script: &Path) -> Result<Self> {
        let name = script.to_string_lossy();
        if !script.exists() {
            if let Some(text) = shipped::script(&name) {
                return Ok(Self {
                    source: Source::new(&format!("scripts/{name}.rhai"), &text),
                    root: PathBuf::from("."),
                    shipped: true,
                });
            }
            let fault = Fault::usage(format!("there is no script `{name}`"));
            return Err(match super::nearest::nearest(&name, shipped::scripts()) {
                Some(near) => fault.hint(format!("a shipped script has a similar name: `{near}`")),
                None => fault.hint("give the path of a script, or a name that `profiler list` shows"),
            });
        }
        Ok(Self {
            source: Source::new(&super::resolver::key(script), &read(script)?),
            root: folder(script),
            shipped: false,
        })
    }
}

/// The folder of a script given by path; the current one for the name of a shipped script.
pub(super) fn folder(script: &Path) -> PathBuf {
    match script.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// What a run calls a module: `std/search.rhai`, or its path from the main script's folder.
pub(super) fn module_name(root: &Path, key: &str) -> String {
    if key.starts_with("std/") {
        return key.to_owned();
    }
    let root = super::resolver::key(root);
    let below = Path::new(key).strip_prefix(root).unwrap_or(Path::new(key));
    super::resolver::key(below)
}

/// The hash of a module of `main` as it is now, by the name that its run has for it; none where it is gone.
#[must_use]
pub fn module_hash(main: &Main, name: &str) -> Option<String> {
    let text = match name.strip_prefix("std/") {
        Some(shipped) => shipped::module(shipped.trim_end_matches(".rhai"))?.into_owned(),
        None => read(&main.root.join(name)).ok()?,
    };
    Some(Source::new(name, &text).sha256)
}

/// Reads a script's text, within bounds.
pub(crate) fn read(path: &Path) -> Result<String> {
    let io = |error: std::io::Error| Fault::io(path, &error);
    // Opening a pipe must not wait for its other end.
    let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(io)?;
    if !file.metadata().map_err(io)?.is_file() {
        return Err(Fault::usage(format!("`{}` is not a file", path.display())));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Fault::usage(format!("`{}` is larger than 256 KiB", path.display()))
            .hint("a script is program text; keep data elsewhere"));
    }
    String::from_utf8(bytes).map_err(|_| {
        Fault::usage(format!("`{}` is not UTF-8 text", path.display())).hint("give a script, and save it as UTF-8")
    })
}

/// Every text of a run, by key; and where in them the newest primitive was called.
#[derive(Debug, Default)]
pub struct Sources {
    texts: Mutex<BTreeMap<Arc<str>, Source>>,
    called: Mutex<Option<(String, Position)>>,
}

impl Sources {
    /// Keeps a text; a later one of the same key replaces it (the REPL's lines).
    pub fn insert(&self, source: Source) {
        self.lock().insert(Arc::clone(&source.key), source);
    }

    /// The text of that key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Source> {
        self.lock().get(key).cloned()
    }

    /// Every text, in order of their keys.
    #[must_use]
    pub fn all(&self) -> Vec<Source> {
        self.lock().values().cloned().collect()
    }

    /// A primitive was called there.
    pub(super) fn note_call(&self, key: &str, at: Position) {
        *self.called.lock().unwrap_or_else(PoisonError::into_inner) = Some((key.to_owned(), at));
    }

    /// Where in this text the newest primitive was called, if it was called there.
    pub(super) fn newest_call(&self, key: &str) -> Option<Position> {
        let called = self.called.lock().unwrap_or_else(PoisonError::into_inner);
        called
            .as_ref()
            .filter(|(file, at)| file == key && !at.is_none())
            .map(|(_, at)| *at)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Arc<str>, Source>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
