//! This program, when it starts itself: with the hidden commands `supervise` and `render-chat-template`, and with `run`
//! for the jobs of a fleet.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Sets the path of the `profiler` binary; tests run another program. Only the first call has an effect.
pub fn set(program: impl Into<PathBuf>) {
    PROGRAM.get_or_init(|| program.into());
}

/// The path, if it was set.
pub fn get() -> Option<&'static Path> {
    PROGRAM.get().map(PathBuf::as_path)
}
