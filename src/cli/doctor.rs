//! `profiler doctor`: tells what works on this machine, and what to do about the rest.

use super::Status;
use super::program::Program;
use crate::fault::{Fault, Result};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// End and remove what dead runs left behind
    #[arg(long)]
    clean: bool,
}

/// Prints a line for each thing that a run may need.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let _ = program;
    Err(Fault::internal(format!("not built yet: {args:?}")))
}
