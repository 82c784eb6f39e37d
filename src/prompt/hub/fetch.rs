//! Downloads single files from the hub into its cache.
//!
//! Redirects are followed here rather than by the client: the first response has the commit and the content's hash, and
//! the token must not be sent to the content's host.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, RANGE};
use reqwest::{Client, Response, StatusCode, redirect};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;
use url::{Host, Url};

use crate::fault::{Fault, Kind, Result};
use crate::http;

use super::cache::Entry;
use super::headers::{FileMetadata, error_code, pause, redirect_target};
use super::purpose::Purpose;
use super::{Hub, ModelId};

/// Attempts per request.
const MAX_ATTEMPTS: u32 = 4;
/// Maximum pause between attempts, whatever the server requests.
const MAX_PAUSE: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: u32 = 10;
/// Larger than any tokenizer; weights are not downloaded.
const MAX_FILE_SIZE: u64 = 256 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const READ_TIMEOUT: Duration = Duration::from_secs(30);

impl Hub {
    /// The folder of a model's files with `needed`, from the cache or downloaded together with those of `wanted` that
    /// exist.
    ///
    /// # Errors
    ///
    /// `missing` with a remedy if it is in neither: offline, unreachable, gated, private, or no such file.
    pub async fn folder(&self, model: &ModelId, needed: &str, wanted: &[&str]) -> Result<PathBuf> {
        let entry = Entry::new(&self.cache, model);
        if let Some(folder) = entry.snapshot_with(needed) {
            return Ok(folder);
        }
        if self.offline {
            return Err(self.not_cached(model, needed, Purpose::Tokenizer));
        }
        let fetch = Fetch::new(self, model, &entry, Purpose::Tokenizer)?;
        let commit = fetch
            .file(&model.revision, needed)
            .await?
            .ok_or_else(|| Purpose::Tokenizer.no_such_file(model, needed))?;
        for file in wanted {
            fetch.file(&commit, file).await?;
        }
        // Last, so that an interrupted download starts over instead of counting as complete.
        entry.point_at(&commit)?;
        Ok(entry.snapshot(&commit))
    }

    /// The error for a file that is not cached when the hub must not be used.
    pub(super) fn not_cached(&self, model: &ModelId, file: &str, purpose: Purpose) -> Fault {
        Fault::missing(
            format!(
                "`{file}` of `{model}` is not in the cache `{}`, and the hub may not be used (HF_HUB_OFFLINE, or `offline`)",
                self.cache.display()
            ),
            purpose.while_offline(),
        )
    }
}

/// Downloads files of one model.
pub(super) struct Fetch<'a> {
    hub: &'a Hub,
    model: &'a ModelId,
    entry: &'a Entry,
    purpose: Purpose,
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

impl<'a> Fetch<'a> {
    pub(super) fn new(hub: &'a Hub, model: &'a ModelId, entry: &'a Entry, purpose: Purpose) -> Result<Self> {
        // A proxy cannot reach a mirror on this machine.
        let builder = if is_loopback(&hub.endpoint) {
            http::direct()
        } else {
            http::external()
        };
        let builder = builder
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT);
        Ok(Self {
            hub,
            model,
            entry,
            purpose,
            client: http::build(builder)?,
        })
    }

    /// Downloads one file and returns its commit; `None` if the model has no such file.
    pub(super) async fn file(&self, revision: &str, file: &str) -> Result<Option<String>> {
        self.with_retries(async || self.attempt(revision, file).await).await
    }

    /// Retries transient failures.
    pub(super) async fn with_retries<T>(&self, attempt: impl AsyncFn() -> Result<T, Failure>) -> Result<T> {
        let mut pause = self.hub.retry_pause;
        for _ in 1..MAX_ATTEMPTS {
            match attempt().await {
                Ok(done) => return Ok(done),
                Err(Failure::Permanent(fault)) => return Err(fault),
                Err(Failure::Transient(_, requested)) => {
                    tokio::time::sleep(requested.unwrap_or(pause).min(MAX_PAUSE)).await;
                    pause *= 2;
                }
            }
        }
        attempt().await.map_err(|failure| match failure {
            Failure::Transient(fault, _) | Failure::Permanent(fault) => fault,
        })
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
        self.entry.store(
            content,
            metadata.etag.as_deref().unwrap_or(&digest),
            &metadata.commit,
            file,
        )?;
        Ok(Some(metadata.commit))
    }

    /// The response with the file's content, or with its first `bytes` if the server supports ranges; `None` if there
    /// is no such file.
    pub(super) async fn open(
        &self,
        revision: &str,
        file: &str,
        bytes: Option<u64>,
    ) -> Result<Option<(Response, Option<FileMetadata>)>, Failure> {
        let mut url = self.address(revision, file)?;
        let mut metadata: Option<FileMetadata> = None;
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(&url, bytes).await?;
            let status = response.status();
            if status.is_redirection() || status.is_success() {
                // Only the hub itself knows the commit, so its first response that has it counts.
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
                return Err(self.refused(&response, file));
            }
            return Ok(Some((response, metadata)));
        }
        Err(Fault::new(Kind::Http, "the hub redirects too often").into())
    }

    /// `ENDPOINT/org/name/resolve/REVISION/FILE`.
    fn address(&self, revision: &str, file: &str) -> Result<Url> {
        let mut url = self.hub.endpoint.clone();
        let mut segments = url
            .path_segments_mut()
            .map_err(|()| Fault::usage("HF_ENDPOINT is not an HTTP address"))?;
        // Slashes in a branch name are escaped to separate it from the file name.
        segments
            .pop_if_empty()
            .extend(self.model.name.split('/'))
            .extend(["resolve", revision, file]);
        drop(segments);
        Ok(url)
    }

    async fn send(&self, url: &Url, bytes: Option<u64>) -> Result<Response, Failure> {
        let mut request = self.client.get(url.clone());
        if let Some(last) = bytes.and_then(|bytes| bytes.checked_sub(1)) {
            request = request.header(RANGE, format!("bytes=0-{last}"));
        }
        if let Some(token) = self
            .hub
            .token
            .as_ref()
            .filter(|_| url.origin() == self.hub.endpoint.origin())
        {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.reveal()));
        }
        request.send().await.map_err(|error| self.unreachable(&error))
    }

    async fn body(&self, mut response: Response) -> Result<(NamedTempFile, String), Failure> {
        let mut content = self.entry.temp_file()?;
        let mut digest = Sha256::new();
        let mut size = 0;
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            size += chunk.len() as u64;
            if size > MAX_FILE_SIZE {
                return Err(Fault::new(
                    Kind::Http,
                    format!("a file of `{}` is larger than {} MiB", self.model, MAX_FILE_SIZE >> 20),
                )
                .into());
            }
            digest.update(&chunk);
            content
                .write_all(&chunk)
                .map_err(|error| Fault::io(content.path(), &error))?;
        }
        let digest = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok((content, digest))
    }

    fn refused(&self, response: &Response, file: &str) -> Failure {
        let (status, code, model) = (response.status(), error_code(response.headers()), self.model);
        if response.url().origin() != self.hub.endpoint.origin() {
            // A refusal by the content's host does not concern the model.
            let fault = self.no_answer(&format!("the host that it redirects to answers {}", status.as_u16()));
            return Failure::Transient(fault, pause(response.headers()));
        }
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND if code == "GatedRepo" => {
                Fault::missing(
                    format!("`{model}` is gated: the hub gives `{file}` only to those who accepted its terms"),
                    "accept the terms on the model's page, then set HF_TOKEN to a token of that account",
                )
                .into()
            }
            StatusCode::NOT_FOUND if code == "RevisionNotFound" => Fault::missing(
                format!("`{}` has no revision `{}`", model.name, model.revision),
                "check the revision",
            )
            .into(),
            // The hub answers 401 instead of 404 to users who may not know whether a model exists.
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
                format!("the hub answers {} for `{file}` of `{model}`", status.as_u16()),
            )
            .into(),
        }
    }

    pub(super) fn unreachable(&self, error: &reqwest::Error) -> Failure {
        Failure::Transient(self.no_answer(&http::root(error)), None)
    }

    fn no_answer(&self, why: &str) -> Fault {
        let host = self.hub.endpoint.host_str().unwrap_or_default();
        self.purpose.no_answer(host, self.model, why)
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
