//! Completes a model in the cache: downloads what an engine loads, several files at a time, and goes on where an earlier
//! download broke off.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::StatusCode;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::cache::{Entry, is_commit};
use super::fetch::{Failure, Fetch, GATE_TIMEOUT, Purpose, hex};
use super::{Hub, ModelId};
use crate::fault::{Fault, Kind, Result};
use crate::http;

/// Files downloaded at a time.
const AT_ONCE: usize = 4;
/// What engines read beside the weights: configuration, tokenizer, and the model's own code.
const SETTINGS: [&str; 6] = ["json", "txt", "model", "py", "jinja", "tiktoken"];
/// Formats of weights. Engines load the first of these that the model has.
const WEIGHTS: [&str; 3] = ["safetensors", "bin", "pt"];
/// Progress is reported at most this often.
const INTERVAL: Duration = Duration::from_secs(2);
/// How often to look whether another process has finished the same file.
const LOCK_PAUSE: Duration = Duration::from_millis(500);

/// A revision's files as the hub's API lists them.
#[derive(Deserialize)]
struct Listing {
    sha: String,
    siblings: Vec<Listed>,
}

#[derive(Clone, Deserialize)]
struct Listed {
    rfilename: String,
    size: Option<u64>,
}

impl Hub {
    /// Makes sure that the cache has the files that an engine loads; without `weights`, those beside them. `report` gets the
    /// bytes that are there and in all, at least once before anything is downloaded; its error ends the download.
    ///
    /// A model that is cached is used as it is if the hub does not answer.
    ///
    /// # Errors
    ///
    /// `missing` with a remedy if the hub cannot be reached or refuses, or if the model has no weights in a format that
    /// engines choose by themselves.
    pub async fn complete(
        &self,
        model: &ModelId,
        weights: bool,
        report: &(impl Fn(u64, u64) -> Result<()> + Sync),
    ) -> Result<()> {
        let entry = Entry::new(&self.cache, model);
        let cached = self.is_complete(model, weights);
        if self.offline {
            return match cached {
                true => Ok(()),
                false => Err(self.not_cached(model, "the weights", Purpose::Weights)),
            };
        }
        let fetch = Fetch::new(self, model, &entry, Purpose::Weights)?;
        let listing = if cached {
            match tokio::time::timeout(GATE_TIMEOUT, fetch.listing()).await {
                Ok(Ok(listing)) => listing,
                _ => return Ok(()),
            }
        } else {
            fetch.with_retries(async || fetch.listing().await).await?
        };
        let wanted = chosen(listing.siblings, weights).ok_or_else(|| {
            Fault::missing(
                format!("`{model}` has no weights as safetensors, bin or pt"),
                "name a folder or file with its weights as `model`",
            )
        })?;
        let snapshot = entry.snapshot(&listing.sha);
        let missing: Vec<Listed> = wanted
            .into_iter()
            .filter(|file| !snapshot.join(&file.rfilename).is_file())
            .collect();
        if !missing.is_empty() {
            let progress = Progress::new(missing.iter().filter_map(|file| file.size).sum(), report);
            progress.tell(0)?;
            stream::iter(missing.iter().map(|file| fetch.whole(&listing.sha, file, &progress)))
                .buffer_unordered(AT_ONCE)
                .try_collect::<Vec<()>>()
                .await?;
        }
        // Last, so that an interrupted download does not count as complete.
        entry.point_at(&listing.sha)
    }

    /// Whether the cache has files that an engine can load; without `weights`, those beside them.
    #[must_use]
    pub fn is_complete(&self, model: &ModelId, weights: bool) -> bool {
        let entry = Entry::new(&self.cache, model);
        let Some(snapshot) = entry.snapshot_with("config.json") else {
            return false;
        };
        let index = |format: &str| fs::read(snapshot.join(format!("model.{format}.index.json"))).ok();
        let listed = |bytes: Vec<u8>| {
            let index: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let files = index["weight_map"].as_object();
            files.is_some_and(|files| {
                files
                    .values()
                    .all(|file| file.as_str().is_some_and(|file| snapshot.join(file).is_file()))
            })
        };
        let any = || {
            fs::read_dir(&snapshot).is_ok_and(|mut files| {
                files.any(|file| file.is_ok_and(|file| is_weights(&file.path()) && file.path().is_file()))
            })
        };
        !weights || index("safetensors").or_else(|| index("bin")).map_or_else(any, listed)
    }
}

fn extension(path: &Path) -> &str {
    path.extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default()
}

fn is_weights(path: &Path) -> bool {
    WEIGHTS.contains(&extension(path))
}

/// The files to have; `None` if there are no weights to choose. Nothing but a plain name becomes a file.
fn chosen(listed: Vec<Listed>, weights: bool) -> Option<Vec<Listed>> {
    let plain = |name: &str| {
        !name.starts_with('.')
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.+=".contains(&byte))
    };
    let files: Vec<Listed> = listed.into_iter().filter(|file| plain(&file.rfilename)).collect();
    let of = |format: &str| -> Vec<Listed> {
        let is_of = |file: &&Listed| extension(Path::new(&file.rfilename)) == format;
        files.iter().filter(is_of).cloned().collect()
    };
    let mut chosen: Vec<Listed> = SETTINGS.iter().flat_map(|format| of(format)).collect();
    if weights {
        let mut tensors = WEIGHTS
            .iter()
            .map(|format| of(format))
            .find(|found| !found.is_empty())?;
        // Mistral's repositories have the same weights a second time.
        let is_copy = |file: &Listed| file.rfilename.starts_with("consolidated");
        if tensors.iter().any(|file| !is_copy(file)) {
            tensors.retain(|file| !is_copy(file));
        }
        chosen.extend(tensors);
    }
    Some(chosen)
}

/// Bytes that are there, of all files together.
struct Progress<'a, R> {
    done: AtomicU64,
    total: u64,
    told: Mutex<Instant>,
    report: &'a R,
}

impl<'a, R: Fn(u64, u64) -> Result<()>> Progress<'a, R> {
    fn new(total: u64, report: &'a R) -> Self {
        Self {
            done: AtomicU64::new(0),
            total,
            told: Mutex::new(Instant::now()),
            report,
        }
    }

    fn tell(&self, done: u64) -> Result<()> {
        (self.report)(done.min(self.total), self.total)
    }

    /// `there` bytes of a file are there. What is downloaded again is not `counted` again.
    fn reach(&self, counted: &AtomicU64, there: u64) -> Result<()> {
        let more = there.saturating_sub(counted.fetch_max(there, Ordering::Relaxed));
        let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.elapsed() < INTERVAL {
            return Ok(());
        }
        *told = Instant::now();
        self.tell(done)
    }
}

impl Fetch<'_> {
    /// The files of the revision, with their sizes: `ENDPOINT/api/models/NAME/revision/REVISION?blobs=true`.
    async fn listing(&self) -> Result<Listing, Failure> {
        let mut url = self.at(&["api", "models"], &["revision", &self.model.revision])?;
        url.set_query(Some("blobs=true"));
        let response = self.send(&url, None).await?;
        if !response.status().is_success() {
            return Err(self.refused(&response, "the weights"));
        }
        let (text, _) = http::text(response, http::MAX_PAGE)
            .await
            .map_err(|error| self.unreachable(&error))?;
        let listing: Option<Listing> = serde_json::from_str(&text).ok();
        // It becomes a folder's name.
        Ok(listing.filter(|listing| is_commit(&listing.sha)).ok_or_else(|| {
            Fault::new(
                Kind::Http,
                format!("HF_ENDPOINT does not list the files of `{}`", self.model),
            )
            .hint("check HF_ENDPOINT")
        })?)
    }

    /// Downloads one file, and goes on as long as something comes.
    async fn whole<R: Fn(u64, u64) -> Result<()>>(
        &self,
        commit: &str,
        file: &Listed,
        progress: &Progress<'_, R>,
    ) -> Result<()> {
        let counted = AtomicU64::new(0);
        loop {
            let before = counted.load(Ordering::Relaxed);
            let attempt = async || self.rest(commit, file, progress, &counted).await;
            match self.with_retries(attempt).await {
                Err(_) if counted.load(Ordering::Relaxed) > before => {}
                done => return done,
            }
        }
    }

    /// Downloads what is missing of one file.
    async fn rest<R: Fn(u64, u64) -> Result<()>>(
        &self,
        commit: &str,
        file: &Listed,
        progress: &Progress<'_, R>,
        counted: &AtomicU64,
    ) -> Result<(), Failure> {
        let (name, size) = (&file.rfilename, file.size);
        let gone = || {
            Fault::missing(
                format!("`{}` has no `{name}`", self.model),
                "check the model's page on the hub",
            )
        };
        let (mut response, metadata) = self.open(commit, name, None).await?.ok_or_else(gone)?;
        let etag = metadata.and_then(|metadata| metadata.etag).ok_or_else(|| {
            Fault::new(
                Kind::Http,
                format!("the hub does not say which content `{name}` of `{}` has", self.model),
            )
            .hint("check HF_ENDPOINT")
        })?;
        let path = self.entry.blob(&format!("{etag}.incomplete-profiler"))?;
        let io = |error: std::io::Error| Fault::io(&path, &error);
        let mut content = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io)?;
        while let Err(TryLockError::WouldBlock) = content.try_lock() {
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        if self.entry.blob(&etag)?.is_file() {
            // Downloaded meanwhile, or for another revision.
            progress.reach(counted, size.unwrap_or_default())?;
            let _of_nobody = fs::remove_file(&path);
            return Ok(self.entry.link(&etag, commit, name)?);
        }
        let mut there = content.metadata().map_err(io)?.len();
        let rest = size.is_some_and(|size| 0 < there && there < size);
        if rest {
            let range = format!("bytes={there}-");
            (response, _) = self.open(commit, name, Some(&range)).await?.ok_or_else(gone)?;
        }
        let mut digest = Sha256::new();
        if rest && response.status() == StatusCode::PARTIAL_CONTENT || Some(there) == size {
            read(&mut content, |bytes| digest.update(bytes)).map_err(io)?;
        } else {
            there = 0;
            content.set_len(0).map_err(io)?;
        }
        progress.reach(counted, there)?;
        while size.is_none_or(|size| there < size)
            && let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))?
        {
            content.write_all(&chunk).map_err(io)?;
            digest.update(&chunk);
            there += chunk.len() as u64;
            progress.reach(counted, there)?;
        }
        // Large files are named by the hash of their content.
        let found = hex(&digest.finalize());
        if size.is_some_and(|size| there != size) || etag.len() == found.len() && etag != found {
            let _useless = fs::remove_file(&path);
            return Err(Failure::Transient(
                self.no_answer(&format!("`{name}` came damaged")),
                None,
            ));
        }
        content.sync_all().map_err(io)?;
        Ok(self.entry.keep(&path, &etag, commit, name)?)
    }
}

/// Reads a file from its beginning to its end.
fn read(file: &mut File, mut each: impl FnMut(&[u8])) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            count => each(&buffer[..count]),
        }
    }
}
