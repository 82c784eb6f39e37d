//! `profiler pack`: a run in one file, to send.

use std::fs::{self, File};
use std::path::PathBuf;

use super::program::{Program, Status};
use crate::fault::{Fault, Result};
use crate::fmt::Bytes;
use crate::run::{Folder, Manifest, pack};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The folder of a run
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// What to write; NAME.tar.gz in the current folder when absent
    file: Option<PathBuf>,
    /// With the logs of the engine, which may hold what it was asked
    #[arg(long)]
    logs: bool,
    /// Leave out this file or folder of the run
    #[arg(long, value_name = "PATH")]
    without: Vec<String>,
}

/// Never overwrites a file. Where a secret is found, nothing is left.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let folder = Folder::open(&args.folder)?;
    Manifest::read(&folder)?;
    let real = args
        .folder
        .canonicalize()
        .map_err(|error| Fault::io(&args.folder, &error))?;
    let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let path = args
        .file
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{name}.tar.gz")));
    let mut without = args.without.clone();
    without.extend((!args.logs).then(|| "logs".to_owned()));
    let file = File::create_new(&path).map_err(|error| Fault::io(&path, &error))?;
    let packed = pack(&folder, &name, &without, &file).inspect_err(|_| {
        // Half of an archive is of no use.
        let _ = fs::remove_file(&path);
    })?;
    let size = file.metadata().map_err(|error| Fault::io(&path, &error))?.len();
    program.terminal.print(&path.display().to_string())?;
    let logs = if args.logs {
        "with logs"
    } else {
        "without logs; --logs adds them"
    };
    program.note(format!(
        "{packed} files, {}, {logs}. Paths and the host's name are in it",
        Bytes(size)
    ));
    Ok(0)
}
