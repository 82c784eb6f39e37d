//! `profiler check`: checks scripts without running them.

use std::path::PathBuf;
use std::sync::Arc;

use super::program::{Program, Status};
use crate::fault::{Kind, Result};
use crate::run::Run;
use crate::runtime::Permits;
use crate::script::params::{assign, assignment, read_file};
use crate::script::{self, Host, Settings};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Scripts: paths, or names of shipped ones
    #[arg(required = true, value_name = "SCRIPT")]
    scripts: Vec<PathBuf>,
    /// A parameter that the script would be run with
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Parameters from a YAML, TOML or JSON file
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,
}

/// Prints `ok` or each finding with its excerpt. Exit status 2 if there is any.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let mut set = args.params.as_deref().map(read_file).transpose()?.unwrap_or_default();
    for text in &args.set {
        let (path, value) = assignment(text)?;
        assign(&mut set, path, value)?;
    }
    let mut found = 0;
    for script in &args.scripts {
        let settings = Settings {
            script: script.clone(),
            set: set.clone(),
            ..Settings::default()
        };
        let run = Arc::new(Run::ephemeral("check"));
        let host = Host::new(program.tasks.clone(), run, Permits::default(), Arc::default(), settings);
        let diagnostics = script::check(&Arc::new(host), script);
        found += diagnostics.len();
        for diagnostic in &diagnostics {
            program.complain(diagnostic);
            program.terminal.print_failure("");
        }
        if diagnostics.is_empty() {
            program.terminal.print(&format!("{}: ok", script.display()))?;
        }
    }
    Ok(if found > 0 { Kind::Compile.exit_code() } else { 0 })
}
