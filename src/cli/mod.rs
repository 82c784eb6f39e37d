//! The command line: one file per command, or for a few related ones. Each parses arguments, calls the library and
//! prints. `program` holds what all commands share (terminal, signals, the user's folders); `run` is the main command,
//! `flags` turns the parameters of its script into flags.

mod add;
mod compare;
mod doc;
mod doctor;
mod dry_run;
mod estimate;
mod flags;
mod fleet;
mod foreign;

mod new;
mod options;
mod own_limits;
mod plan;
mod program;

mod repl;
mod report;
mod run;
mod serve;
mod show;
mod test;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::{ColorChoice, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::fault::{Fault, Result};
use crate::fmt::columns;
use crate::report::{OutputChoice, Terminal};
use crate::{prompt, runtime};
use program::{Program, Status};

/// Finds by experiment what a GPU will hold for an LLM inference engine, and how fast.
#[derive(Debug, Parser)]
#[command(name = "profiler", version = env!("PROFILER_VERSION"), disable_help_subcommand = true, infer_subcommands = false, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    output: Output,
}

/// Options of every command.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Output")]
struct Output {
    /// Print results and errors only
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print details, such as every warning
    #[arg(long, short, global = true)]
    verbose: bool,
    /// Use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    color: ColorChoice,
}

impl Output {
    fn choice(&self) -> OutputChoice {
        OutputChoice {
            quiet: self.quiet,
            verbose: self.verbose,
            colour: match self.color {
                ColorChoice::Auto => None,
                ColorChoice::Always => Some(true),
                ColorChoice::Never => Some(false),
            },
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  profiler doctor                 what works on this machine
  profiler run adaptive           try it: without a GPU, the engine is simulated
  profiler run adaptive --help    the parameters of a script
  profiler run adaptive --model Qwen/Qwen3-8B
  profiler run throughput --url http://localhost:8000
  profiler show runs/DIR          what a run found";

/// The commands by purpose, as `--help` lists them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Measure", &["run", "fleet", "doctor", "estimate", "plan"]),
    ("See results", &["show", "report", "compare", "pack"]),
    (
        "Write scripts",
        &["list", "new", "fork", "doc", "repl", "check", "test"],
    ),
    ("Share scripts", &["add", "update", "remove"]),
    ("Other", &["sim", "completions", "man", "help"]),
];

/// The commands, in the order of `--help`.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run a script: a path, or the name of a shipped one
    Run(run::Args),
    /// Do many runs, on the GPUs of this machine or on a cluster
    Fleet(fleet::Args),
    /// Check what works on this machine, and what to do about the rest
    Doctor(doctor::Args),
    /// Estimate the memory of models from their architecture, without starting anything
    Estimate(estimate::Args),
    /// Say how many GPUs and replicas a traffic needs, from what was measured
    Plan(plan::Args),
    /// Show what a run found, or a file of another tool
    Show(show::Args),
    /// Make a self-contained page of a run, and files of its charts
    Report(report::Args),
    /// Compare runs, files of other tools and estimates
    Compare(compare::Args),
    /// Pack a run into one file, to send
    Pack(report::PackArgs),
    /// List the shipped scripts, and the added ones
    List(doc::ListArgs),
    /// Show the script API
    Doc(doc::Args),
    /// Try the script API by hand
    Repl(repl::Args),
    /// Check scripts without running them
    Check(test::CheckArgs),
    /// Score a strategy on known limits, or check an adapter against simulated servers
    Test(test::Args),
    /// Write a strategy, an adapter, an experiment or a cluster to start from
    New(new::Args),
    /// Copy a shipped script for editing
    Fork(new::ForkArgs),
    /// Add a script of somebody else, pinned by its hash
    Add(add::Args),
    /// Fetch added scripts again
    Update(add::UpdateArgs),
    /// Remove added scripts
    Remove(add::RemoveArgs),
    /// Serve the simulated engine
    Sim(Box<serve::SimArgs>),
    /// Print the completions of a shell
    Completions(doc::ShellArgs),
    /// Write the manual pages, one for each command
    Man(doc::ManArgs),
    /// Show this help, or the help of a command
    Help {
        /// A command, and for `run` a script
        #[arg(value_name = "COMMAND")]
        words: Vec<OsString>,
    },
    /// End all processes below it when the program that started it is gone
    #[command(hide = true)]
    Supervise,
    /// Render the chat template of a model within limits of memory and time
    #[command(hide = true)]
    RenderChatTemplate,
}

impl Command {
    /// Whether it runs scripts or serves, and so has something to finish after a signal.
    fn measures(&self) -> bool {
        matches!(
            self,
            Self::Run(_) | Self::Fleet(_) | Self::Repl(_) | Self::Sim(_) | Self::Test(_) | Self::Check(_)
        )
    }
}

/// The command line, with its help formatted for `width` columns and the commands grouped.
fn command(width: usize) -> clap::Command {
    let command = Arguments::command();
    let row = |name: &&str| {
        let about = command.find_subcommand(name).and_then(clap::Command::get_about);
        ((*name).to_owned(), about.map(ToString::to_string).unwrap_or_default())
    };
    let group = |(title, names): &(&str, &[&str])| {
        let rows: Vec<_> = names.iter().map(row).collect();
        format!("{title}:\n{}\n\n", columns(&rows, width))
    };
    let groups: String = GROUPS.iter().map(group).collect();
    command.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    ))
}

/// Runs one command line, starting with the program's name. May be called more than once per process.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    OutputChoice::default().apply();
    let terminal = Terminal::detect();
    let words: Vec<OsString> = plan::as_run(args.into_iter().collect());
    match doc::complete_words(&words) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => return usage(&terminal, &error),
    }
    let command = command(terminal.width);
    let (words, flags) = match flags::extract(&command, words) {
        Ok(extracted) => extracted,
        Err(diagnostic) => {
            match diagnostic.location() {
                Some(_) => terminal.print_failure(diagnostic.render(terminal.error_colour).trim_end()),
                None => terminal.print_fault(&diagnostic.fault),
            }
            return ExitCode::from(diagnostic.fault.kind.exit_code());
        }
    };
    let parsed = command
        .try_get_matches_from(words)
        .and_then(|matches| Arguments::from_arg_matches(&matches));
    let mut arguments = match parsed {
        Ok(arguments) => arguments,
        Err(answer) => return usage(&terminal, &answer),
    };
    if let Command::Help { words } = arguments.command {
        return main(["profiler".into()].into_iter().chain(words).chain(["--help".into()]));
    }
    if let Command::Run(run) = &mut arguments.command {
        run.options.flags = flags;
    }
    arguments.output.choice().apply();
    prompt::tell_waits(|what| Terminal::detect().print_error(what));
    // These run without the signals and threads of other commands.
    let own = match arguments.command {
        Command::Supervise => Some(runtime::supervise()),
        Command::RenderChatTemplate => Some(prompt::render_as_child()),
        _ => None,
    };
    if let Some(ended) = own {
        return ended.map_or_else(|fault| failed(&fault), |()| ExitCode::SUCCESS);
    }
    let measures = arguments.command.measures();
    let program = own_limits::check(measures)
        .and_then(|()| if measures { Ok(()) } else { own_limits::watch_memory() })
        .and_then(|()| Program::new(Terminal::detect()));
    let status = program.map(|program| {
        if !measures {
            program.signals.end_soon();
        }
        let ended = dispatch(&arguments.command, &program);
        let status = ended.unwrap_or_else(|fault| {
            program.terminal.print_fault(&fault);
            fault.kind.exit_code()
        });
        // A signal determines the status, however the script's thread ended.
        program.signals.status().unwrap_or(status)
    });
    status.map_or_else(|fault| failed(&fault), ExitCode::from)
}

fn failed(fault: &Fault) -> ExitCode {
    Terminal::detect().print_fault(fault);
    ExitCode::from(fault.kind.exit_code())
}

fn dispatch(command: &Command, program: &Program) -> Result<Status> {
    match command {
        Command::Add(args) => add::execute(args, program),
        Command::Check(args) => test::check(args, program),
        Command::Compare(args) => compare::execute(args, program),
        Command::Completions(args) => doc::complete(args, program),
        Command::Doc(args) => doc::execute(args, program),
        Command::Doctor(args) => doctor::execute(args, program),
        Command::Estimate(args) => estimate::execute(args, program),
        Command::Fleet(args) => fleet::execute(args, program),
        Command::Fork(args) => new::fork(args, program),
        Command::List(args) => doc::list(args, program),
        Command::Man(args) => doc::write_pages(args),
        Command::Pack(args) => report::pack(args, program),
        Command::New(args) => new::execute(args, program),
        Command::Remove(args) => add::remove(args, program),
        Command::Repl(args) => repl::execute(args, program),
        Command::Report(args) => report::execute(args, program),
        Command::Run(args) if args.wants_help() => run_help(program),
        Command::Run(args) => run::execute(args, program),
        Command::Show(args) => show::execute(args, program),
        Command::Sim(args) => serve::sim(args, program),
        Command::Supervise | Command::RenderChatTemplate | Command::Plan(_) | Command::Help { .. } => Ok(0),
        Command::Test(args) => test::execute(args, program),
        Command::Update(args) => add::update(args, program),
    }
}

/// Prints the help of `profiler run` itself, not of a script.
fn run_help(program: &Program) -> Result<Status> {
    let mut all = command(program.terminal.width);
    all.build();
    let run = all
        .find_subcommand_mut("run")
        .ok_or_else(|| Fault::internal("there is no command `run`"))?;
    let text = rendered(&run.render_help(), program.terminal.colour);
    program.terminal.print(text.trim_end())?;
    Ok(0)
}

fn rendered(text: &StyledStr, colour: bool) -> String {
    if colour {
        text.ansi().to_string()
    } else {
        text.to_string()
    }
}

/// Prints a parse error. `--help` and `--version` are results; anything else is a usage error.
fn usage(terminal: &Terminal, answer: &clap::Error) -> ExitCode {
    let failed = answer.use_stderr();
    let colour = if failed { terminal.error_colour } else { terminal.colour };
    let text = rendered(&answer.render(), colour);
    if failed {
        terminal.print_failure(text.trim_end());
        if let Some(hint) = foreign::of_command(answer) {
            terminal.print_failure(&format!("hint: {hint}"));
        }
        return ExitCode::from(2);
    }
    match terminal.print(text.trim_end()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => ExitCode::from(fault.kind.exit_code()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_command_once() {
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let command = Arguments::command();
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut known: Vec<&str> = shown.map(clap::Command::get_name).collect();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(listed, known);
        command.debug_assert();
    }
}
