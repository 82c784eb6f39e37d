//! `profiler fleet`: many runs on a cluster. Translates its options into parameters of the shipped script `fleet`.
//! `profiler run SCRIPT --matrix …` is a fleet of one entry on the GPUs that a single run would have.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::flags;
use super::options::ScriptOptions;
use super::program::{Program, Status};
use super::run;
use crate::fault::{Fault, Result};
use crate::script::form::{Form, Takes, json_or_string, parameter_path, values};
use crate::script::{Main, STDIN};

const EXAMPLES: &str = "\
Examples:
  profiler fleet jobs.yaml                     each job on a GPU of this machine
  profiler fleet jobs.yaml --dry-run           what would be run
  profiler fleet jobs.yaml --cluster ssh --set 'options.hosts=[\"gpu-1\"]' --allow command=ssh
  profiler fleet jobs.yaml --cluster slurm --allow command=sbatch,command=squeue,command=scancel,command=scontrol
  profiler fleet --follow runs/DIR             resume a fleet, and show its progress";

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The YAML file of jobs
    #[arg(required_unless_present = "follow")]
    file: Option<PathBuf>,
    /// Where they run: local, ssh, slurm, or a path such as ./mine.rhai; local when absent
    #[arg(long, value_name = "NAME", conflicts_with = "follow")]
    cluster: Option<String>,
    /// Resume the fleet in this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "dry_run", "out"])]
    follow: Option<PathBuf>,
    /// Leave when all jobs are in the cluster's queue, or on its hosts
    #[arg(long)]
    detach: bool,
    /// With --follow: cancel the jobs that have not ended
    #[arg(long, requires = "follow", conflicts_with = "detach")]
    cancel: bool,
    #[command(flatten)]
    options: ScriptOptions,
    /// The fleet's folder, new or empty; runs/TIME-fleet when absent
    #[arg(long, value_name = "DIR", help_heading = "Run")]
    out: Option<PathBuf>,
    /// If --out is taken, use the first of DIR-2, DIR-3 … that is free
    #[arg(long, requires = "out", help_heading = "Run")]
    force_new: bool,
    /// Show what would be run, and start nothing
    #[arg(long, help_heading = "Run")]
    dry_run: bool,
    /// Print the result as one JSON document
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Runs the script.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let mut options = args.options.clone();
    // As JSON, so that a text is never read as a number.
    let mut set = |name: &str, value: &str| options.set.push(format!("{name}={}", json!(value)));
    if let Some(file) = &args.file {
        set("file", &file.to_string_lossy());
    }
    if let Some(cluster) = &args.cluster {
        set("cluster", cluster);
    }
    let wish = if args.detach {
        "detach"
    } else if args.cancel {
        "cancel"
    } else if args.follow.is_some() {
        "follow"
    } else {
        ""
    };
    options.wish = wish.to_owned();
    let run = run::Args {
        script: args.file.as_ref().map(|_| PathBuf::from("fleet")),
        options,
        out: args.out.clone(),
        force_new: args.force_new,
        resume: args.follow.clone(),
        dry_run: args.dry_run,
        json: args.json,
        ..run::Args::default()
    };
    run::execute(&run, program)
}

/// The GPUs of a parameter in any of its forms: `0`, `0,1`, `[0,1]`, `0..3`, `device=0,1`.
fn list_of_gpus(value: &Value) -> Result<Value> {
    let form = Form {
        takes: Takes::List,
        ..Form::default()
    };
    match value.as_str().and_then(|text| text.strip_prefix("device=")) {
        Some(text) => form.read("gpus", &json!([]), &text.into()),
        None => form.read("gpus", &json!([]), value),
    }
}

/// The fleet that `--matrix` asks for.
pub(super) fn of_matrix(args: &run::Args) -> Result<run::Args> {
    let Some(script) = args.script.as_deref().filter(|script| script.as_os_str() != STDIN) else {
        return Err(
            Fault::usage("`--matrix` needs a script").hint("name it: profiler run adaptive --matrix output=64,512")
        );
    };
    let mut set = args.options.parameters()?;
    let mut matrix = BTreeMap::<_, Vec<Value>>::new();
    for given in &args.matrix {
        let (name, text) = given.split_once('=').ok_or_else(|| {
            Fault::usage(format!("`--matrix {given}` has no values")).hint("write --matrix NAME=VALUE,VALUE")
        })?;
        let name = parameter_path(name.trim());
        if name == "gpus" {
            return Err(
                Fault::usage("`--matrix gpus` is not possible: all of its runs have the GPUs of `--gpus`").hint(
                    "start a run for each choice of GPUs, and compare them: profiler compare runs/ONE runs/OTHER",
                ),
            );
        }
        matrix.entry(name).or_default().extend(match json_or_string(text) {
            Value::Array(values) => values,
            _ => values(text),
        });
    }
    // A script without a list of its parameters is refused as a job.
    let main = Main::open(script).ok();
    let declared = main
        .and_then(|main| flags::declared(script, &main).ok())
        .unwrap_or_default();
    let default = |name| declared.iter().find(|one| one.name == name).map(|one| &one.default);
    // By it the settings are checked.
    if let Some(engine) = default("engine").filter(|engine| engine.is_string()) {
        set.entry("engine").or_insert_with(|| engine.clone());
    }
    let named = set.get("gpus").filter(|named| !named.is_null());
    let is_named = named.is_some();
    let gpus = match named.or(default("gpus")) {
        None | Some(Value::Null) => json!(["all"]),
        Some(value) => list_of_gpus(value)?,
    };
    // A job sees only these, numbered anew.
    if is_named && gpus != json!(["all"]) {
        let numbers = (0..gpus.as_array().map_or(0, Vec::len)).collect::<Vec<_>>();
        set.insert("gpus".to_owned(), json!(numbers));
    }
    let jobs = json!([{ "script": script.to_string_lossy(), "set": set, "matrix": matrix }]);
    let options = ScriptOptions {
        set: Vec::new(),
        model: None,
        url: None,
        params: None,
        flags: vec![("jobs".to_owned(), jobs), ("options.gpus".to_owned(), gpus)],
        ..args.options.clone()
    };
    Ok(run::Args {
        script: Some(PathBuf::from("fleet")),
        matrix: Vec::new(),
        options,
        ..args.clone()
    })
}
