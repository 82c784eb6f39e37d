//! What the headers of the hub's answers say.

use std::time::Duration;

use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use url::Url;

use crate::fault::{Fault, Kind, Result};

use super::cache::is_commit;

/// What the hub says of a file, beside its content.
pub(super) struct About {
    pub(super) commit: String,
    /// The name of the content, where it can be a file's name.
    pub(super) etag: Option<String>,
}

impl About {
    /// `x-linked-etag` names the content where it lies elsewhere.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let commit = text("x-repo-commit").filter(|commit| is_commit(commit))?.to_owned();
        let etag = text("x-linked-etag")
            .or_else(|| text("etag"))
            .map(|etag| etag.trim_start_matches("W/").trim_matches('"'));
        Some(Self {
            commit,
            // It becomes a file's name.
            etag: etag
                .filter(|etag| (8..=128).contains(&etag.len()) && etag.bytes().all(|byte| byte.is_ascii_alphanumeric()))
                .map(str::to_owned),
        })
    }
}

/// The hub's own word for what is wrong: `GatedRepo`, `EntryNotFound`.
pub(super) fn error_code(headers: &HeaderMap) -> &str {
    headers
        .get("x-error-code")
        .and_then(|code| code.to_str().ok())
        .unwrap_or_default()
}

/// Where the answer sends us, unless that is less safe than where we are.
pub(super) fn redirected(from: &Url, headers: &HeaderMap) -> Result<Url> {
    let to = headers
        .get(LOCATION)
        .and_then(|location| location.to_str().ok())
        .and_then(|location| from.join(location).ok())
        .ok_or_else(|| Fault::new(Kind::Http, "the hub redirects to nowhere"))?;
    match (from.scheme(), to.scheme()) {
        ("http", "http" | "https") | ("https", "https") => Ok(to),
        _ => Err(Fault::new(
            Kind::Http,
            "the hub redirects to an address that is not safe",
        )),
    }
}

/// How long the server asks to be left alone.
pub(super) fn pause(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}
