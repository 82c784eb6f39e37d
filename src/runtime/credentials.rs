//! The user's Hugging Face token and model cache. The token is only put into the environment of servers that may have
//! it.

use std::fs;
use std::path::PathBuf;

use super::Launch;
use crate::prompt::Hub;

/// Environment variables with the token: the current name, and the one older servers read.
pub(super) const TOKEN_VARIABLES: [&str; 2] = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"];

/// Environment entries with the token; empty if the user has none.
pub(super) fn token_env() -> Vec<(&'static str, String)> {
    let token = Hub::from_env().ok().and_then(|hub| hub.token);
    token.map_or_else(Vec::new, |token| {
        TOKEN_VARIABLES.map(|name| (name, token.reveal().to_owned())).into()
    })
}

/// The hub cache (the folder of `models--…` folders), if it contains a model that the launch names. The parent folder
/// is never mounted, because the token is stored there.
///
/// A cache without the model is not mounted either: it is read-only, so the server could not download the model into
/// it.
pub(super) fn cache_with_model(launch: &Launch) -> Option<PathBuf> {
    let cache = fs::canonicalize(Hub::from_env().ok()?.cache).ok()?;
    let mut words = launch.args.iter().chain(&launch.entrypoint).chain(launch.env.values());
    let is_cached = |word: &String| {
        let name = word.rsplit('=').next().unwrap_or(word);
        let plain = !name.is_empty() && !name.starts_with(['/', '.', '-']);
        plain && cache.join(format!("models--{}", name.replace('/', "--"))).is_dir()
    };
    words.any(is_cached).then_some(cache)
}
