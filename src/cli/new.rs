//! `profiler new`: writes a script to begin with, which works as it is.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use super::program::{Program, Status};
use crate::fault::{Fault, Result};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// What to write
    #[arg(value_enum)]
    kind: Kind,
    /// Its name; NAME.rhai is written into the current folder
    name: String,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Kind {
    /// A search: which point is probed next
    Strategy,
    /// How one engine is launched, asked and read
    Adapter,
    /// One setting of an engine held against another
    Experiment,
    /// Where the jobs of a fleet run
    Cluster,
}

/// Writes the file and says how to try it. Never overwrites one.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let name = args.name.strip_suffix(".rhai").unwrap_or(&args.name);
    let letters = name
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if !letters || !name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        return Err(Fault::usage(format!("`{name}` is no name of a function"))
            .hint("give letters, digits and `_`, such as my_search"));
    }
    let (template, trial) = match args.kind {
        Kind::Strategy => (include_str!("new/strategy.rhai"), format!("profiler test {name}.rhai")),
        Kind::Adapter => (include_str!("new/adapter.rhai"), format!("profiler test {name}.rhai")),
        Kind::Experiment => (
            include_str!("new/experiment.rhai"),
            format!("profiler run {name}.rhai --set engine=sim"),
        ),
        Kind::Cluster => (
            include_str!("new/cluster.rhai"),
            format!("profiler fleet jobs.yaml --cluster ./{name}.rhai --allow command=sh,process"),
        ),
    };
    let path = format!("{name}.rhai");
    let written =
        File::create_new(&path).and_then(|mut file| file.write_all(template.replace("NAME", name).as_bytes()));
    written.map_err(|error| Fault::io(Path::new(&path), &error))?;
    program.terminal.print(&path)?;
    program.note(format!("try it: {trial}; find mistakes: profiler check {path}"));
    Ok(0)
}
