//! The commands, as clap parses them, and their help.

use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};

use super::{check, compare, doc, doctor, estimate, fork, list, repl, report, run, show, sim};
use crate::fmt::columns;
use crate::report::OutputChoice;

/// Finds by experiment what a GPU will hold for an LLM inference engine, and how fast.
#[derive(Debug, Parser)]
#[command(version, disable_help_subcommand = true, infer_subcommands = false, after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Options of every command.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Output")]
pub(super) struct Output {
    /// Print results and errors only
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print details, such as every single warning
    #[arg(long, short, global = true)]
    verbose: bool,
    /// Use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = When::Auto, value_name = "WHEN")]
    color: When,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum When {
    Auto,
    Always,
    Never,
}

impl Output {
    pub(super) fn choice(&self) -> OutputChoice {
        OutputChoice {
            quiet: self.quiet,
            verbose: self.verbose,
            colour: match self.color {
                When::Auto => None,
                When::Always => Some(true),
                When::Never => Some(false),
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
const GROUPS: [(&str, &[&str]); 4] = [
    ("Measure", &["run", "doctor", "estimate"]),
    ("See results", &["show", "report", "compare"]),
    ("Write scripts", &["list", "doc", "repl", "check", "fork"]),
    ("Other", &["sim"]),
];

/// The commands, in the order of `--help`.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a script: a path, or the name of a shipped one
    Run(run::Args),
    /// Check what works on this machine, and what to do about the rest
    Doctor(doctor::Args),
    /// Estimate the memory of models from their architecture, without starting anything
    Estimate(estimate::Args),
    /// Show what a run found, or a file of another tool
    Show(show::Args),
    /// Make a self-contained page of a run, and files of its pictures
    Report(report::Args),
    /// Compare runs, files of other tools and estimates
    Compare(compare::Args),
    /// List the shipped scripts
    List(list::Args),
    /// Show the script API
    Doc(doc::Args),
    /// Try primitives by hand
    Repl(repl::Args),
    /// Check scripts without running them
    Check(check::Args),
    /// Copy a shipped script out for editing
    Fork(fork::Args),
    /// Serve the simulated engine
    Sim(Box<sim::Args>),
}

/// The command line with its help for `width` columns, in which the commands are grouped.
pub(super) fn command(width: usize) -> clap::Command {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_command_once() {
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let command = Arguments::command();
        let mut known: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(listed, known);
        command.debug_assert();
    }
}
