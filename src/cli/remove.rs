//! `profiler remove`: removes what was added.

use super::program::{Program, Status};
use crate::fault::Result;
use crate::script::Lock;

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Names of what was added
    #[arg(required = true)]
    names: Vec<String>,
}

pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let lock = Lock::read()?;
    args.names.iter().try_for_each(|name| lock.get(name).map(drop))?;
    for name in &args.names {
        Lock::set(name, None)?;
        program.terminal.print(&format!("removed {name}"))?;
    }
    Ok(0)
}
