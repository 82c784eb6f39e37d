//! `profiler fork`: copies a shipped script for editing.

use std::path::{Path, PathBuf};

use super::program::{Program, Status};
use crate::fault::Result;
use crate::script;

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Name of a shipped script, of a module such as std/engines/vllm, or of a probe such as std/probes/layers
    name: String,
    /// Where to; NAME.rhai (or .py) in the current folder when absent
    file: Option<PathBuf>,
    /// Copy its strategy as well, and import the copy
    #[arg(long)]
    strategy: bool,
}

/// Writes the copy and prints its path. Never overwrites a file.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let target = args.file.clone().unwrap_or_else(|| default_target(&args.name));
    for path in script::fork(&args.name, &target, args.strategy)? {
        program.terminal.print(&path.display().to_string())?;
    }
    Ok(0)
}

/// `adaptive.rhai`, or `layers.py` for a probe, in the current folder.
fn default_target(name: &str) -> PathBuf {
    let stem = Path::new(name).file_name().unwrap_or_default();
    Path::new(stem).with_extension(if name.starts_with("std/probes/") { "py" } else { "rhai" })
}
