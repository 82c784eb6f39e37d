//! Scripts by others that `profiler add` stores in the user's folder, each file pinned by its hash in `profiler.lock`.
//!
//! They are stored in `profiler/scripts/NAME` of the data folder (`$XDG_DATA_HOME`, `~/.local/share`). In a run, their
//! keys are `@NAME/FILE`. Every read compares the file with the lock ([`verify`]) and refuses a different one.
//!
//! They are fetched from a file, a folder, an https address, or a Git repository. The number and the sizes of files are
//! limited.

mod files;
mod git;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use self::files::{Files, MAX_FILE, check_size, collect, file_name, is_taken};
use self::git::Git;

use super::header::Header;
use super::suggest::{quoted, suggest};
use super::{shipped, source};
use crate::fault::{Fault, Kind, Result};
use crate::file;
use crate::home;
use crate::http;
use crate::run::{Folder, holds_secret};
use crate::task::Tasks;
use crate::temporary::Temporary;

/// The first character of an added file's key.
pub(super) const MARK: char = '@';

const LOCK: &str = "profiler.lock";

/// Most bytes of the lock: thousands of scripts.
const MAX_LOCK: u64 = 4 << 20;

const HEAD: &str =
    "# What `profiler add` added: where from, and the sha256 of each file. `profiler update` changes it.\n\n";

/// The scripts that the user added, by name.
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
    /// The origin: a path, an address, or a Git address with revision and path.
    pub source: String,
    /// The commit, if it comes from Git.
    pub commit: Option<String>,
    /// The file to run if only the name is given.
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
    let folder = home::data().map(|folder| folder.join("profiler"));
    folder.ok_or_else(|| Fault::missing("there is no home to keep scripts in", "set HOME or XDG_DATA_HOME"))
}

/// The folder of all added scripts, as written in paths; `None` without a home folder.
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
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = String::from_utf8_lossy(&file::read(&path, MAX_LOCK)?).into_owned();
        let unusable = |why: &str| {
            Fault::usage(format!("`{}` is not a lock of profiler: {why}", path.display()))
                .hint("remove it together with the folder `scripts` next to it, and add the scripts again")
        };
        let lock: Self = toml::from_str(&text).map_err(|error| unusable(error.message()))?;
        // Names and files become paths, so whoever wrote the lock must not choose other ones.
        for (name, added) in &lock.all {
            let files = added.files.keys().chain(&added.main);
            if !is_plain(name) || !files.into_iter().all(|file| is_taken(file)) {
                return Err(unusable("a name in it leads elsewhere"));
            }
        }
        Ok(lock)
    }

    /// Stores a script under `name`, replacing the previous one; `None` removes it. If anything fails, the previous one
    /// stays.
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
        let scripts = data.join("scripts");
        let folder = scripts.join(name);
        fs::create_dir_all(&scripts).map_err(io(&data))?;
        // Held until the end: two commands must not lose each other's entry.
        let guard = data.join("profiler.lock.lock");
        let guard = File::create(&guard)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(io(&guard))?;
        let mut lock = Self::read()?;
        // A name that begins with a dot is none of a script.
        let made = Temporary::folder_in(&scripts, ".new-")?;
        // A signal between the two renames must not remove the only copy.
        let old = tempfile::Builder::new().prefix(".old-").tempdir_in(&scripts);
        let old = old.map_err(io(&scripts))?;
        let (made_at, old_at) = (made.path().join("it"), old.path().join("it"));
        match new {
            Some(fetched) => {
                fetched.write(&made_at)?;
                lock.all.insert(name.to_owned(), fetched.entry.clone());
            }
            None => drop(lock.all.remove(name)),
        }
        let text = toml::to_string(&lock).map_err(Fault::internal)?;
        let had = fs::symlink_metadata(&folder).is_ok();
        if had {
            fs::rename(&folder, &old_at).map_err(io(&folder))?;
        }
        let placed = match new {
            Some(_) => fs::rename(&made_at, &folder).map_err(io(&folder)),
            None => Ok(()),
        };
        let written = placed.and_then(|()| {
            Folder::open(&data)?.replace(Path::new(LOCK), |file| {
                file.write_all(format!("{HEAD}{text}").as_bytes())
            })
        });
        if written.is_err() {
            let _ = fs::rename(&folder, &made_at);
            if had {
                fs::rename(&old_at, &folder).map_err(io(&folder))?;
            }
        }
        drop(guard);
        written
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
    /// Whether all its files match the lock.
    pub fn is_intact(&self, name: &str) -> bool {
        let same = |folder: &Path, (name, pinned): (&String, &String)| {
            let path = folder.join(name);
            let own = fs::symlink_metadata(&path).is_ok_and(|data| data.is_file());
            own && file::read(&path, MAX_FILE).is_ok_and(|bytes| file::sha256(&bytes) == *pinned)
        };
        store().is_some_and(|store| self.files.iter().all(|file| same(&store.join(name), file)))
    }

    /// The tag, branch or commit that its address names.
    pub fn revision(&self) -> Option<String> {
        let git = Git::parse(&self.source)?;
        Some(git.revision).filter(|revision| revision != "HEAD")
    }

    /// The text of its main file, if that matches the lock.
    pub fn text(&self, name: &str) -> Option<String> {
        read(&store()?.join(name).join(self.main.as_ref()?)).ok()
    }
}

/// The file for `NAME` or `NAME/FILE`; `None` if no such name was added.
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

/// Reads a script's text, within the size limit.
pub(crate) fn read(path: &Path) -> Result<String> {
    let bytes = source::bytes(path)?;
    verify(path, &bytes)?;
    String::from_utf8(bytes).map_err(|_| {
        Fault::usage(format!("`{}` is not UTF-8 text", path.display())).hint("give a script, and save it as UTF-8")
    })
}

/// Refuses the bytes of an added file that do not match the lock. Accepts any path that neither is nor leads into the
/// folder of added scripts.
fn verify(path: &Path, bytes: &[u8]) -> Result<()> {
    let Some(store) = store() else { return Ok(()) };
    let Ok(real_store) = store.canonicalize() else {
        return Ok(());
    };
    let io = |error: std::io::Error| Fault::io(path, &error);
    let real = path.canonicalize().map_err(io)?;
    let written = source::normalize(&std::path::absolute(path).map_err(io)?);
    // A link in the folder is refused by its own name, wherever it leads.
    let inside = written
        .strip_prefix(&store)
        .or_else(|_| written.strip_prefix(&real_store));
    let Ok(below) = inside.or_else(|_| real.strip_prefix(&real_store)) else {
        return Ok(());
    };
    let is_link = real != real_store.join(below);
    let below = below.display().to_string();
    let (name, file) = below.split_once('/').unwrap_or((&below, ""));
    let lock = Lock::read()?;
    let pinned = lock.all.get(name).and_then(|added| added.files.get(file));
    if !is_link && pinned == Some(&file::sha256(bytes)) {
        return Ok(());
    }
    let why = match pinned {
        Some(_) if is_link => "is a link",
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

/// The version in the header of an added script; `None` if there is no such script.
pub(super) fn version(name: &str) -> Option<Option<String>> {
    let lock = Lock::read().ok()?;
    let text = lock.all.get(name)?.text(name);
    Some(text.and_then(|text| Header::parse(&text).version))
}

/// Whether a name can be that of a folder of scripts.
fn is_plain(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    !name.is_empty() && name.len() <= 64 && name.chars().all(plain) && !name.starts_with('-')
}

/// Fails if this is not a valid name for an added script.
pub(super) fn check_name(name: &str) -> Result<()> {
    if !is_plain(name) {
        return Err(Fault::usage(format!("`{name}` cannot name a script"))
            .hint("give letters, digits, `_` and `-`: --name NAME"));
    }
    if name == "std" || name == "profiler" || shipped::scripts().any(|shipped| shipped == name) {
        return Err(Fault::usage(format!("`{name}` ships with profiler")).hint("give another name: --name NAME"));
    }
    Ok(())
}

/// Scripts as they were fetched.
#[derive(Debug)]
pub struct Fetched {
    /// The default name, from the file or folder.
    pub name: String,
    /// Its entry in the lock.
    pub entry: Added,
    files: Files,
}

/// Fetches the scripts at `text`: a path, an https address, or `[git+]ADDRESS[@REVISION][#PATH]`.
///
/// # Errors
///
/// `usage` if there is nothing that can be added; `io`, `http` and `missing` if it cannot be fetched.
pub fn fetch(text: &str, tasks: &Tasks) -> Result<Fetched> {
    if holds_secret(text) {
        return Err(
            Fault::usage("the address holds a secret, and `profiler.lock` keeps addresses").hint(
                "Git's credential helper knows passwords; for a file, download it and add that: profiler add FILE",
            ),
        );
    }
    if let Some(git) = Git::parse(text) {
        if let Ok(url) = Url::parse(&git.address) {
            check_transport(&url)?;
        }
        let (commit, files) = git.fetch(tasks)?;
        return Fetched::new(text, git.place(), Some(commit), files);
    }
    if text.starts_with("https://") || text.starts_with("http://") {
        return download(text, tasks);
    }
    let path = Path::new(text);
    let real = path.canonicalize().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Fault::usage(format!("there is no file or folder `{text}`"))
            .hint("give a path, an https address, or git+ADDRESS[@REVISION][#PATH]"),
        _ => Fault::io(path, &error),
    })?;
    let mut files = Files::new();
    if real.is_dir() {
        collect(&real, "", &mut files)?;
    } else {
        files.insert(file_name(text), read(&real)?.into_bytes());
    }
    Fetched::new(&real.display().to_string(), &real.display().to_string(), None, files)
}

impl Fetched {
    /// `place` is the text that ends with the name of the file or folder.
    fn new(source: &str, place: &str, commit: Option<String>, files: Files) -> Result<Self> {
        let named = file_name(place);
        let name = named.trim_end_matches(".rhai").trim_end_matches(".git");
        let scripts: Vec<&String> = files.keys().filter(|file| file.ends_with(".rhai")).collect();
        if scripts.is_empty() {
            return Err(Fault::usage(format!("`{source}` has no script"))
                .hint("give a file that ends in .rhai, or a folder with such files"));
        }
        let top: Vec<&String> = scripts.into_iter().filter(|file| !file.contains('/')).collect();
        let wanted = [format!("{name}.rhai"), "main.rhai".to_owned()];
        let only = || (top.len() == 1).then(|| top[0]);
        let main = wanted.iter().find(|wanted| top.contains(wanted)).or_else(only);
        let pin = |(name, bytes): (&String, &Vec<u8>)| (name.clone(), file::sha256(bytes));
        let entry = Added {
            source: source.to_owned(),
            commit,
            main: main.cloned(),
            files: files.iter().map(pin).collect(),
        };
        let name = name.to_owned();
        Ok(Self { name, entry, files })
    }

    /// The header of its main file.
    pub fn header(&self) -> Header {
        let text = self.entry.main.as_ref().and_then(|main| self.files.get(main));
        text.map(|text| Header::parse(&String::from_utf8_lossy(text)))
            .unwrap_or_default()
    }

    /// The scripts that can be run, by their names below the folder.
    pub fn scripts(&self) -> impl Iterator<Item = &str> {
        let names = self.files.keys().map(String::as_str);
        names.filter(|name| name.ends_with(".rhai") && !name.contains('/'))
    }

    /// Changes its name.
    ///
    /// # Errors
    ///
    /// `usage` for a name that ships with the program, or that has characters other than letters, digits, `_` and `-`.
    pub fn named(mut self, name: Option<&str>) -> Result<Self> {
        if let Some(name) = name {
            self.name = name.to_owned();
        }
        check_name(&self.name).map(|()| self)
    }

    /// Writes the files below a folder, which is created.
    ///
    /// # Errors
    ///
    /// `io` and `missing` if they cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        for (name, bytes) in &self.files {
            let path = folder.join(name);
            let parent = path.parent().unwrap_or(folder);
            let written = fs::create_dir_all(parent).and_then(|()| {
                let mut file = File::create_new(&path)?;
                file.write_all(bytes)?;
                file.sync_all()
            });
            written.map_err(|error| Fault::io(&path, &error))?;
        }
        Ok(())
    }
}

/// How long a download may take.
const TIME: Duration = Duration::from_secs(60);

/// Downloads a file. The result is pinned, so only the first download must be trusted, as far as https is.
fn download(address: &str, tasks: &Tasks) -> Result<Fetched> {
    let url = Url::parse(address).map_err(|error| Fault::usage(format!("`{address}` is no address: {error}")))?;
    let loopback = check_transport(&url)?;
    if url.password().is_some() || !url.path().ends_with(".rhai") {
        return Err(Fault::usage(format!("`{}` is not the address of a script", url.path()))
            .hint("give one without a password that ends in .rhai; a repository is git+ADDRESS[@REVISION][#PATH]"));
    }
    let client = http::build(http::external().timeout(TIME).https_only(!loopback))?;
    let failed = |error: reqwest::Error| Fault::new(Kind::Http, format!("`{address}`: {}", http::root(&error)));
    let (text, cut) = tasks.wait(async {
        let answer = client.get(url.clone()).send().await.map_err(failed)?;
        if !answer.status().is_success() {
            let message = format!("`{address}` answers {}", answer.status());
            return Err(Fault::new(Kind::Http, message));
        }
        http::text(answer, MAX_FILE as usize).await.map_err(failed)
    })?;
    check_size(address, if cut { MAX_FILE + 1 } else { 0 })?;
    let files = Files::from([(file_name(url.path()), text.into_bytes())]);
    Fetched::new(address, url.path(), None, files)
}

/// Refuses an address whose contents can be changed in transit. Returns whether it is on this machine.
fn check_transport(url: &Url) -> Result<bool> {
    let loopback = matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"));
    if url.scheme() == "http" && !loopback {
        return Err(Fault::usage(format!("`{url}` can be changed on its way")).hint("give its https address"));
    }
    Ok(loopback)
}
