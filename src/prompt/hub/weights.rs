//! Completes a model in the cache: downloads the files that an engine loads, several at a time, and resumes interrupted
//! downloads.

use std::fs::{self, OpenOptions, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::StatusCode;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::super::CONFIG;
use super::fetch::{Failure, Fetch, GATE_TIMEOUT, WEIGHTS, hex, is_etag};
use super::{CacheEntry, Hub, ModelId, is_commit};
use crate::fault::{Fault, Kind, Result};
use crate::task::lock;
use crate::{file, http, outside};

/// Most bytes of an index of weight files. That of a model of 700 billion parameters has 9 MB.
const MAX_INDEX: u64 = 64 << 20;

/// Files downloaded concurrently.
const AT_ONCE: usize = 4;
/// Files that engines read besides the weights: configuration, tokenizer, and the model's own code.
const SETTINGS: [&str; 6] = ["json", "txt", "model", "py", "jinja", "tiktoken"];
/// Formats of weights. Engines load the first of these that the model has.
const FORMATS: [&str; 3] = ["safetensors", "bin", "pt"];
/// Progress is reported at most this often.
const INTERVAL: Duration = Duration::from_secs(2);
/// How often to check whether another process has finished the same file.
const LOCK_PAUSE: Duration = Duration::from_millis(500);

/// A revision's files as the hub's API lists them.
#[derive(Deserialize)]
struct Listing {
    sha: String,
    siblings: Vec<HubFile>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HubFile {
    rfilename: String,
    #[serde(default)]
    size: u64,
    /// The hash of a small file.
    blob_id: Option<String>,
    /// Set for a large file.
    lfs: Option<Large>,
}

#[derive(Clone, Deserialize)]
struct Large {
    sha256: String,
}

/// A file to download.
struct Wanted {
    name: String,
    size: u64,
    /// The hash that names its content.
    etag: String,
}

impl Hub {
    /// Makes sure that the cache has the files that an engine loads; without `weights`, all but the weights. `report`
    /// receives the bytes already present and the total, at least once before any download; its error ends the
    /// download.
    ///
    /// Returns the reason why this machine cannot download the model, although an engine possibly can; `None` if the
    /// cache has the model. If the hub fails or refuses, a cached model is used as it is.
    ///
    /// # Errors
    ///
    /// `missing` with a remedy if the hub refuses the model, if the model is not cached and only the cache may be used,
    /// or if the cache cannot be written.
    pub async fn complete(
        &self,
        model: &ModelId,
        weights: bool,
        report: &(impl Fn(u64, u64) -> Result<()> + Sync),
    ) -> Result<Option<String>> {
        let cached = self.is_complete(model, weights);
        if self.offline {
            return if cached {
                Ok(None)
            } else {
                Err(self.not_cached("the weights", model, &WEIGHTS))
            };
        }
        let fetch = Fetch::new(self, model, &WEIGHTS)?;
        let downloaded = if cached {
            match tokio::time::timeout(GATE_TIMEOUT, fetch.listing()).await {
                Ok(Ok(listing)) => fetch.all(listing, weights, report).await,
                _ => return Ok(None),
            }
        } else {
            match fetch.retried(async || fetch.listing().await).await {
                Ok(listing) => fetch.all(listing, weights, report).await,
                Err(failure) => Err(failure),
            }
        };
        match downloaded {
            Ok(unusual) => Ok(unusual.filter(|_| !cached)),
            Err(_) if cached => Ok(None),
            Err(Failure::Transient(fault, _)) => Ok(Some(fault.message)),
            Err(Failure::Permanent(fault)) => Err(fault),
        }
    }

    /// Whether the cache has the files that an engine loads; without `weights`, all but the weights.
    pub fn is_complete(&self, model: &ModelId, weights: bool) -> bool {
        let entry = CacheEntry::new(&self.cache, model);
        let snapshot = entry.snapshot(&entry.known_revision());
        let index = |format: &str| file::read(&snapshot.join(format!("model.{format}.index.json")), MAX_INDEX).ok();
        let listed = |bytes: Vec<u8>| {
            let index: serde_json::Value = outside::json(&bytes).unwrap_or_default();
            let is_there = |file: &serde_json::Value| file.as_str().is_some_and(|file| snapshot.join(file).is_file());
            index["weight_map"]
                .as_object()
                .is_some_and(|files| files.values().all(is_there))
        };
        let any = || {
            let is_weights = |path: &Path| FORMATS.contains(&extension(path)) || extension(path) == "gguf";
            let mut files = fs::read_dir(&snapshot).into_iter().flatten().flatten();
            files.any(|file| is_weights(&file.path()) && file.path().is_file())
        };
        if weights {
            index("safetensors").or_else(|| index("bin")).map_or_else(any, listed)
        } else {
            snapshot.join(CONFIG).is_file()
        }
    }
}

fn extension(path: &Path) -> &str {
    path.extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default()
}

/// The files to download; `None` if there are no weights in a known format. Only plain names become files.
fn chosen(listed: Vec<HubFile>, weights: bool) -> Option<Vec<HubFile>> {
    let plain = |name: &str| {
        !name.starts_with('.')
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.+=".contains(&byte))
    };
    let files: Vec<HubFile> = listed.into_iter().filter(|file| plain(&file.rfilename)).collect();
    let with_format = |format: &str| -> Vec<HubFile> {
        let has_format = |file: &&HubFile| extension(Path::new(&file.rfilename)) == format;
        files.iter().filter(has_format).cloned().collect()
    };
    let mut chosen: Vec<HubFile> = SETTINGS.iter().flat_map(|format| with_format(format)).collect();
    if weights {
        let mut tensors = FORMATS
            .iter()
            .map(|format| with_format(format))
            .find(|found| !found.is_empty())?;
        // Mistral's repositories contain a second copy of the weights.
        let is_copy = |file: &HubFile| file.rfilename.starts_with("consolidated");
        if tensors.iter().any(|file| !is_copy(file)) {
            tensors.retain(|file| !is_copy(file));
        }
        chosen.extend(tensors);
    }
    Some(chosen)
}

/// Bytes present, for all files together.
struct Progress<'a, R> {
    done: AtomicU64,
    total: u64,
    shown: Mutex<Instant>,
    report: &'a R,
}

impl<R: Fn(u64, u64) -> Result<()>> Progress<'_, R> {
    /// Records that `there` bytes of a file are present. Bytes that are downloaded again are not counted twice:
    /// `counted` is the number counted so far.
    fn reach(&self, counted: &AtomicU64, there: u64) -> Result<()> {
        let more = there.saturating_sub(counted.fetch_max(there, Ordering::Relaxed));
        let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
        let mut shown = lock(&self.shown);
        if shown.elapsed() < INTERVAL {
            return Ok(());
        }
        *shown = Instant::now();
        (self.report)(done.min(self.total), self.total)
    }
}

impl Fetch<'_> {
    /// The files of the revision: `ENDPOINT/api/models/NAME/revision/REVISION?blobs=true`.
    async fn listing(&self) -> Result<Listing, Failure> {
        let mut url = self.at(&["api", "models"], &["revision", &self.model.revision])?;
        url.set_query(Some("blobs=true"));
        let response = self.send(&url, None).await?;
        if !response.status().is_success() {
            return Err(self.refused(&response));
        }
        let (text, _) = http::text(response, http::MAX_PAGE)
            .await
            .map_err(|error| self.unreachable(&error))?;
        let listing: Option<Listing> = outside::page(text.as_bytes()).ok();
        // It becomes a folder name.
        Ok(listing.filter(|listing| is_commit(&listing.sha)).ok_or_else(|| {
            let message = format!("HF_ENDPOINT does not list the files of `{}`", self.model);
            Fault::new(Kind::Http, message).hint("check HF_ENDPOINT")
        })?)
    }

    /// Downloads the missing files of a revision. Returns the reason if the files to download cannot be determined.
    async fn all<R: Fn(u64, u64) -> Result<()> + Sync>(
        &self,
        listing: Listing,
        weights: bool,
        report: &R,
    ) -> Result<Option<String>, Failure> {
        let commit = &listing.sha;
        let Some(chosen) = chosen(listing.siblings, weights) else {
            let why = format!("`{}` has no weights as safetensors, bin or pt", self.model);
            return Ok(Some(why));
        };
        let snapshot = self.entry.snapshot(commit);
        let mut missing = Vec::new();
        for file in chosen {
            if snapshot.join(&file.rfilename).is_file() {
                continue;
            }
            let etag = file.lfs.map(|large| large.sha256).or(file.blob_id);
            let Some(etag) = etag.filter(|etag| is_etag(etag)) else {
                let why = format!("the hub does not say which content `{}` has", file.rfilename);
                return Ok(Some(why));
            };
            missing.push(Wanted {
                name: file.rfilename,
                size: file.size,
                etag,
            });
        }
        if !missing.is_empty() {
            let there = missing.iter().map(|file| self.there(file)).sum::<Result<u64>>()?;
            let progress = Progress {
                done: AtomicU64::new(there),
                total: missing.iter().map(|file| file.size).sum(),
                shown: Mutex::new(Instant::now()),
                report,
            };
            report(there.min(progress.total), progress.total)?;
            stream::iter(missing.iter().map(|file| self.whole(commit, file, &progress)))
                .buffer_unordered(AT_ONCE)
                .try_collect::<Vec<()>>()
                .await?;
        }
        // Last, so that an interrupted download does not count as complete.
        self.entry.point_at(commit)?;
        Ok(None)
    }

    /// The path of an incomplete file.
    fn partial(&self, file: &Wanted) -> Result<PathBuf> {
        self.entry.blob(&format!("{}.incomplete-profiler", file.etag))
    }

    /// Bytes of a file that need not be downloaded.
    fn there(&self, file: &Wanted) -> Result<u64> {
        let size = |path: PathBuf| path.metadata().map_or(0, |data| data.len());
        let whole = size(self.entry.blob(&file.etag)?);
        Ok(whole.max(size(self.partial(file)?)).min(file.size))
    }

    /// Downloads one file, and retries while any attempt makes progress.
    async fn whole<R: Fn(u64, u64) -> Result<()>>(
        &self,
        commit: &str,
        file: &Wanted,
        progress: &Progress<'_, R>,
    ) -> Result<(), Failure> {
        let counted = AtomicU64::new(self.there(file)?);
        loop {
            let before = counted.load(Ordering::Relaxed);
            let attempt = async || self.rest(commit, file, progress, &counted).await;
            match self.retried(attempt).await {
                Err(Failure::Transient(..)) if counted.load(Ordering::Relaxed) > before => {}
                done => return done,
            }
        }
    }

    /// Downloads the missing part of one file.
    async fn rest<R: Fn(u64, u64) -> Result<()>>(
        &self,
        commit: &str,
        file: &Wanted,
        progress: &Progress<'_, R>,
        counted: &AtomicU64,
    ) -> Result<(), Failure> {
        let Wanted { name, size, etag } = file;
        let path = self.partial(file)?;
        let io = |error: std::io::Error| Fault::io(&path, &error);
        let mut options = OpenOptions::new();
        let mut content = options.read(true).append(true).create(true).open(&path).map_err(io)?;
        while let Err(TryLockError::WouldBlock) = content.try_lock() {
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        if self.entry.blob(etag)?.is_file() {
            // Another process has downloaded it, or it was downloaded for another revision.
            let _of_nobody = fs::remove_file(&path);
            progress.reach(counted, *size)?;
            return Ok(self.entry.link(etag, commit, name)?);
        }
        let mut there = content.metadata().map_err(io)?.len();
        let mut digest = Sha256::new();
        let mut response = None;
        if there != *size {
            let range = (0 < there && there < *size).then(|| format!("bytes={there}-"));
            let opened = self.open(commit, name, range.as_deref()).await?;
            let (answer, _) = opened.ok_or_else(|| {
                let message = format!("`{}` has no `{name}`", self.model);
                Fault::missing(message, "check the model's page on the hub")
            })?;
            if answer.status() != StatusCode::PARTIAL_CONTENT {
                there = 0;
                content.set_len(0).map_err(io)?;
            }
            response = Some(answer);
        }
        if there > 0 {
            let file = content.try_clone().map_err(io)?;
            let hashed = tokio::task::spawn_blocking(move || file::hashed(file)).await;
            digest = hashed.map_err(std::io::Error::other).flatten().map_err(io)?;
        }
        while let Some(response) = response.as_mut().filter(|_| there < *size)
            && let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))?
        {
            content.write_all(&chunk).map_err(io)?;
            digest.update(&chunk);
            there += chunk.len() as u64;
            progress.reach(counted, there)?;
        }
        // Large files are named by the hash of their content.
        let found = hex(&digest.finalize());
        if there != *size || etag.len() == found.len() && *etag != found {
            let _useless = fs::remove_file(&path);
            let fault = self.no_answer(&format!("`{name}` came damaged"));
            return Err(Failure::Transient(fault, None));
        }
        content.sync_all().map_err(io)?;
        Ok(self.entry.keep(&path, etag, commit, name)?)
    }
}
