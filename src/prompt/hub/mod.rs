//! The Hugging Face hub and its cache on this machine, as its own Python library uses them: the same environment variables, the
//! same folders, so that a model fetched by either is found by the other. Only single small files are fetched, never weights: of those
//! at most the headers.

mod answer;
mod cache;
mod fetch;
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
/// The first pause before a request is repeated; each further one is twice as long.
const PATIENCE: Duration = Duration::from_millis(500);

/// Where models come from.
#[derive(Clone, Debug)]
pub struct Hub {
    /// `HF_ENDPOINT`: the hub, or a mirror of it.
    pub endpoint: Url,
    /// `HF_HUB_CACHE`, or `hub` in `HF_HOME`: the cache's folder.
    pub cache: PathBuf,
    /// `HF_TOKEN`, or the file `token` in `HF_HOME`.
    pub token: Option<Secret>,
    /// `HF_HUB_OFFLINE`: only the cache may be used.
    pub offline: bool,
    /// The first pause before a failed request is repeated.
    pub patience: Duration,
}

impl Hub {
    /// As the environment has it.
    ///
    /// # Errors
    ///
    /// `usage` when `HF_ENDPOINT` is no HTTP address; `missing` when there is no home folder to keep a cache in.
    pub fn from_env() -> Result<Self> {
        Self::from_variables(|name| std::env::var(name).ok(), dirs::cache_dir())
    }

    /// As these variables have it; `caches` is the user's folder for caches.
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
            patience: PATIENCE,
        })
    }
}

fn endpoint(text: Option<&str>) -> Result<Url> {
    let text = text.unwrap_or(ENDPOINT);
    // The address may carry a password, so it is not repeated.
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
