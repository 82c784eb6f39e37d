//! `profiler man`: the manual pages, for whoever packages the program.

use std::path::PathBuf;

use clap::CommandFactory as _;

use super::Arguments;
use super::program::Status;
use crate::fault::{Fault, Result};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Where to write profiler.1, profiler-run.1 and so on
    folder: PathBuf,
}

pub(super) fn execute(args: &Args) -> Result<Status> {
    let written = std::fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), &args.folder));
    written.map_err(|error| Fault::io(&args.folder, &error))?;
    Ok(0)
}
