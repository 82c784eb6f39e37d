//! The Hugging Face hub and its local cache, compatible with its Python library: same environment variables and
//! folders, so that each finds the other's downloads. Downloads only single small files, and the headers of weights.

mod cache;
mod fetch;
mod headers;
mod model;
mod part;
mod purpose;
mod secret;

use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::fault::{Fault, Result};

pub use model::ModelId;
pub use secret::Secret;

/// The public hub.
const ENDPOINT: &str = "https://huggingface.co";
/// Pause before the first retry; it doubles for each further one.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

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
}

impl Hub {
    /// The settings from the environment.
    ///
    /// # Errors
    ///
    /// `usage` if `HF_ENDPOINT` is no HTTP URL; `missing` if there is no folder for the cache.
    pub fn from_env() -> Result<Self> {
        Self::from_variables(|name| std::env::var(name).ok(), dirs::cache_dir())
    }

    /// The settings from these variables; `caches` is the user's cache folder.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>, caches: Option<PathBuf>) -> Result<Self> {
        let first = |names: &[&str]| {
            let mut values = names.iter().filter_map(|name| variable(name));
            values.find(|value| !value.trim().is_empty())
        };
        let home = first(&["HF_HOME"])
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
        })
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

#[cfg(test)]
mod tests;
