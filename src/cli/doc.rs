//! `profiler doc`: shows the script API, generated from what is registered.

use super::Status;
use super::program::Program;
use crate::fault::{Fault, Result};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// A function, method, module or type
    name: Option<String>,
    /// How: md, json or definitions
    #[arg(long, default_value = "md")]
    format: String,
}

/// Prints the reference, or the part of it that is asked for.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let _ = program;
    Err(Fault::internal(format!("not built yet: {args:?}")))
}
