//! The Hugging Face token and model cache of the user, for servers that may have them.
//! The token goes into the environment of what is allowed to have it, and nowhere else.

use std::fs;
use std::path::PathBuf;

use super::Launch;
use crate::prompt::Hub;

/// Variables that carry the token: the current one, and the one that older servers read.
pub(super) const TOKEN_VARIABLES: [&str; 2] = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"];

/// What puts the token into an environment; empty when the user has none.
pub(super) fn token_environment() -> Vec<(&'static str, String)> {
    let token = Hub::from_env().ok().and_then(|hub| hub.token);
    token.map_or_else(Vec::new, |token| {
        TOKEN_VARIABLES.map(|name| (name, token.reveal().to_owned())).into()
    })
}

/// The folder of `models--…` folders, where a model that the launch names lies in it. Its parent is shown to nobody: the token is there.
///
/// A cache without the model is not shown: read-only, it would keep the server from fetching the model itself.
pub(super) fn cache_for(launch: &Launch) -> Option<PathBuf> {
    let cache = fs::canonicalize(Hub::from_env().ok()?.cache).ok()?;
    let mut words = launch.args.iter().chain(&launch.entrypoint).chain(launch.env.values());
    let held = |word: &String| {
        let name = word.rsplit('=').next().unwrap_or(word);
        let plain = !name.is_empty() && !name.starts_with(['/', '.', '-']);
        plain && cache.join(format!("models--{}", name.replace('/', "--"))).is_dir()
    };
    words.any(held).then_some(cache)
}
