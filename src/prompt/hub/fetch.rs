//! Downloads files from the hub into its cache, and the first bytes of files that are too large (headers of weights).
//!
//! Redirects are followed here rather than by the client, because the first response has the commit and the content's
//! hash, and because the token must not be sent to the content's host.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, LOCATION, RANGE, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, redirect};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;
use url::Url;

use super::super::CONFIG;
use super::{CacheEntry, Hub, ModelId, is_commit, with_wait_notice};
use crate::fault::{Fault, Kind, Result};
use crate::http;

/// Attempts per request.
const MAX_ATTEMPTS: u32 = 4;
/// Maximum pause between attempts, whatever the server requests.
const MAX_PAUSE: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: u32 = 10;
/// Larger than any tokenizer.
const MAX_FILE_SIZE: u64 = 256 << 20;
/// Maximum wait for the hub's answer about a model that may be cached already.
pub(super) const GATE_TIMEOUT: Duration = Duration::from_secs(2);
const READ_TIMEOUT: Duration = Duration::from_secs(30);

impl Hub {
    /// The folder of a model's files that contains `needed`: from the cache, or downloaded together with the files of
    /// `wanted` that exist.
    ///
    /// # Errors
    ///
    /// `missing` with a remedy if it is neither cached nor available: offline, unreachable, gated, private, or no such
    /// file.
    pub async fn folder(&self, model: &ModelId, needed: &str, wanted: &[&str]) -> Result<PathBuf> {
        if let Some(folder) = CacheEntry::new(&self.cache, model).snapshot_with(needed) {
            return Ok(folder);
        }
        if self.offline {
            return Err(self.not_cached(&format!("`{needed}`"), model, &TOKENIZER));
        }
        let fetch = Fetch::new(self, model, &TOKENIZER)?;
        let commit = fetch
            .file(&model.revision, needed)
            .await?
            .ok_or_else(|| TOKENIZER.no_such_file(model, needed))?;
        for file in wanted {
            fetch.file(&commit, file).await?;
        }
        // Last, so that an interrupted download starts over instead of counting as complete.
        fetch.entry.point_at(&commit)?;
        Ok(fetch.entry.snapshot(&commit))
    }

    /// The error for an uncached file when the hub must not be used.
    pub(super) fn not_cached(&self, what: &str, model: &ModelId, purpose: &Purpose) -> Fault {
        Fault::missing(
            format!(
                "the cache `{}` lacks {what} of `{model}`, and the hub may not be used (HF_HUB_OFFLINE, or `offline`)",
                self.cache.display()
            ),
            purpose.offline,
        )
    }
}

/// Downloads files of one model.
pub(super) struct Fetch<'a> {
    hub: &'a Hub,
    pub(super) model: &'a ModelId,
    pub(super) entry: CacheEntry,
    purpose: &'static Purpose,
    client: Client,
}

/// Whether a failure is worth a retry.
pub(super) enum Failure {
    /// Retry after this pause, if the server requested one.
    Transient(Fault, Option<Duration>),
    Permanent(Fault),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Failure::Permanent(fault)
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Transient(fault, _) | Failure::Permanent(fault) => fault,
        }
    }
}

impl<'a> Fetch<'a> {
    pub(super) fn new(hub: &'a Hub, model: &'a ModelId, purpose: &'static Purpose) -> Result<Self> {
        // A proxy cannot reach a mirror on this machine.
        let base = if http::is_loopback(&hub.endpoint) {
            http::direct()
        } else {
            http::external()
        };
        let builder = base
            .redirect(redirect::Policy::none())
            .connect_timeout(hub.patience)
            .read_timeout(READ_TIMEOUT);
        Ok(Self {
            hub,
            model,
            entry: CacheEntry::new(&hub.cache, model),
            purpose,
            client: http::build(builder)?,
        })
    }

    /// Downloads one file and returns its commit; `None` if the model has no such file.
    async fn file(&self, revision: &str, file: &str) -> Result<Option<String>> {
        Ok(self.retried(async || self.attempt(revision, file).await).await?)
    }

    /// Retries transient failures.
    pub(super) async fn retried<T>(&self, attempt: impl AsyncFn() -> Result<T, Failure>) -> Result<T, Failure> {
        let mut pause = self.hub.retry_pause;
        for _ in 1..MAX_ATTEMPTS {
            match attempt().await {
                Err(failure @ Failure::Transient(..)) if self.hub.unreachable().is_some() => return Err(failure),
                Err(Failure::Transient(_, requested)) => {
                    tokio::time::sleep(requested.unwrap_or(pause).min(MAX_PAUSE)).await;
                    pause *= 2;
                }
                done => return done,
            }
        }
        attempt().await
    }

    async fn attempt(&self, revision: &str, file: &str) -> Result<Option<String>, Failure> {
        let Some((response, metadata)) = self.open(revision, file, None).await? else {
            return Ok(None);
        };
        let metadata = metadata.ok_or_else(|| {
            Fault::new(
                Kind::Http,
                "HF_ENDPOINT is not a Hugging Face hub: no `x-repo-commit` in its response",
            )
            .hint("check HF_ENDPOINT")
        })?;
        let (content, digest) = self.body(response).await?;
        let etag = metadata.etag.as_deref().unwrap_or(&digest);
        self.entry
            .keep(&content.into_temp_path(), etag, &metadata.commit, file)?;
        Ok(Some(metadata.commit))
    }

    /// The response with the file's content, or with a `range` of it if the server supports ranges; `None` if there is
    /// no such file.
    pub(super) async fn open(
        &self,
        revision: &str,
        file: &str,
        range: Option<&str>,
    ) -> Result<Option<(Response, Option<FileMetadata>)>, Failure> {
        let mut url = self.at(&[], &["resolve", revision, file])?;
        let mut metadata: Option<FileMetadata> = None;
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(&url, range).await?;
            let status = response.status();
            if status.is_redirection() || status.is_success() {
                // Only the hub itself knows the commit, so the first response that contains it counts.
                metadata = metadata.or_else(|| FileMetadata::from_headers(response.headers()));
            }
            if status.is_redirection() {
                url = redirect_target(&url, response.headers())?;
                continue;
            }
            if status == StatusCode::NOT_FOUND && error_code(response.headers()) == "EntryNotFound" {
                return Ok(None);
            }
            if !status.is_success() {
                return Err(self.refused(&response));
            }
            return Ok(Some((response, metadata)));
        }
        Err(Fault::new(Kind::Http, "the hub redirects too often").into())
    }

    /// `ENDPOINT`, `before`, the model's name, `after`.
    pub(super) fn at(&self, before: &[&str], after: &[&str]) -> Result<Url> {
        let mut url = self.hub.endpoint.clone();
        let mut segments = url
            .path_segments_mut()
            .map_err(|()| Fault::usage("HF_ENDPOINT is not an HTTP address"))?;
        // Slashes in a branch name are escaped to separate it from the file name.
        segments
            .pop_if_empty()
            .extend(before)
            .extend(self.model.name.split('/'))
            .extend(after);
        drop(segments);
        Ok(url)
    }

    pub(super) async fn send(&self, url: &Url, range: Option<&str>) -> Result<Response, Failure> {
        let mut request = self.client.get(url.clone());
        if let Some(range) = range {
            request = request.header(RANGE, range);
        }
        let is_own = url.origin() == self.hub.endpoint.origin();
        if let Some(token) = self.hub.token.as_ref().filter(|_| is_own) {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.reveal()));
        }
        if let Some(why) = self.hub.unreachable().filter(|_| is_own) {
            return Err(Failure::Transient(self.no_answer(&why), None));
        }
        let host = url.host_str().unwrap_or_default();
        let notice = format!("waiting for `{host}`: {} of `{}`", self.purpose.what, self.model);
        let answer = with_wait_notice(request.send(), &notice);
        let patience = if is_own { self.hub.patience } else { READ_TIMEOUT };
        let Ok(sent) = tokio::time::timeout(patience, answer).await else {
            let why = format!(
                "it accepts connections, but did not answer within {} s",
                patience.as_secs_f64()
            );
            if is_own {
                self.hub.note_unreachable(&why);
            }
            return Err(Failure::Transient(self.no_answer(&why), None));
        };
        sent.map_err(|error| {
            if is_own && error.is_connect() {
                self.hub.note_unreachable(&http::root(&error));
            }
            self.unreachable(&error)
        })
    }

    async fn body(&self, mut response: Response) -> Result<(NamedTempFile, String), Failure> {
        let mut content = self.entry.temp_file()?;
        let mut digest = Sha256::new();
        let mut size = 0;
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            size += chunk.len() as u64;
            if size > MAX_FILE_SIZE {
                let message = format!("a file of `{}` is larger than {} MiB", self.model, MAX_FILE_SIZE >> 20);
                return Err(Fault::new(Kind::Http, message).into());
            }
            digest.update(&chunk);
            content
                .write_all(&chunk)
                .map_err(|error| Fault::io(content.path(), &error))?;
        }
        Ok((content, hex(&digest.finalize())))
    }

    pub(super) fn refused(&self, response: &Response) -> Failure {
        let (status, code, model) = (response.status(), error_code(response.headers()), self.model);
        if response.url().origin() != self.hub.endpoint.origin() {
            // A refusal by the content's host says nothing about the model.
            let fault = self.no_answer(&format!("the host that it redirects to answers {}", status.as_u16()));
            return Failure::Transient(fault, pause(response.headers()));
        }
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND if code == GATED => Fault::missing(
                format!("`{model}` is gated: the hub gives it only to those who accepted its terms"),
                "accept the terms on the model's page, then set HF_TOKEN to a token of that account; or choose a model without terms, such as \
                 `Qwen/Qwen3-8B`",
            )
            .into(),
            StatusCode::NOT_FOUND if code == "RevisionNotFound" => Fault::missing(
                format!("`{}` has no revision `{}`", model.name, model.revision),
                "check the revision",
            )
            .into(),
            // The hub answers 401 instead of 404 to users who must not learn whether a model exists.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => Fault::missing(
                format!(
                    "there is no model `{model}` on the hub, or it is private ({})",
                    status.as_u16()
                ),
                if self.hub.token.is_some() {
                    "check the name, and whether HF_TOKEN is valid for it"
                } else {
                    "check the name; for a private model set HF_TOKEN"
                },
            )
            .into(),
            _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                let fault = self.no_answer(&format!("it answers {}", status.as_u16()));
                Failure::Transient(fault, pause(response.headers()))
            }
            _ => Fault::new(
                Kind::Http,
                format!("the hub answers {} for a file of `{model}`", status.as_u16()),
            )
            .into(),
        }
    }

    /// The failure of a request that got no answer. A retry may succeed.
    pub(super) fn unreachable(&self, error: &reqwest::Error) -> Failure {
        Failure::Transient(self.no_answer(&http::root(error)), None)
    }

    pub(super) fn no_answer(&self, why: &str) -> Fault {
        let host = self.hub.endpoint.host_str().unwrap_or_default();
        let Purpose { what, instead, .. } = self.purpose;
        Fault::missing(
            format!(
                "the hub at `{host}` does not give the {what} of `{}`: {why}",
                self.model
            ),
            format!(
                "check the network and HF_ENDPOINT (a slow hub gets more time with HF_HUB_ETAG_TIMEOUT=30), or give {instead}"
            ),
        )
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hub's error code for a model that requires accepted terms.
const GATED: &str = "GatedRepo";

impl Hub {
    /// A file that describes the model's shape, from the cache or downloaded.
    ///
    /// # Errors
    ///
    /// `missing` with a remedy if it is neither cached nor available: offline, unreachable, gated, private, or no such
    /// file.
    pub async fn file(&self, model: &ModelId, file: &str) -> Result<PathBuf> {
        match self.optional(model, file).await? {
            Some(path) => Ok(path),
            None if self.offline => Err(self.not_cached(&format!("`{file}`"), model, &SHAPE)),
            None => Err(SHAPE.no_such_file(model, file)),
        }
    }

    /// An optional file, from the cache or downloaded. `None` if the model has no such file, or if it is not cached and
    /// only the cache may be used.
    ///
    /// # Errors
    ///
    /// `missing` with a remedy if the hub cannot be reached or refuses.
    pub async fn optional(&self, model: &ModelId, file: &str) -> Result<Option<PathBuf>> {
        if let Some(path) = self.cached(model, file) {
            return Ok(Some(path));
        }
        if self.offline {
            return Ok(None);
        }
        let fetch = Fetch::new(self, model, &SHAPE)?;
        // Use the commit of the files that are already cached.
        let Some(commit) = fetch.file(&fetch.entry.known_revision(), file).await? else {
            return Ok(None);
        };
        if fetch.entry.commit().is_none() {
            fetch.entry.point_at(&commit)?;
        }
        Ok(Some(fetch.entry.snapshot(&commit).join(file)))
    }

    /// Checks that the hub grants this user access to a model. Other problems of the model or the hub are left to the
    /// engine.
    ///
    /// # Errors
    ///
    /// `missing` with the remedies if the model is gated.
    pub async fn check_gate(&self, model: &ModelId) -> Result<()> {
        if self.offline || self.cached(model, CONFIG).is_some() {
            return Ok(());
        }
        let fetch = Fetch::new(self, model, &SHAPE)?;
        let url = fetch.at(&[], &["resolve", &model.revision, CONFIG])?;
        match tokio::time::timeout(GATE_TIMEOUT, fetch.send(&url, Some("bytes=0-0"))).await {
            Ok(Ok(response)) if error_code(response.headers()) == GATED => Err(fetch.refused(&response).into()),
            _ => Ok(()),
        }
    }

    /// The path of a cached file; never contacts the hub.
    pub fn cached(&self, model: &ModelId, file: &str) -> Option<PathBuf> {
        let folder = CacheEntry::new(&self.cache, model).snapshot_with(file)?;
        Some(folder.join(file))
    }

    /// The first `bytes` of a file, or all of a shorter one. Always read from the hub and never cached. `None` if there
    /// is no such file.
    ///
    /// # Errors
    ///
    /// `missing` with a remedy if the hub cannot be reached or refuses.
    pub async fn start(&self, model: &ModelId, file: &str, bytes: u64) -> Result<Option<Vec<u8>>> {
        let fetch = Fetch::new(self, model, &SHAPE)?;
        let revision = fetch.entry.known_revision();
        let attempt = async || fetch.beginning(&revision, file, bytes).await;
        Ok(fetch.retried(attempt).await?)
    }
}

impl Fetch<'_> {
    async fn beginning(&self, revision: &str, file: &str, bytes: u64) -> Result<Option<Vec<u8>>, Failure> {
        let range = format!("bytes=0-{}", bytes.saturating_sub(1));
        let Some((mut response, _)) = self.open(revision, file, Some(&range)).await? else {
            return Ok(None);
        };
        let most = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut start = Vec::new();
        // A server without range support sends the whole file; the rest is not read.
        while start.len() < most {
            let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? else {
                break;
            };
            start.extend_from_slice(&chunk[..chunk.len().min(most - start.len())]);
        }
        Ok(Some(start))
    }
}

/// The purpose of a model's files, as stated in errors.
pub(super) struct Purpose {
    /// The noun for the files: `weights`.
    what: &'static str,
    /// The alternative that the user can give.
    instead: &'static str,
    /// The remedy if only the cache may be used.
    offline: &'static str,
    /// The remedy if the model has no such file.
    no_file: &'static str,
}

/// To count tokens.
const TOKENIZER: Purpose = Purpose {
    what: "tokenizer",
    instead: "a folder with `tokenizer.json` as `tokenizer`",
    offline: "fetch it once while online, or give a folder with the file as `tokenizer`",
    no_file: "name another model with the same tokenizer, or a folder with `tokenizer.json`, as `tokenizer`",
};
/// To compute a model's memory.
const SHAPE: Purpose = Purpose {
    what: "configuration",
    instead: "a folder with `config.json`",
    offline: "fetch it once while online, or give a folder with the file",
    no_file: "name the model that it was made from, or a folder with `config.json`",
};
/// To start an engine.
pub(super) const WEIGHTS: Purpose = Purpose {
    what: "weights",
    instead: "a folder with them as `model`",
    offline: "fetch them once while online, or give a folder with them as `model`",
    ..SHAPE
};

impl Purpose {
    /// The error if the model has no such file.
    fn no_such_file(&self, model: &ModelId, file: &str) -> Fault {
        Fault::missing(format!("`{model}` has no `{file}`"), self.no_file)
    }
}

/// A file's metadata.
pub(super) struct FileMetadata {
    commit: String,
    /// The content's hash, if it is usable as a file name.
    etag: Option<String>,
}

impl FileMetadata {
    /// Prefers `x-linked-etag`, the hash of content stored elsewhere.
    fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let commit = text("x-repo-commit").filter(|commit| is_commit(commit))?.to_owned();
        let etag = text("x-linked-etag")
            .or_else(|| text("etag"))
            .map(|etag| etag.trim_start_matches("W/").trim_matches('"'));
        Some(Self {
            commit,
            etag: etag.filter(|etag| is_etag(etag)).map(str::to_owned),
        })
    }
}

/// Whether it can become a file name.
pub(super) fn is_etag(text: &str) -> bool {
    (8..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The hub's error code: `GatedRepo`, `EntryNotFound`.
fn error_code(headers: &HeaderMap) -> &str {
    headers
        .get("x-error-code")
        .and_then(|code| code.to_str().ok())
        .unwrap_or_default()
}

/// The redirect target, unless it is less secure than the current address.
fn redirect_target(from: &Url, headers: &HeaderMap) -> Result<Url> {
    let to = headers
        .get(LOCATION)
        .and_then(|location| location.to_str().ok())
        .and_then(|location| from.join(location).ok())
        .ok_or_else(|| Fault::new(Kind::Http, "the hub redirects without an address"))?;
    match (from.scheme(), to.scheme()) {
        ("http", "http" | "https") | ("https", "https") => Ok(to),
        _ => Err(Fault::new(Kind::Http, "the hub redirects to an insecure address")),
    }
}

/// The pause requested by the server.
fn pause(headers: &HeaderMap) -> Option<Duration> {
    http::retry_after(headers.get(RETRY_AFTER)?.to_str().ok()?)
}
