//! Single files that may be absent, and the first bytes of files that are too large to fetch: headers of weights.

use std::path::PathBuf;

use super::cache::Entry;
use super::fetch::{Failure, Fetch};
use super::purpose::Purpose;
use super::{Hub, ModelId};
use crate::fault::Result;

impl Hub {
    /// A file that says how large a model is, from the cache or else fetched.
    ///
    /// # Errors
    ///
    /// `missing` with the remedy when it is in neither: offline, unreachable, gated, private, or without such a file.
    pub async fn file(&self, model: &ModelId, file: &str) -> Result<PathBuf> {
        match self.optional(model, file).await? {
            Some(path) => Ok(path),
            None if self.offline => Err(self.not_cached(model, file, Purpose::Shape)),
            None => Err(Purpose::Shape.no_such_file(model, file)),
        }
    }

    /// The same for a file that need not be there; none, too, where only the cache may be used and does not hold it.
    ///
    /// # Errors
    ///
    /// `missing` with the remedy when the hub cannot be asked, or refuses.
    pub async fn optional(&self, model: &ModelId, file: &str) -> Result<Option<PathBuf>> {
        if let Some(path) = self.cached(model, file) {
            return Ok(Some(path));
        }
        if self.offline {
            return Ok(None);
        }
        let entry = Entry::new(&self.cache, model);
        let fetch = Fetch::new(self, model, &entry, Purpose::Shape)?;
        // Of the same commit as what the cache holds already.
        let known = entry.commit();
        let revision = known.as_deref().unwrap_or(&model.revision);
        let Some(commit) = fetch.file(revision, file).await? else {
            return Ok(None);
        };
        if known.is_none() {
            entry.point_at(&commit)?;
        }
        Ok(Some(entry.snapshot(&commit).join(file)))
    }

    /// A file where the cache holds it; nobody is asked.
    #[must_use]
    pub fn cached(&self, model: &ModelId, file: &str) -> Option<PathBuf> {
        let folder = Entry::new(&self.cache, model).snapshot_with(file)?;
        Some(folder.join(file))
    }

    /// The first `bytes` of a file, or all of it where it is shorter; from the hub even where the cache holds it, and never kept. None when
    /// there is no such file.
    ///
    /// # Errors
    ///
    /// `missing` with the remedy when the hub cannot be asked, or refuses.
    pub async fn start(&self, model: &ModelId, file: &str, bytes: u64) -> Result<Option<Vec<u8>>> {
        let entry = Entry::new(&self.cache, model);
        let fetch = Fetch::new(self, model, &entry, Purpose::Shape)?;
        let known = entry.commit();
        let revision = known.as_deref().unwrap_or(&model.revision);
        fetch
            .patiently(async || fetch.beginning(revision, file, bytes).await)
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
        // A server that knows no ranges sends the whole file: what is not needed is left where it is.
        while start.len() < most {
            let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? else {
                break;
            };
            start.extend_from_slice(&chunk[..chunk.len().min(most - start.len())]);
        }
        Ok(Some(start))
    }
}
