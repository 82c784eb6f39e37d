//! `profiler doc`: prints the script API, generated from the registered functions.

use std::path::Path;

use super::program::{Program, Status};
use crate::fault::{Fault, Result};
use crate::script::interpreter;
use crate::script::reference::Reference;

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
