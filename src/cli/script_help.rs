//! `profiler run --help` and `profiler run SCRIPT --help`: a script's purpose and parameters.

use std::path::Path;
use std::sync::Arc;

use clap::CommandFactory as _;

use super::Status;
use super::args::Arguments;
use super::program::Program;
use super::run::complain;
use crate::fault::{Fault, Result};
use crate::run::Run;
use crate::script::params::{self, Declared};
use crate::script::{self, Host, Main, Settings};

/// The help of the command itself.
pub(super) fn command_help(program: &Program) -> Result<Status> {
    let mut command = Arguments::command();
    command.build();
    let run = command
        .find_subcommand_mut("run")
        .ok_or_else(|| Fault::internal("there is no command `run`"))?;
    let help = run.render_help();
    let text = if program.terminal.colour {
        help.ansi().to_string()
    } else {
        help.to_string()
    };
    program.terminal.print(text.trim_end())?;
    Ok(0)
}

/// The help of a script: its description and its parameters.
pub(super) fn script_parameters(path: &Path, main: &Main, program: &Program) -> Result<Status> {
    let settings = Settings {
        script: path.to_owned(),
        ..Settings::default()
    };
    let host = Arc::new(Host::new(
        program.tasks.clone(),
        Arc::new(Run::ephemeral("help")),
        Default::default(),
        Default::default(),
        settings,
    ));
    let declared = match params::describe(&host, main) {
        Ok(declared) => declared,
        Err(diagnostic) => return Ok(complain(program, &diagnostic)),
    };
    let mut parts = Vec::new();
    let about: Vec<&str> = script::description(&main.source.text).collect();
    if !about.is_empty() {
        parts.push(about.join("\n").trim().to_owned());
    }
    parts.push(format!(
        "Usage: profiler run {} [--set KEY=VALUE]... [OPTIONS]",
        path.display()
    ));
    parts.push(parameters(&declared));
    parts.push("`profiler run --help` shows the options that every script has.".to_owned());
    program.terminal.print(&parts.join("\n\n"))?;
    Ok(0)
}

fn parameters(declared: &[Declared]) -> String {
    if declared.is_empty() {
        return "It takes no parameters.".to_owned();
    }
    let left: Vec<String> = declared
        .iter()
        .map(|one| format!("{}={}", one.name, one.default))
        .collect();
    // A long default moves only its own description to the right.
    let width = left
        .iter()
        .map(String::len)
        .filter(|length| *length <= 36)
        .max()
        .unwrap_or(0);
    let rows = left
        .iter()
        .zip(declared)
        .map(|(left, one)| format!("  {left:width$}  {}", one.meaning).trim_end().to_owned());
    std::iter::once("Parameters and their defaults:".to_owned())
        .chain(rows)
        .collect::<Vec<_>>()
        .join("\n")
}
