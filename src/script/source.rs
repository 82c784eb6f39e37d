//! The texts of a run: its main script and every imported module, as they were read.
//!
//! Each file is read once, so that diagnostics and the run's folder show the text that ran.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use rhai::Position;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::signature::suggest;
use super::{added, shipped};
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
            sha256: sha256(text.as_bytes()),
        }
    }
}

/// SHA-256 in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A main script and the folder of its relative imports.
#[derive(Clone, Debug)]
pub struct Main {
    /// The script.
    pub source: Source,
    /// Imports and adapters given by path must be below this folder.
    pub root: PathBuf,
    /// Whether it ships with the program.
    pub shipped: bool,
}

impl Main {
    /// Opens a path, or a shipped or added script by name. A shipped script imports only `std/…`; adapter paths are then
    /// relative to the current folder.
    pub fn open(script: &Path) -> Result<Self> {
        let name = script.to_string_lossy();
        if name == STDIN {
            return Ok(Self::from_input(&standard_input()?));
        }
        // A folder is not a script. `--out adaptive`, for example, creates one.
        if !script.is_file()
            && let Some(text) = shipped::script(&name)
        {
            return Ok(Self {
                source: Source::new(&format!("scripts/{name}.rhai"), &text),
                root: PathBuf::from("."),
                shipped: true,
            });
        }
        let added = named(script)?;
        if added.is_none() && !script.exists() {
            let fault = Fault::usage(format!("there is no script `{name}`"));
            let own = format!("{name}.rhai");
            if Path::new(&own).is_file() {
                return Err(fault.hint(format!("the file here is `{own}`: name it as it is")));
            }
            let otherwise = "give the path of a script, or a name that `profiler list` shows";
            let lock = added::Lock::read()?;
            let mut known: Vec<&str> = lock.all.keys().map(String::as_str).collect();
            known.extend(shipped::scripts().map(|name| -> &str { name }));
            return Err(suggest(fault, &name, known, otherwise));
        }
        let (file, root) = match added {
            Some(added) => (added.file, added.root),
            None => (script.to_owned(), folder(script)),
        };
        Ok(Self {
            source: Source::new(&path_key(&file), &read(&file)?),
            root,
            shipped: false,
        })
    }

    /// A script from standard input.
    pub fn from_input(text: &str) -> Self {
        Self {
            source: Source::new(STDIN, text),
            root: PathBuf::from("."),
            shipped: false,
        }
    }

    /// Whether its text equals that of a shipped script, even if it was given by path.
    pub fn has_shipped_text(&self) -> bool {
        self.shipped || is_shipped(&self.source.sha256)
    }
}

/// The name of a script that is read from standard input.
pub const STDIN: &str = "-";

/// The text on standard input, which can be read once.
fn standard_input() -> Result<String> {
    static TEXT: OnceLock<Result<String>> = OnceLock::new();
    let read = || {
        let mut bytes = Vec::new();
        let stdin = std::io::stdin().lock();
        stdin
            .take(MAX_SIZE + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| Fault::new(Kind::Io, format!("standard input: {error}")))?;
        if bytes.len() as u64 > MAX_SIZE {
            return Err(Fault::usage(format!(
                "the script on standard input is larger than {} KiB",
                MAX_SIZE >> 10
            )));
        }
        String::from_utf8(bytes).map_err(|_| Fault::usage("the script on standard input is not UTF-8"))
    };
    TEXT.get_or_init(read).clone()
}

/// Whether a shipped script has this hash.
pub fn is_shipped(sha256: &str) -> bool {
    let same = |name| shipped::script(name).is_some_and(|text| Source::new(name, &text).sha256 == sha256);
    shipped::scripts().any(same)
}

/// The added script with this name, unless the name is a file or a shipped script.
fn named(script: &Path) -> Result<Option<added::Found>> {
    match script.is_file() {
        true => Ok(None),
        false => added::find(&script.to_string_lossy()),
    }
}

/// The folder of a script, or of an added script with that name; the current folder for a shipped script.
pub(super) fn folder(script: &Path) -> PathBuf {
    if let Ok(Some(added)) = named(script) {
        return added.root;
    }
    match script.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The name of a module in the run's records: `std/search.rhai`, or its path relative to the main script's folder.
pub(super) fn module_name(root: &Path, key: &str) -> String {
    if key.starts_with("std/") || key.starts_with(added::MARK) {
        return key.to_owned();
    }
    let root = path_key(root);
    let below = Path::new(key).strip_prefix(root).unwrap_or(Path::new(key));
    path_key(below)
}

/// The current hash of a module, by its name in the run's records; `None` if it cannot be read.
pub fn module_hash(main: &Main, name: &str) -> Option<String> {
    let text = match name.strip_prefix("std/") {
        Some(shipped) => shipped::module(shipped.trim_end_matches(".rhai"))?.into_owned(),
        None => match added::of_key(name) {
            Some(added) => read(&added.file).ok()?,
            None => read(&main.root.join(name)).ok()?,
        },
    };
    Some(Source::new(name, &text).sha256)
}

/// The files of modules that parameters may name, such as an adapter.
pub fn named_modules(set: &Map<String, Value>) -> impl Iterator<Item = String> {
    let strings = set.values().flat_map(|value| match value {
        Value::Array(values) => values.as_slice(),
        value => std::slice::from_ref(value),
    });
    let names = strings.filter_map(Value::as_str);
    let names = names.filter(|name| name.contains('/') || name.ends_with(".rhai"));
    names.map(|name| format!("{}.rhai", name.trim_end_matches(".rhai")))
}

/// The name of a user's file for people and the journal.
pub(super) fn path_key(path: &Path) -> String {
    let path = normalize(path);
    if let Some(key) = added::key(&path) {
        return key;
    }
    let key = path.display().to_string();
    // A user's own folder `std` must not look like the standard library, nor `@mine` like an added script.
    match key.starts_with("std/") || key.starts_with(added::MARK) {
        true => format!("./{key}"),
        false => key,
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

/// Reads a script's text, within the size limit.
pub(crate) fn read(path: &Path) -> Result<String> {
    let bytes = bytes(path)?;
    added::verify(path, &bytes)?;
    String::from_utf8(bytes).map_err(|_| {
        Fault::usage(format!("`{}` is not UTF-8 text", path.display())).hint("give a script, and save it as UTF-8")
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
