//! `profiler sim`: serves the simulated engine.

use super::Status;
use super::program::Program;
use crate::fault::{Fault, Result};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Profile of the hardware and model: a file, or the name of a shipped one
    #[arg(long, value_name = "FILE")]
    profile: String,
    /// Port on the loopback address; 0: one chosen by the kernel
    #[arg(long, default_value_t = 0)]
    port: u16,
}

/// Serves until interrupted.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let _ = program;
    Err(Fault::internal(format!("not built yet: {args:?}")))
}
