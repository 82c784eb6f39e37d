//! `profiler check` checks scripts without running them. `profiler test` scores a strategy on known limits, or checks
//! an adapter against simulated servers.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::CommandFactory as _;
use serde_json::{Map, Value};

use super::options::{Author, ScriptOptions};
use super::program::{Program, Status};
use super::{Arguments, flags};
use crate::fault::{Kind, Result};
use crate::run::Run;
use crate::script::form::flag_name;
use crate::script::{self, Main, Subject};
use crate::sim::{Options, Sim, SimHandle, Spec};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// A script with a strategy (a function of `map, probe, options`) or a fork that calls one, or an adapter; FILE::NAME
    /// picks one of several strategies
    script: PathBuf,
    /// Print the score as one JSON document
    #[arg(long)]
    json: bool,
}

/// The simulated servers that an adapter is tested with, and their profiles.
const SERVERS: [(&str, &str); 7] = [
    ("OpenAI, as vLLM", "llama-8b-h200-vllm"),
    ("OpenAI, as SGLang", "llama-1b-h200-sglang"),
    ("OpenAI, as TensorRT-LLM", "llama-1b-h200-trtllm"),
    ("OpenAI, as transformers", "llama-1b-12gib-transformers"),
    ("TGI", "llama-1b-h200-tgi"),
    ("llama.cpp", "llama-1b-llamacpp"),
    ("Ollama", "llama-1b-ollama"),
];

/// Tests a strategy or an adapter. Exit status 1 if a point was wrongly called safe, less than 90 % of
/// what fits was proven, or no server was driven.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let text = args.script.to_string_lossy();
    let (mut path, mut wanted) = match text.rsplit_once("::") {
        Some((path, name)) => (PathBuf::from(path), Some(name.to_owned())),
        None => (args.script.clone(), None),
    };
    let mut main = Main::open(&path)?;
    let found = script::check(&program.idle_host(&path), &path);
    for diagnostic in &found {
        program.complain(diagnostic);
    }
    if !found.is_empty() {
        return Ok(Kind::Compile.exit_code());
    }
    if wanted.is_none()
        && let Some((module, strategy)) = script::called_strategy(&program.idle_host(&path), &main, &path)?
    {
        main = Main::open(&module)?;
        (path, wanted) = (module, Some(strategy));
    }
    let subject = script::subject(&program.idle_host(&path), &main, wanted.as_deref())?;
    let servers = match subject {
        Subject::Adapter => serve(program)?,
        Subject::Strategy(_) => Vec::new(),
    };
    let ports = servers.iter().filter_map(|(_, handle)| handle.url.rsplit(':').next());
    let options = ScriptOptions {
        allow: ports.map(|port| format!("port={port}")).collect(),
        ..ScriptOptions::default()
    };
    let run = Run::ephemeral("test");
    let host = options.host(&path, Map::new(), run, false, Author::Stranger, program)?;
    let urls: Vec<_> = servers
        .iter()
        .map(|(name, handle)| (*name, handle.url.as_str()))
        .collect();
    let score = match script::score(&host, &main, &subject, &urls) {
        Ok(score) => score,
        Err(diagnostic) => return Ok(program.complain(&diagnostic)),
    };
    if args.json {
        program.print_json(&score)?;
    } else {
        let scored = format!(
            "{}{} sha256:{}, profiler {}",
            path.display(),
            wanted.map_or_else(String::new, |strategy| format!("::{strategy}")),
            main.source.sha256,
            env!("CARGO_PKG_VERSION")
        );
        let lines: Vec<&str> = score["lines"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .chain([scored.as_str()])
            .collect();
        program.terminal.print(&lines.join("\n"))?;
    }
    Ok((score["passed"] != true).into())
}

/// Starts the servers. They end when the returned handles are dropped.
fn serve(program: &Program) -> Result<Vec<(&'static str, SimHandle)>> {
    let mut servers = Vec::new();
    for (name, profile) in SERVERS {
        let mut spec = Spec {
            profile: profile.to_owned(),
            options: Options::default(),
        };
        spec.options.time_scale = Some(0.0);
        let (profile, options) = spec.resolve()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let handle = program.tasks.wait(async {
            let handle = Sim::start(profile, options, address, Arc::new(|_| ()))?;
            handle.wait_started().await;
            Ok(handle)
        })?;
        servers.push((name, handle));
    }
    Ok(servers)
}

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct CheckArgs {
    /// Scripts: paths, or names of shipped ones
    #[arg(required = true, value_name = "SCRIPT")]
    scripts: Vec<PathBuf>,
    #[command(flatten)]
    options: ScriptOptions,
}

/// Prints `ok` or each finding with its excerpt. Exit status 2 if there is any.
pub(super) fn check(args: &CheckArgs, program: &Program) -> Result<Status> {
    let set = args.options.parameters()?;
    let mut status = 0;
    for script in &args.scripts {
        let (nowhere, set) = (Run::ephemeral("check"), set.clone());
        let host = args
            .options
            .host(script, set, nowhere, false, Author::Stranger, program)?;
        let found = script::check(&host, script);
        for diagnostic in &found {
            status = Kind::Compile.exit_code();
            program.complain(diagnostic);
            program.terminal.print_failure("");
        }
        if found.is_empty() {
            warn_of_hidden(script, program);
            for warning in script::warnings(&host, script) {
                program.note(format!("warning: {}: {warning}", script.display()));
            }
            program.terminal.print(&format!("{}: ok", script.display()))?;
        }
    }
    Ok(status)
}

/// Warns of parameters that only `--set` can set.
fn warn_of_hidden(script: &Path, program: &Program) {
    // Adapters and modules declare no parameters.
    let declared = Main::open(script)
        .ok()
        .and_then(|main| flags::declared(script, &main).ok())
        .unwrap_or_default();
    for name in flags::hidden_by_options(&Arguments::command(), &declared) {
        program.note(format!(
            "warning: {}: `--{}` is an option of `profiler run`, so only `--set {name}=VALUE` sets the parameter `{name}`: give it another name",
            script.display(),
            flag_name(name)
        ));
    }
}
