//! The Hugging Face token and model cache of the user, as the hub's own library finds them.
//! The token goes into the environment of what is allowed to have it, and nowhere else.

use std::env;
use std::fs;
use std::path::PathBuf;

/// Variables that carry the token: the current one, and the one that older servers read.
pub(super) const TOKEN_VARIABLES: [&str; 2] = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"];

/// What puts the token into an environment; empty when the user has none.
pub(super) fn token_environment() -> Vec<(&'static str, String)> {
    token().map_or_else(Vec::new, |token| {
        TOKEN_VARIABLES.map(|name| (name, token.clone())).into()
    })
}

/// From the environment, else from the file that `hf auth login` writes.
fn token() -> Option<String> {
    let from_environment = TOKEN_VARIABLES.iter().find_map(|name| env::var(name).ok());
    let file = variable("HF_TOKEN_PATH").or_else(|| Some(home()?.join("token")));
    from_environment
        .or_else(|| fs::read_to_string(file?).ok())
        .map(|token| token.trim().to_owned())
        .filter(|token| !token.is_empty())
}

/// The folder of `models--…` folders, if there is one. Its parent is never shown to anybody: the token lies there.
pub fn hub_cache() -> Option<PathBuf> {
    variable("HF_HUB_CACHE")
        .or_else(|| variable("HUGGINGFACE_HUB_CACHE"))
        .or_else(|| Some(home()?.join("hub")))
        .and_then(|folder| fs::canonicalize(folder).ok())
        .filter(|folder| folder.is_dir())
}

/// `HF_HOME`, else its default.
fn home() -> Option<PathBuf> {
    variable("HF_HOME")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("huggingface")))
        .or_else(|| Some(dirs::home_dir()?.join(".cache/huggingface")))
}

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
