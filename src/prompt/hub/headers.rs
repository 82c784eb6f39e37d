//! Reads the headers of the Hugging Face hub's responses.

use std::time::Duration;

use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use url::Url;

use crate::fault::{Fault, Kind, Result};

use super::cache::is_commit;

/// A file's metadata.
pub(super) struct FileMetadata {
    pub(super) commit: String,
    /// The content's hash, if it is usable as a file name.
    pub(super) etag: Option<String>,
}

impl FileMetadata {
    /// Prefers `x-linked-etag`, the hash of content stored elsewhere.
    pub(super) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let commit = text("x-repo-commit").filter(|commit| is_commit(commit))?.to_owned();
        let etag = text("x-linked-etag")
            .or_else(|| text("etag"))
            .map(|etag| etag.trim_start_matches("W/").trim_matches('"'));
        Some(Self {
            commit,
            // It becomes a file name.
            etag: etag
                .filter(|etag| (8..=128).contains(&etag.len()) && etag.bytes().all(|byte| byte.is_ascii_alphanumeric()))
                .map(str::to_owned),
        })
    }
}

/// The hub's error code: `GatedRepo`, `EntryNotFound`.
pub(super) fn error_code(headers: &HeaderMap) -> &str {
    headers
        .get("x-error-code")
        .and_then(|code| code.to_str().ok())
        .unwrap_or_default()
}

/// The redirect target, unless it is less secure than the current address.
pub(super) fn redirect_target(from: &Url, headers: &HeaderMap) -> Result<Url> {
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
pub(super) fn pause(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}
