//! The command line: one file per command, each of which parses arguments, calls the library and prints.

mod args;
mod check;
mod compare;
mod doc;
mod doctor;
mod dry_run;
mod estimate;
mod fork;
mod list;
mod options;
mod program;
mod repl;
mod report;
mod run;
mod script_help;
mod show;
mod signals;
mod sim;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches as _;

use crate::fault::{Fault, Result};
use crate::report::{OutputChoice, Terminal};
use args::{Arguments, Command};
use program::{Program, Status};

/// Runs one command line, starting with the program's name. May be called more than once per process.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    OutputChoice::default().apply();
    let parsed = args::command(Terminal::detect().width)
        .try_get_matches_from(args)
        .and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(answer) => return usage(&Terminal::detect(), &answer),
    };
    arguments.output.choice().apply();
    let status = Program::new(Terminal::detect()).map(|program| {
        let ended = dispatch(&arguments.command, &program);
        let status = ended.unwrap_or_else(|fault| {
            program.terminal.print_fault(&fault);
            fault.kind.exit_code()
        });
        // A signal determines the status, however the script's thread ended.
        program.signals.status().unwrap_or(status)
    });
    ExitCode::from(status.unwrap_or_else(|fault| {
        Terminal::detect().print_fault(&fault);
        fault.kind.exit_code()
    }))
}

fn dispatch(command: &Command, program: &Program) -> Result<Status> {
    match command {
        Command::Check(args) => check::execute(args, program),
        Command::Compare(args) => compare::execute(args, program),
        Command::Doc(args) => doc::execute(args, program),
        Command::Doctor(args) => doctor::execute(args, program),
        Command::Estimate(args) => estimate::execute(args, program),
        Command::Fork(args) => fork::execute(args, program),
        Command::List(args) => list::execute(args, program),
        Command::Repl(args) => repl::execute(args, program),
        Command::Report(args) => report::execute(args, program),
        Command::Run(args) if args.wants_help() => run_help(program),
        Command::Run(args) => run::execute(args, program),
        Command::Show(args) => show::execute(args, program),
        Command::Sim(args) => sim::execute(args, program),
    }
}

/// Prints the help of `profiler run` itself, rather than of a script.
fn run_help(program: &Program) -> Result<Status> {
    let mut command = args::command(program.terminal.width);
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

/// `--help` and `--version` are results; anything else is a usage error.
fn usage(terminal: &Terminal, answer: &clap::Error) -> ExitCode {
    let colour = if answer.use_stderr() {
        terminal.error_colour
    } else {
        terminal.colour
    };
    let text = answer.render();
    let text = if colour {
        text.ansi().to_string()
    } else {
        text.to_string()
    };
    if answer.use_stderr() {
        terminal.print_failure(text.trim_end());
        return ExitCode::from(2);
    }
    match terminal.print(text.trim_end()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => ExitCode::from(fault.kind.exit_code()),
    }
}
