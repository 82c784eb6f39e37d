//! The Hugging Face hub and its local cache. The cache is compatible with the hub's Python library: it uses the same
//! environment variables and folders, so each program finds the other's downloads.
//!
//! In the cache, `models--org--name/refs/main` names the commit of `main`, `snapshots/COMMIT/FILE` is a link to
//! `../../blobs/ETAG`, and `blobs/ETAG` is the content. Files appear atomically: they are written under a temporary
//! name and renamed.

mod fetch;
mod weights;

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use std::{fmt, fs};

use tempfile::NamedTempFile;
use url::Url;

use crate::fault::{Fault, Result};
use crate::task::lock;
use crate::{file, home};

/// The public hub.
const ENDPOINT: &str = "https://huggingface.co";
/// Pause before the first retry; it doubles for each further one.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Without an answer for this long, the hub counts as unreachable.
const PATIENCE: Duration = Duration::from_secs(2);

/// The Hugging Face hub and its cache.
#[derive(Clone, Debug)]
pub struct Hub {
    /// `HF_ENDPOINT`: the hub or a mirror.
    pub endpoint: Url,
    /// `HF_HUB_CACHE`, or `hub` in `HF_HOME`: the cache folder.
    pub cache: PathBuf,
    /// `HF_TOKEN`, or the file `token` in `HF_HOME`.
    pub token: Option<Secret>,
    /// `HF_HUB_OFFLINE`: use only the cache.
    pub offline: bool,
    /// Pause before the first retry of a failed request.
    pub retry_pause: Duration,
    /// `HF_HUB_ETAG_TIMEOUT`: how long to wait for the first answer of the hub.
    pub patience: Duration,
}

/// Settings of the command line, which win over the environment.
#[derive(Clone, Debug, Default)]
struct Given {
    home: Option<PathBuf>,
    token: Option<Secret>,
    /// Their texts, as typed.
    typed: Vec<String>,
}

static GIVEN: Mutex<Option<Given>> = Mutex::new(None);

/// Largest file of a token, in bytes.
const LARGEST_TOKEN: u64 = 64 << 10;

impl Hub {
    /// The settings from the environment, and from the command line where it has others.
    ///
    /// # Errors
    ///
    /// `usage` if `HF_ENDPOINT` is no HTTP URL; `missing` if there is no folder for the cache.
    pub fn from_env() -> Result<Self> {
        let given = lock(&GIVEN).clone().unwrap_or_default();
        let variable = |name: &str| match name {
            "HF_HOME" if given.home.is_some() => Some(given.home.as_ref()?.to_str()?.to_owned()),
            "HF_HUB_CACHE" | "HUGGINGFACE_HUB_CACHE" if given.home.is_some() => None,
            "HF_TOKEN" if given.token.is_some() => Some(given.token.as_ref()?.reveal().to_owned()),
            name => std::env::var(name).ok(),
        };
        Self::from_variables(variable, home::cache())
    }

    /// Sets the folder that the environment names by `HF_HOME`, and reads the token from the environment variable or
    /// file `token`, for this process from now on.
    ///
    /// # Errors
    ///
    /// `usage` for a folder that is none; `missing` without such a variable or file. The message leaves `token` out,
    /// because it may be a token.
    pub fn give(home: Option<&str>, token: Option<&str>) -> Result<()> {
        let mut given = Given {
            typed: [home, token].into_iter().flatten().map(str::to_owned).collect(),
            ..Given::default()
        };
        if let Some(home) = home {
            let path = std::path::absolute(home).map_err(|error| Fault::usage(format!("`hf_home`: {error}")))?;
            if path.exists() && !path.is_dir() || path.to_str().is_none() {
                return Err(Fault::usage(format!("`hf_home` is `{home}`, which is no folder")));
            }
            given.home = Some(path);
        }
        if let Some(token) = token {
            let read = match std::env::var(token) {
                Ok(value) => Some(value),
                Err(_) if Path::new(token).is_file() => {
                    String::from_utf8(file::read(Path::new(token), LARGEST_TOKEN)?).ok()
                }
                Err(_) => None,
            };
            given.token = read.and_then(Secret::new);
            if given.token.is_none() {
                return Err(Fault::missing(
                    "`hf_token_env` names no environment variable and no file that holds a token",
                    "give the name of one, never the token itself: --hf-token-env HF_TOKEN, --hf-token-env ./token",
                ));
            }
        }
        *lock(&GIVEN) = Some(given);
        Ok(())
    }

    /// Whether the command line gave this folder, or this name of the token.
    pub(crate) fn was_given(text: &str) -> bool {
        let given = lock(&GIVEN);
        given.iter().flat_map(|given| &given.typed).any(|typed| typed == text)
    }

    /// The variables by which other programs find the folder of the command line, if it names one.
    pub(crate) fn given_variables() -> Vec<(String, String)> {
        let home = lock(&GIVEN).as_ref().and_then(|given| given.home.clone());
        let text = |path: PathBuf| path.display().to_string();
        home.map_or_else(Vec::new, |home| {
            vec![
                ("HF_HUB_CACHE".to_owned(), text(home.join("hub"))),
                ("HF_HOME".to_owned(), text(home)),
            ]
        })
    }

    /// The settings from these variables; `caches` is the user's cache folder.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>, caches: Option<PathBuf>) -> Result<Self> {
        let first = |names: &[&str]| {
            let mut values = names.iter().filter_map(|name| variable(name));
            values.find(|value| !value.trim().is_empty())
        };
        // tgi-profiler calls this variable HF_DIR.
        let home = first(&["HF_HOME", "HF_DIR"])
            .map(PathBuf::from)
            .or_else(|| Some(caches?.join("huggingface")))
            .ok_or_else(|| Fault::missing("no folder for the cache of models", "set HF_HOME"))?;
        let token = first(&["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]).or_else(|| {
            let file = first(&["HF_TOKEN_PATH"]).map_or_else(|| home.join("token"), PathBuf::from);
            std::fs::read_to_string(file).ok()
        });
        Ok(Self {
            endpoint: endpoint(first(&["HF_ENDPOINT"]).as_deref())?,
            cache: first(&["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"]).map_or_else(|| home.join("hub"), PathBuf::from),
            token: token.and_then(Secret::new),
            offline: first(&["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"]).is_some_and(|value| is_true(&value)),
            retry_pause: RETRY_PAUSE,
            patience: first(&["HF_HUB_ETAG_TIMEOUT"])
                .and_then(|value| Duration::try_from_secs_f64(value.trim().parse().ok()?).ok())
                .unwrap_or(PATIENCE),
        })
    }
}

/// Hubs that could not be reached, with the time and the reason, so that other requests need not wait again.
static UNREACHABLE: Mutex<BTreeMap<String, (Instant, String)>> = Mutex::new(BTreeMap::new());
/// Time until an unreachable hub is tried again, because a network may come back.
const FORGOTTEN: Duration = Duration::from_secs(60);

impl Hub {
    /// The reason why this hub could not be reached a moment ago.
    pub(super) fn unreachable(&self) -> Option<String> {
        let hubs = lock(&UNREACHABLE);
        let (since, why) = hubs.get(self.endpoint.as_str())?;
        (since.elapsed() < FORGOTTEN).then(|| why.clone())
    }

    pub(super) fn note_unreachable(&self, why: &str) {
        lock(&UNREACHABLE).insert(self.endpoint.to_string(), (Instant::now(), why.to_owned()));
    }
}

/// Prints a line about what the program is waiting for.
static TELL: OnceLock<fn(&str)> = OnceLock::new();
/// Shorter waits are not reported.
const UNTOLD: Duration = Duration::from_millis(500);

/// Sets the function that reports waits for the hub. Without one, waits are silent.
pub fn tell_waits(tell: fn(&str)) {
    // A second call of the program in the same process sets the same function.
    let _ = TELL.set(tell);
}

/// Waits for the answer, and reports `what` if that takes long.
pub(super) async fn with_wait_notice<T>(answer: impl Future<Output = T>, what: &str) -> T {
    let mut answer = std::pin::pin!(answer);
    match tokio::time::timeout(UNTOLD, &mut answer).await {
        Ok(answer) => answer,
        Err(_) => {
            if let Some(tell) = TELL.get() {
                tell(what);
            }
            answer.await
        }
    }
}

fn endpoint(text: Option<&str>) -> Result<Url> {
    let text = text.unwrap_or(ENDPOINT);
    // The URL may contain a password, so it is not printed.
    Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| Fault::usage("HF_ENDPOINT is not an HTTP address").hint(format!("for example {ENDPOINT}")))
}

fn is_true(value: &str) -> bool {
    ["1", "on", "yes", "true"].contains(&value.trim().to_ascii_lowercase().as_str())
}

/// Maximum length of a name on the hub.
const LONGEST: usize = 96;

/// A model on the hub, at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelId {
    /// `org/name`; old models have no `org`.
    pub name: String,
    /// A branch, a tag or a commit.
    pub revision: String,
}

impl ModelId {
    /// Its folder in the cache.
    pub fn folder(&self) -> String {
        format!("models--{}", self.name.replace('/', "--"))
    }
}

impl FromStr for ModelId {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self> {
        let (name, revision) = text.split_once('@').unwrap_or((text, "main"));
        let parts: Vec<&str> = name.split('/').collect();
        let good = parts.len() <= 2
            && name.len() <= LONGEST
            && parts.iter().all(|part| is_part(part))
            && is_revision(revision);
        if !good {
            return Err(Fault::usage(format!(
                "`{text}` is not a model of the hub, nor a file or folder that is there"
            ))
            .hint("a model is `org/name` or `org/name@revision`; a folder holds `tokenizer.json`"));
        }
        Ok(Self {
            name: name.to_owned(),
            revision: revision.to_owned(),
        })
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.revision.as_str() {
            "main" => f.write_str(&self.name),
            revision => write!(f, "{}@{revision}", self.name),
        }
    }
}

/// Letters, digits, `-`, `_` and `.`, without anything that escapes a folder or is ambiguous in the cache.
fn is_part(part: &str) -> bool {
    !part.is_empty()
        && part
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && !part.starts_with(['-', '.'])
        && !part.ends_with(['-', '.'])
        && !part.contains("..")
        && !part.contains("--")
}

/// Branches may contain slashes: `refs/pr/1`.
fn is_revision(revision: &str) -> bool {
    revision.len() <= LONGEST && revision.split('/').all(is_part)
}

/// The hub's token. It has no `Display`, and `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret without surrounding white space; `None` if nothing is left.
    pub fn new(text: impl AsRef<str>) -> Option<Self> {
        let text = text.as_ref().trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// The value, for sending it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// One model in the cache.
#[derive(Clone, Debug)]
pub(super) struct CacheEntry {
    folder: PathBuf,
    revision: String,
}

impl CacheEntry {
    pub(super) fn new(cache: &Path, model: &ModelId) -> Self {
        Self {
            folder: cache.join(model.folder()),
            revision: model.revision.clone(),
        }
    }

    /// The snapshot folder of the revision, if it contains `file`.
    pub(super) fn snapshot_with(&self, file: &str) -> Option<PathBuf> {
        let snapshot = self.snapshot(&self.known_revision());
        snapshot.join(file).is_file().then_some(snapshot)
    }

    /// The cached commit of the revision.
    pub(super) fn commit(&self) -> Option<String> {
        let commit = fs::read_to_string(self.reference()).ok()?;
        Some(commit.trim().to_owned()).filter(|commit| is_commit(commit))
    }

    /// The cached commit of the revision, else the revision itself.
    pub(super) fn known_revision(&self) -> String {
        self.commit().unwrap_or_else(|| self.revision.clone())
    }

    /// The folder of a commit's files.
    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// The path of content by its hash, or of a file that will become it.
    pub(super) fn blob(&self, name: &str) -> Result<PathBuf> {
        let blobs = self.folder.join("blobs");
        make_folder(&blobs)?;
        Ok(blobs.join(name))
    }

    /// A temporary file on the file system of [`CacheEntry::keep`]'s destination.
    pub(super) fn temp_file(&self) -> Result<NamedTempFile> {
        let blobs = self.blob("")?;
        NamedTempFile::new_in(&blobs).map_err(|error| Fault::io(&blobs, &error))
    }

    /// Stores complete content as `file` of this commit. `path` lies on the same file system.
    pub(super) fn keep(&self, path: &Path, etag: &str, commit: &str, file: &str) -> Result<()> {
        let blob = self.blob(etag)?;
        fs::rename(path, &blob).map_err(|error| Fault::io(&blob, &error))?;
        readable_by_all(&blob)?;
        self.link(etag, commit, file)
    }

    /// Links the content with this hash as `file` of this commit.
    pub(super) fn link(&self, etag: &str, commit: &str, file: &str) -> Result<()> {
        let snapshot = self.snapshot(commit);
        make_folder(&snapshot)?;
        let link = snapshot.join(file);
        let temporary = snapshot.join(format!(".{file}.{}", std::process::id()));
        let _left_by_a_killed_run = fs::remove_file(&temporary);
        symlink(Path::new("../../blobs").join(etag), &temporary).map_err(|error| Fault::io(&temporary, &error))?;
        fs::rename(&temporary, &link).map_err(|error| Fault::io(&link, &error))
    }

    /// Records the commit of the revision.
    pub(super) fn point_at(&self, commit: &str) -> Result<()> {
        if commit == self.revision {
            return Ok(());
        }
        let reference = self.reference();
        let folder = reference.parent().unwrap_or(&self.folder);
        make_folder(folder)?;
        let write = || {
            let mut file = NamedTempFile::new_in(folder)?;
            file.write_all(commit.as_bytes())?;
            file.persist(&reference)?;
            Ok::<(), std::io::Error>(())
        };
        write().map_err(|error| Fault::io(&reference, &error))?;
        readable_by_all(&reference)
    }

    fn reference(&self) -> PathBuf {
        self.folder.join("refs").join(&self.revision)
    }
}

/// Whether this is a commit hash. Nothing else from a server becomes a folder name.
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| {
        let fault = Fault::io(path, &error);
        match fault.hint {
            Some(_) => fault,
            None => fault.hint("set HF_HOME to a folder that can be written"),
        }
    })
}

/// Temporary files are private to their owner, but containers with other users share the cache.
fn readable_by_all(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).map_err(|error| Fault::io(path, &error))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn hub(variables: &[(&str, &str)]) -> Result<Hub> {
        let find = |name: &str| {
            let entry = variables.iter().find(|(entry, _)| *entry == name);
            entry.map(|(_, value)| (*value).to_owned())
        };
        Hub::from_variables(find, Some("/caches".into()))
    }

    #[test]
    fn without_variables_it_is_the_public_hub_and_the_users_cache() {
        let hub = hub(&[]).unwrap();
        assert_eq!(hub.endpoint.as_str(), "https://huggingface.co/");
        assert_eq!(hub.cache, Path::new("/caches/huggingface/hub"));
        assert!(!hub.offline && hub.token.is_none());
    }

    #[test]
    fn variables_are_honoured() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "from-file\n").unwrap();
        let home = folder.path().to_str().unwrap();
        let token = |hub: Hub| hub.token.unwrap().reveal().to_owned();
        for name in ["HF_HOME", "HF_DIR"] {
            assert_eq!(hub(&[(name, home)]).unwrap().cache, folder.path().join("hub"));
        }
        assert_eq!(token(hub(&[("HF_HOME", home)]).unwrap()), "from-file");
        assert_eq!(
            token(hub(&[("HF_HOME", home), ("HF_TOKEN", "given")]).unwrap()),
            "given"
        );
        let all = hub(&[
            ("HF_HUB_CACHE", "/c"),
            ("HF_HUB_OFFLINE", "1"),
            ("HF_ENDPOINT", "http://localhost:9"),
        ])
        .unwrap();
        assert_eq!(
            (all.cache.to_str().unwrap(), all.offline, all.endpoint.port()),
            ("/c", true, Some(9))
        );
        assert!(!hub(&[("HF_HUB_OFFLINE", "0")]).unwrap().offline);
        assert!(hub(&[("HF_TOKEN", " ")]).unwrap().token.is_none());
    }

    #[test]
    fn a_wrong_endpoint_is_refused_without_repeating_it() {
        for endpoint in ["user:secret@host", "ftp://secret@host/", "secret"] {
            let fault = hub(&[("HF_ENDPOINT", endpoint)]).unwrap_err();
            assert!(!fault.message.contains("secret"), "{fault}");
        }
    }

    #[test]
    fn model_ids_are_distinguished_from_paths() {
        let id: ModelId = "meta-llama/Llama-3.1-8B-Instruct".parse().unwrap();
        assert_eq!(id.folder(), "models--meta-llama--Llama-3.1-8B-Instruct");
        assert_eq!(id.to_string(), "meta-llama/Llama-3.1-8B-Instruct");
        let id: ModelId = "gpt2@refs/pr/1".parse().unwrap();
        assert_eq!((id.name.as_str(), id.revision.as_str()), ("gpt2", "refs/pr/1"));
        assert_eq!(id.to_string(), "gpt2@refs/pr/1");
        for text in [
            "", "/", "a/b/c", "../a", "./a", "a/..", "a b", "a/b@", "a/b@../x", "~/a", "a--b/c", "C:\\x", "a/b?c=d",
        ] {
            assert!(text.parse::<ModelId>().is_err(), "{text}");
        }
        assert!("a".repeat(97).parse::<ModelId>().is_err());
    }
}
