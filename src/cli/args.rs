//! The command line as clap reads it: the commands, and the options that several of them share.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};
use serde_json::{Map, Value};
use url::Url;

use super::{check, compare, doc, doctor, estimate, fork, list, repl, report, run, show, sim};
use crate::fault::Result;
use crate::run::conceal;
use crate::runtime::{Permits, redact};
use crate::script::params;

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
    /// Look at scripts without running them
    Check(check::Args),
    /// Show the script API
    Doc(doc::Args),
    /// Copy a shipped script out for editing
    Fork(fork::Args),
    /// List the shipped scripts and modules
    List(list::Args),
    /// Show what a run found, or a file of another tool
    Show(show::Args),
    /// Make a page of a run that can be sent to others, and files of its pictures
    Report(report::Args),
    /// Set runs, files of other tools and estimates side by side
    Compare(compare::Args),
    /// Tell what models need by their architecture, before anything is started
    Estimate(estimate::Args),
    /// Tell what works on this machine, and what to do about the rest
    Doctor(doctor::Args),
    /// Serve the simulated engine
    Sim(sim::Args),
}

/// What a script is run with.
#[derive(Args, Debug, Default)]
pub(super) struct ScriptOptions {
    /// Set a parameter; VALUE is JSON, else a string; dots reach into maps
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Parameters from a YAML, TOML or JSON file; --set wins
    #[arg(long, value_name = "FILE")]
    pub(super) params: Option<PathBuf>,
    /// Seed of everything random; drawn and recorded when absent
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Allow what a stranger's script may not do: token, process, exec, code, image=PREFIX, mount=DIR, net=HOST
    #[arg(long, value_name = "WHAT")]
    pub(super) allow: Vec<String>,
    /// Operations that a script may use between two primitives
    #[arg(long, value_name = "N")]
    pub(super) max_operations: Option<u64>,
    /// Measure although other processes use the GPU
    #[arg(long)]
    pub(super) shared_gpu: bool,
}

impl ScriptOptions {
    /// What `--params` and `--set` give, the latter over the former. The secrets among it are hidden from here on.
    pub(super) fn parameters(&self) -> Result<Map<String, Value>> {
        let mut map = match &self.params {
            Some(file) => params::read_file(file)?,
            None => Map::new(),
        };
        for text in &self.set {
            let (path, value) = params::assignment(text)?;
            params::assign(&mut map, path, value)?;
        }
        // Before anything of it is written or shown.
        conceal(redact::secrets(&Value::Object(map.clone())));
        Ok(map)
    }

    /// What `--allow` gives, and what counts as allowed since the user named it with `--set`: an address, a container, a folder of the
    /// model, and every file. A file of parameters may be a stranger's, as a script may: what it names is not allowed by that.
    pub(super) fn permits(&self) -> Result<Permits> {
        let mut permits = Permits::parse(&self.allow)?;
        for text in &self.set {
            let (path, value) = params::assignment(text)?;
            name_files(&mut permits, &value);
            let Value::String(value) = value else { continue };
            match path.rsplit('.').next().unwrap_or(path) {
                "url" => {
                    if let Ok(url) = Url::parse(&value) {
                        permits.name_url(&url);
                    }
                }
                "container" => permits.name_container(&value),
                "model" | "tokenizer" => {
                    // A name that is no folder is one of the hub.
                    let _ = permits.name_model(Path::new(&value));
                }
                _ => {}
            }
        }
        Ok(permits)
    }
}

/// Counts every file as named by the user that a value holds. What is not there is told where the script reads it.
fn name_files(permits: &mut Permits, value: &Value) {
    match value {
        Value::String(text) => {
            let _ = permits.name_file(Path::new(text));
        }
        Value::Array(values) => values.iter().for_each(|value| name_files(permits, value)),
        Value::Object(values) => values.values().for_each(|value| name_files(permits, value)),
        _ => {}
    }
}
