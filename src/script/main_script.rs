//! The main script of a run, by path, by name, or from standard input; and the names of its modules in the run's records.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::source::{MAX_SIZE, Source, normalize};
use super::suggest::suggest;
use super::{added, shipped};
use crate::fault::{Fault, Kind, Result};
use crate::outside::{Bounded, is_too_large};

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
            source: Source::new(&path_key(&file), &added::read(&file)?),
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
        self.shipped || shipped::is_shipped(&self.source.sha256)
    }
}

/// The name of a script that is read from standard input.
pub const STDIN: &str = "-";

/// The text on standard input, which can be read once.
fn standard_input() -> Result<String> {
    static TEXT: OnceLock<Result<String>> = OnceLock::new();
    let read = || {
        let read = Bounded::new(std::io::stdin().lock(), MAX_SIZE).all();
        let bytes = read.map_err(|error| match is_too_large(&error) {
            true => Fault::usage(format!(
                "the script on standard input is larger than {} KiB",
                MAX_SIZE >> 10
            )),
            false => Fault::new(Kind::Io, format!("standard input: {error}")),
        })?;
        String::from_utf8(bytes).map_err(|_| Fault::usage("the script on standard input is not UTF-8"))
    };
    TEXT.get_or_init(read).clone()
}

/// The added script with this name, unless the name is a file or a shipped script.
fn named(script: &Path) -> Result<Option<added::Found>> {
    if script.is_file() {
        return Ok(None);
    }
    added::find(&script.to_string_lossy())
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
        None => {
            let file = added::of_key(name).map_or_else(|| main.root.join(name), |added| added.file);
            added::read(&file).ok()?
        }
    };
    Some(Source::new(name, &text).sha256)
}

/// The files of modules that parameters may name, such as an adapter.
pub fn named_modules(set: &Map<String, Value>) -> impl Iterator<Item = String> {
    let strings = set.values().flat_map(|value| match value {
        Value::Array(values) => values.as_slice(),
        value => std::slice::from_ref(value),
    });
    strings
        .filter_map(Value::as_str)
        .filter(|name| name.contains('/') || name.ends_with(".rhai"))
        .map(|name| format!("{}.rhai", name.trim_end_matches(".rhai")))
}

/// The name of a user's file for people and the journal.
pub(super) fn path_key(path: &Path) -> String {
    let path = normalize(path);
    if let Some(key) = added::key(&path) {
        return key;
    }
    let key = path.display().to_string();
    // A user's own folder `std` must not look like the standard library, nor `@mine` like an added script.
    if key.starts_with("std/") || key.starts_with(added::MARK) {
        format!("./{key}")
    } else {
        key
    }
}
