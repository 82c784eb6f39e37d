//! `profiler completions`: what a shell completes after `profiler`; `profiler man`: the manual pages, for whoever
//! packages the program.

use std::path::PathBuf;

use clap::CommandFactory as _;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;

use super::Arguments;
use super::program::{Program, Status};
use crate::fault::{Fault, Result};
use crate::script::shipped;

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The shell to print them for
    shell: Shell,
}

pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let mut command = Arguments::command();
    // Other shells would then complete no path of a script any more.
    if args.shell == Shell::Bash {
        let names = PossibleValuesParser::new(shipped::scripts());
        command = command.mut_subcommand("run", |run| run.mut_arg("script", |script| script.value_parser(names)));
    }
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "profiler", &mut text);
    program.terminal.print(String::from_utf8_lossy(&text).trim_end())?;
    Ok(0)
}

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct ManArgs {
    /// Where to write profiler.1, profiler-run.1 and so on
    folder: PathBuf,
}

pub(super) fn write_pages(args: &ManArgs) -> Result<Status> {
    let written = std::fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), &args.folder));
    written.map_err(|error| Fault::io(&args.folder, &error))?;
    Ok(0)
}
