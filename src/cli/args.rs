//! The commands, as clap parses them.

use clap::{Parser, Subcommand};

use super::{check, compare, doc, doctor, estimate, fork, list, repl, report, run, show, sim};

/// Finds by experiment what a GPU will hold for an LLM inference engine.
#[derive(Debug, Parser)]
#[command(version, disable_help_subcommand = true, infer_subcommands = false)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// The commands, in the order of `--help`.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a script, a path or the name of a shipped one
    Run(run::Args),
    /// Try primitives by hand
    Repl(repl::Args),
    /// Check scripts without running them
    Check(check::Args),
    /// Show the script API
    Doc(doc::Args),
    /// Copy a shipped script out for editing
    Fork(fork::Args),
    /// List the shipped scripts and modules
    List(list::Args),
    /// Show what a run found, or a file of another tool
    Show(show::Args),
    /// Make a self-contained page of a run, and files of its pictures
    Report(report::Args),
    /// Compare runs, files of other tools and estimates
    Compare(compare::Args),
    /// Estimate the memory of models from their architecture, without starting anything
    Estimate(estimate::Args),
    /// Check what works on this machine, and what to do about the rest
    Doctor(doctor::Args),
    /// Serve the simulated engine
    Sim(sim::Args),
}
