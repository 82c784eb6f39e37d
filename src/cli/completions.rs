//! `profiler completions`: what a shell completes after `profiler`.

use clap::CommandFactory as _;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;

use super::Arguments;
use super::program::{Program, Status};
use crate::fault::Result;
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
