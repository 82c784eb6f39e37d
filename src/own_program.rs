//! This program as it starts itself: with the hidden commands `supervise` and `render-chat-template`, and with `run` for
//! the jobs of a fleet.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Says which program has these commands: that of `main`, as in a test the running program is another. The first call
/// counts.
pub fn set(program: impl Into<PathBuf>) {
    PROGRAM.get_or_init(|| program.into());
}

/// The program, if there is one.
pub fn get() -> Option<&'static Path> {
    PROGRAM.get().map(PathBuf::as_path)
}
