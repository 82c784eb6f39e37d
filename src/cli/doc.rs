//! What the program says of itself. `profiler doc`: the script API, generated from the registered functions;
//! `profiler completions`: what a shell completes after `profiler`; `profiler man`: the manual pages, for whoever packages
//! the program.

use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;

use super::Arguments;
use super::program::{Program, Status};
use crate::fault::{Fault, Result};
use crate::script::reference::Reference;
use crate::script::{interpreter, shipped};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// A function, method, module or type
    name: Option<String>,
    /// Markdown, JSON, or definitions for an editor's Rhai language server
    #[arg(long, value_enum, default_value_t = Format::Md)]
    format: Format,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Md,
    Json,
    Definitions,
}

/// Prints the reference, or the requested part of it.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    // Of an interpreter that runs nothing.
    let here = Path::new(".");
    let reference = Reference::new(&interpreter(&program.idle_host(here), here));
    let part = args.name.as_deref().map(|name| reference.find(name)).transpose()?;
    let text = match (args.format, &part) {
        (Format::Md, None) => reference.markdown(),
        (Format::Md, Some(part)) => part.excerpt(),
        (Format::Json, part) => format!("{:#}", part.as_ref().unwrap_or(&reference).json()),
        (Format::Definitions, None) => reference.definitions(),
        (Format::Definitions, Some(_)) => {
            return Err(Fault::usage("definitions cover the whole script API").hint("leave NAME out"));
        }
    };
    match args.format {
        Format::Md => program.terminal.print_markdown(&text)?,
        Format::Json | Format::Definitions => program.terminal.print(text.trim_end())?,
    }
    Ok(0)
}

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct ShellArgs {
    /// The shell to print them for
    shell: Shell,
}

pub(super) fn complete(args: &ShellArgs, program: &Program) -> Result<Status> {
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
