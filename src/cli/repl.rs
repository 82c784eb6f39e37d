//! `profiler repl`: tries primitives by hand.

use super::Status;
use super::program::Program;
use crate::fault::{Fault, Result};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// A script to load first
    script: Option<std::path::PathBuf>,
    #[command(flatten)]
    options: super::args::ScriptOptions,
}

/// Reads and evaluates until Ctrl-D.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let _ = program;
    Err(Fault::internal(format!("not built yet: {args:?}")))
}
