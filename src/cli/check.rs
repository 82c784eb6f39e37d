//! `profiler check`: checks scripts without running them.

use std::path::PathBuf;
use std::sync::Arc;

use super::options::{Author, ScriptOptions};
use super::program::{Program, Status};
use crate::fault::{Kind, Result};
use crate::run::Run;
use crate::script;

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Scripts: paths, or names of shipped ones
    #[arg(required = true, value_name = "SCRIPT")]
    scripts: Vec<PathBuf>,
    #[command(flatten)]
    options: ScriptOptions,
}

/// Prints `ok` or each finding with its excerpt. Exit status 2 if there is any.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let set = args.options.parameters()?;
    let mut status = 0;
    for script in &args.scripts {
        let nowhere = Arc::new(Run::ephemeral("check"));
        let host = args
            .options
            .host(script, set.clone(), nowhere, false, Author::Stranger, program)?;
        let found = script::check(&host, script);
        for diagnostic in &found {
            status = Kind::Compile.exit_code();
            program.complain(diagnostic);
            program.terminal.print_failure("");
        }
        if found.is_empty() {
            program.terminal.print(&format!("{}: ok", script.display()))?;
        }
    }
    Ok(status)
}
