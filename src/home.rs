//! The user's folders, by the XDG Base Directory Specification. `None` without a home.

use std::env;
use std::path::PathBuf;

/// The home folder.
pub fn home() -> Option<PathBuf> {
    env::home_dir().filter(|home| home.is_absolute())
}

/// The folder for what can be fetched again.
pub fn cache() -> Option<PathBuf> {
    base("XDG_CACHE_HOME", ".cache")
}

/// The folder for what was installed.
pub fn data() -> Option<PathBuf> {
    base("XDG_DATA_HOME", ".local/share")
}

/// The folder for what programs remember.
pub fn state() -> Option<PathBuf> {
    base("XDG_STATE_HOME", ".local/state")
}

/// The specification has relative paths ignored.
fn base(variable: &str, in_home: &str) -> Option<PathBuf> {
    let set = env::var_os(variable).map(PathBuf::from);
    set.filter(|path| path.is_absolute())
        .or_else(|| Some(home()?.join(in_home)))
}
