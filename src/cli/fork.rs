//! `profiler fork`: copies a shipped script out for editing.

use super::Status;
use super::program::Program;
use crate::fault::{Fault, Result};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Name of a shipped script
    name: String,
    /// Where to; NAME.rhai in the current folder when absent
    file: Option<std::path::PathBuf>,
    /// Copy its strategy as well, and import the copy
    #[arg(long)]
    strategy: bool,
}

/// Writes the copy and prints its path; never overwrites.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let _ = program;
    Err(Fault::internal(format!("not built yet: {args:?}")))
}
