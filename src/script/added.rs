//! Scripts of others that `profiler add` keeps in the user's folder, each file pinned by its hash in `profiler.lock`.
//!
//! They lie in `profiler/scripts/NAME` of the data folder (`$XDG_DATA_HOME`, `~/.local/share`). In a run, their files are
//! called `@NAME/FILE`. Whatever reads one of them compares it with the lock ([`verify`]); what differs is refused.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::fetch::Fetched;
use super::signature::{quoted, suggest};
use super::{Header, shipped, source};
use crate::fault::{Fault, Result};

/// How the key of an added file begins.
pub(super) const MARK: char = '@';

const LOCK: &str = "profiler.lock";

const HEAD: &str =
    "# What `profiler add` added: where from, and the sha256 of each file. `profiler update` changes it.\n\n";

/// What the user added, by name.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// Scripts and folders of scripts.
    #[serde(default, rename = "added")]
    pub all: BTreeMap<String, Added>,
}

/// A script or a folder of scripts that the user added.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Added {
    /// Where from: a path, an address, or a Git address with revision and path.
    pub source: String,
    /// The commit, if it comes from Git.
    pub commit: Option<String>,
    /// The file that its name alone stands for.
    pub main: Option<String>,
    /// The sha256 of each file.
    pub files: BTreeMap<String, String>,
}

/// An added file.
pub(super) struct Found {
    /// The folder that it may import from.
    pub(super) root: PathBuf,
    pub(super) file: PathBuf,
}

fn data() -> Result<PathBuf> {
    let folder = dirs::data_dir().map(|folder| folder.join("profiler"));
    folder.ok_or_else(|| Fault::missing("there is no home to keep scripts in", "set HOME or XDG_DATA_HOME"))
}

/// The folder of all that was added, as it is written in paths; `None` without a home.
fn store() -> Option<PathBuf> {
    Some(data().ok()?.join("scripts"))
}

impl Lock {
    /// Reads the lock; empty if nothing was added yet.
    ///
    /// # Errors
    ///
    /// `io` and `usage` if it cannot be read.
    pub fn read() -> Result<Self> {
        let Ok(path) = data().map(|folder| folder.join(LOCK)) else {
            return Ok(Self::default());
        };
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            read => read.map_err(|error| Fault::io(&path, &error))?,
        };
        toml::from_str(&text).map_err(|error| {
            let (path, why) = (path.display(), error.message());
            Fault::usage(format!("`{path}` is not a lock of profiler: {why}"))
                .hint("remove it together with the folder `scripts` next to it, and add the scripts again")
        })
    }

    /// Keeps this under `name`, in place of what had this name; with `None`, removes that.
    ///
    /// # Errors
    ///
    /// `io` and `missing` if the folder cannot be written.
    pub fn set(name: &str, new: Option<&Fetched>) -> Result<()> {
        let data = data()?;
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error: std::io::Error| Fault::io(&path, &error)
        };
        let folder = data.join("scripts").join(name);
        fs::create_dir_all(data.join("scripts")).map_err(io(&data))?;
        let path = data.join(LOCK);
        // Held until the end: two commands must not lose each other's entry.
        let guard = data.join("profiler.lock.lock");
        let guard = File::create(&guard)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(io(&guard))?;
        let mut lock = Self::read()?;
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(io(&folder))?;
        }
        match new {
            Some(fetched) => {
                fetched.write(&folder)?;
                lock.all.insert(name.to_owned(), fetched.entry.clone());
            }
            None => drop(lock.all.remove(name)),
        }
        let text = toml::to_string(&lock).map_err(Fault::internal)?;
        let mut file = tempfile::NamedTempFile::new_in(&data).map_err(io(&data))?;
        let written = file
            .write_all(format!("{HEAD}{text}").as_bytes())
            .and_then(|()| file.as_file().sync_all());
        written.map_err(io(&path))?;
        file.persist(&path).map_err(|error| Fault::io(&path, &error.error))?;
        drop(guard);
        Ok(())
    }

    /// The entry of that name.
    ///
    /// # Errors
    ///
    /// `usage` if there is none.
    pub fn get(&self, name: &str) -> Result<&Added> {
        let known = self.all.keys().map(String::as_str);
        let fault = || Fault::usage(format!("nothing was added as `{name}`"));
        let missing = || suggest(fault(), name, known, "`profiler list` shows what was");
        self.all.get(name).ok_or_else(missing)
    }
}

impl Added {
    /// Whether all its files are what the lock says.
    pub fn is_intact(&self, name: &str) -> bool {
        let same = |folder: &Path, (file, pinned): (&String, &String)| {
            fs::read(folder.join(file)).is_ok_and(|bytes| source::sha256(&bytes) == *pinned)
        };
        store().is_some_and(|store| self.files.iter().all(|file| same(&store.join(name), file)))
    }

    /// The text of the file that the name alone stands for, if it is as the lock says.
    pub fn text(&self, name: &str) -> Option<String> {
        source::read(&store()?.join(name).join(self.main.as_ref()?)).ok()
    }
}

/// The file that `NAME` or `NAME/FILE` stands for; `None` if no such name was added.
pub(super) fn find(text: &str) -> Result<Option<Found>> {
    let (name, file) = text.split_once('/').unwrap_or((text, ""));
    if check_name(name).is_err() {
        return Ok(None);
    }
    let lock = Lock::read()?;
    let (Some(added), Some(store)) = (lock.all.get(name), store()) else {
        return Ok(None);
    };
    let file = match file {
        "" => added.main.clone(),
        file => Some(format!("{}.rhai", file.trim_end_matches(".rhai"))).filter(|file| added.files.contains_key(file)),
    };
    let Some(file) = file else {
        let scripts = added.files.keys().filter(|file| file.ends_with(".rhai"));
        let names = quoted(scripts.map(|file| format!("{name}/{}", file.trim_end_matches(".rhai"))));
        return Err(
            Fault::usage(format!("`{text}` is no script of what was added as `{name}`"))
                .hint(format!("there are {names}")),
        );
    };
    let root = store.join(name);
    Ok(Some(Found {
        file: root.join(file),
        root,
    }))
}

/// Refuses the bytes of an added file that are not what the lock says. Any other path passes.
pub(super) fn verify(path: &Path, bytes: &[u8]) -> Result<()> {
    let Some(store) = store().and_then(|store| store.canonicalize().ok()) else {
        return Ok(());
    };
    let real = path.canonicalize().map_err(|error| Fault::io(path, &error))?;
    let Ok(below) = real.strip_prefix(&store) else {
        return Ok(());
    };
    let below = below.display().to_string();
    let (name, file) = below.split_once('/').unwrap_or((&below, ""));
    let lock = Lock::read()?;
    let pinned = lock.all.get(name).and_then(|added| added.files.get(file));
    if pinned == Some(&source::sha256(bytes)) {
        return Ok(());
    }
    let why = match pinned {
        Some(_) => "has changed since it was added",
        None => "was not added",
    };
    Err(Fault::not_allowed(
        format!("`{MARK}{below}` {why}: it is not what `profiler.lock` says"),
        format!("`profiler update {name}` fetches it again; to work on a copy of your own, copy it elsewhere"),
    ))
}

/// `@NAME/FILE` for an added file, as its key in a run.
pub(super) fn key(path: &Path) -> Option<String> {
    let below = path.strip_prefix(store()?).ok()?;
    Some(format!("{MARK}{}", below.display()))
}

/// The path of a key `@NAME/FILE`, and the folder `NAME`.
pub(super) fn of_key(key: &str) -> Option<Found> {
    let below = key.strip_prefix(MARK)?;
    let store = store()?;
    let root = store.join(below.split('/').next()?);
    Some(Found {
        file: store.join(below),
        root,
    })
}

/// The version that an added script says it has; `None` if nothing was added by that name.
pub(super) fn version(name: &str) -> Option<Option<String>> {
    let lock = Lock::read().ok()?;
    let text = lock.all.get(name)?.text(name);
    Some(text.and_then(|text| Header::of(&text).version))
}

/// Fails unless this can name what is added.
pub(super) fn check_name(name: &str) -> Result<()> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) || name.starts_with('-') {
        return Err(Fault::usage(format!("`{name}` cannot name a script"))
            .hint("give letters, digits, `_` and `-`: --name NAME"));
    }
    if name == "std" || name == "profiler" || shipped::scripts().any(|shipped| shipped == name) {
        return Err(Fault::usage(format!("`{name}` ships with profiler")).hint("give another name: --name NAME"));
    }
    Ok(())
}
