//! `profiler run`: runs a script and leaves a run folder.

use std::path::PathBuf;

use super::Status;
use super::args::ScriptOptions;
use super::program::Program;
use crate::fault::{Fault, Result};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub(super) struct Args {
    /// The script: a path, or the name of a shipped one
    script: Option<PathBuf>,
    #[command(flatten)]
    options: ScriptOptions,
    /// The run's folder; runs/TIME-SCRIPT when absent
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Go on with the run in this folder
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Show what would be done, and start nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
    /// This help, or with SCRIPT the script's own parameters
    #[arg(long, short)]
    help: bool,
}

/// Runs the script to its end.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let _ = program;
    Err(Fault::internal(format!("not built yet: {args:?}")))
}
