//! `profiler show`: tells what a run found, from its folder.

use super::Status;
use super::program::Program;
use crate::fault::{Fault, Result};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The folder of a run
    #[arg(value_name = "DIR")]
    folder: std::path::PathBuf,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Prints what the folder holds.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let _ = program;
    Err(Fault::internal(format!("not built yet: {args:?}")))
}
