//! Downloads optional files, and the first bytes of files that are too large (headers of weights).

use std::path::PathBuf;

use super::cache::Entry;
use super::fetch::{Failure, Fetch};
use super::purpose::Purpose;
use super::{Hub, ModelId};
use crate::fault::Result;

impl Hub {
    /// A file that describes the model's shape, from the cache or downloaded.
    ///
    /// # Errors
    ///
    /// `missing` with a remedy if it is in neither: offline, unreachable, gated, private, or no such file.
    pub async fn file(&self, model: &ModelId, file: &str) -> Result<PathBuf> {
        match self.optional(model, file).await? {
            Some(path) => Ok(path),
            None if self.offline => Err(self.not_cached(model, file, Purpose::Shape)),
            None => Err(Purpose::Shape.no_such_file(model, file)),
        }
    }

    /// The same for an optional file. Also `None` if it is not cached and only the cache may be used.
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
        let entry = Entry::new(&self.cache, model);
        let fetch = Fetch::new(self, model, &entry, Purpose::Shape)?;
        // Use the commit of the files that are already cached.
        let cached_commit = entry.commit();
        let revision = cached_commit.as_deref().unwrap_or(&model.revision);
        let Some(commit) = fetch.file(revision, file).await? else {
            return Ok(None);
        };
        if cached_commit.is_none() {
            entry.point_at(&commit)?;
        }
        Ok(Some(entry.snapshot(&commit).join(file)))
    }

    /// The path of a cached file; never contacts the hub.
    #[must_use]
    pub fn cached(&self, model: &ModelId, file: &str) -> Option<PathBuf> {
        let folder = Entry::new(&self.cache, model).snapshot_with(file)?;
        Some(folder.join(file))
    }

    /// The first `bytes` of a file, or all of a shorter one. Always from the hub and never cached. `None` if there is
    /// no such file.
    ///
    /// # Errors
    ///
    /// `missing` with a remedy if the hub cannot be reached or refuses.
    pub async fn start(&self, model: &ModelId, file: &str, bytes: u64) -> Result<Option<Vec<u8>>> {
        let entry = Entry::new(&self.cache, model);
        let fetch = Fetch::new(self, model, &entry, Purpose::Shape)?;
        let cached_commit = entry.commit();
        let revision = cached_commit.as_deref().unwrap_or(&model.revision);
        fetch
            .with_retries(async || fetch.beginning(revision, file, bytes).await)
            .await
    }
}

impl Fetch<'_> {
    async fn beginning(&self, revision: &str, file: &str, bytes: u64) -> Result<Option<Vec<u8>>, Failure> {
        let Some((mut response, _)) = self.open(revision, file, Some(bytes)).await? else {
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
