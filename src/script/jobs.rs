//! Runs that a script has others do: what a job is made of, and what it found.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rhai::Dynamic;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::handles::Service;
use super::{Host, Main, Settings, Source, check_main, is_shipped, module_hash, source};
use crate::fault::{Fault, Result};
use crate::own_program;
use crate::report::job_result;
use crate::run::{Event, JobFolder, Run};
use crate::runtime::{self, StartContext};

/// The kind of these events in the journal: a job that ended, by its name, script and parameters.
const KIND: &str = "job";

/// A job as the script describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JobOptions {
    script: String,
    #[serde(default)]
    set: Map<String, Value>,
    #[serde(default)]
    max_time: Option<String>,
}

/// A job that was prepared.
#[derive(Clone, Debug)]
pub struct Job {
    command: Vec<String>,
    args: Value,
}

/// Checks a job and writes its parameters: `#{ name, folder, command, attempt, found }`.
pub(super) fn prepare(host: &Arc<Host>, name: &str, options: JobOptions) -> Result<Value> {
    host.permits.check_jobs()?;
    let trusted = checked(host, &options).map_err(|fault| fault.while_doing(format!("job `{name}`")))?;
    let place = match host.run.job(name, &options.set)? {
        Some(place) => place,
        None if host.settings.dry_run => JobFolder {
            folder: Path::new("jobs").join(name),
            parameters: Path::new("jobs").join(format!("{name}.json")),
            attempt: 0,
        },
        None => {
            return Err(Fault::usage("jobs need a run with a folder").hint("start the script with `profiler run`"));
        }
    };
    let text = |path: &Path| {
        path.to_str()
            .map(str::to_owned)
            .ok_or_else(|| Fault::usage(format!("the path `{}` is not UTF-8", path.display())))
    };
    let program = own_program::get()
        .ok_or_else(|| Fault::internal("no program that does jobs: `own_program::set` was not called"))?;
    let program = std::fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    let mut command = vec![text(&program)?, "run".to_owned(), options.script.clone()];
    let mut add = |option: &str, value: String| command.extend([option.to_owned(), value]);
    add("--params", text(&place.parameters)?);
    add("--out", text(&place.folder)?);
    if !trusted.is_empty() {
        add("--trust-script", trusted.join(","));
    }
    let answered = host.permits.answered();
    for allowed in host.settings.allow.iter().chain(&answered) {
        add("--allow", allowed.clone());
    }
    if let Some(time) = options.max_time {
        add("--max-time", time);
    }
    if host.settings.shared_gpu {
        command.push("--shared-gpu".to_owned());
    }
    let args = json!({ "job": name, "script": options.script, "set": options.set });
    let found = host.run.replay(KIND, &args);
    let prepared = json!({
        "name": name,
        "folder": text(&place.folder)?,
        "command": command,
        "attempt": place.attempt,
        "found": found,
    });
    host.state().jobs.insert(name.to_owned(), Job { command, args });
    Ok(prepared)
}

/// Starts an attempt at a job on this machine, with these GPUs.
pub(super) fn start(host: &Arc<Host>, name: &str, attempt: i64, gpus: &[String]) -> Result<Service> {
    host.permits.check_jobs()?;
    let mut command = prepared(host, name)?.command;
    if host.settings.dry_run {
        return Err(Fault::dry_run(format!("the job `{name}` would be started")));
    }
    command.extend(["--attempt".to_owned(), attempt.to_string()]);
    let context = StartContext {
        run: Arc::clone(&host.run),
        permits: host.permits.clone(),
        services: Arc::clone(&host.services),
        origin: runtime::Origin::Script,
        prefix: name.to_owned(),
    };
    host.tasks
        .wait(runtime::start_own(command, gpus, &context))
        .map(Service)
}

/// Notes what a job found, which is returned; `()` if its run did not come to an end of its own.
pub(super) fn conclude(host: &Host, name: &str) -> Result<Value> {
    let job = prepared(host, name)?;
    let Some(folder) = host.run.ended_job(name)? else {
        return Ok(Value::Null);
    };
    note(host, job, job_result(&folder, name)?)
}

/// Notes that a job is given up, and why.
pub(super) fn give_up(host: &Host, name: &str, why: &str) -> Result<Value> {
    let job = prepared(host, name)?;
    let script = job.args["script"].clone();
    note(
        host,
        job,
        json!({ "name": name, "status": "given up", "script": script, "why": why }),
    )
}

fn note(host: &Host, job: Job, found: Value) -> Result<Value> {
    if found["simulated"] == true {
        host.run.set_simulated();
    }
    host.run.note(Event::Done {
        kind: KIND.to_owned(),
        args: job.args,
        answer: found.clone(),
    })?;
    Ok(found)
}

fn prepared(host: &Host, name: &str) -> Result<Job> {
    let known = host.state().jobs.get(name).cloned();
    known
        .ok_or_else(|| Fault::usage(format!("there is no job `{name}`")).hint("describe it with `jobs::prepare` first"))
}

/// Checks a script with its parameters, once for all jobs that set the same ones, and gives the hashes of what of it does not
/// ship with the program.
fn checked(host: &Host, options: &JobOptions) -> Result<Vec<String>> {
    let names: Vec<&str> = options.set.keys().map(String::as_str).collect();
    let key = format!("{} {}", options.script, names.join(" "));
    if let Some(known) = host.state().checked_jobs.get(&key) {
        return Ok(known.clone());
    }
    let script = PathBuf::from(&options.script);
    let main = Main::open(&script)?;
    let settings = Settings {
        script,
        set: options.set.clone(),
        ..host.settings.clone()
    };
    let nowhere = Arc::new(Run::ephemeral("check"));
    let idle = Arc::new(Host::new(
        host.tasks.clone(),
        nowhere,
        Default::default(),
        Default::default(),
        settings,
    ));
    if let Some(found) = check_main(&idle, &main).into_iter().next() {
        return Err(found.fault);
    }
    let mut own: Vec<String> = Vec::new();
    if !is_shipped(&main.source.sha256) {
        own.push(main.source.sha256.clone());
    }
    let modules = idle.sources.all().into_iter();
    let modules = modules.filter(|module: &Source| !module.key.starts_with("std/") && module.key != main.source.key);
    own.extend(modules.map(|module| module.sha256));
    own.extend(source::named_modules(&options.set).filter_map(|file| module_hash(&main, &file)));
    own.sort();
    own.dedup();
    host.state().checked_jobs.insert(key, own.clone());
    Ok(own)
}

/// The last lines of a job's log next to its folder, where a scheduler put one.
pub(super) fn log(host: &Host, name: &str, last: usize) -> Result<Vec<String>> {
    let text = host.run.job_log(name)?;
    let lines: Vec<&str> = text.lines().collect();
    let lines = lines[lines.len().saturating_sub(last)..].iter();
    Ok(lines.map(|line| (*line).to_owned()).collect())
}

/// A list of words.
pub(super) fn words(list: rhai::Array, of: &str) -> Result<Vec<String>> {
    let words: Option<Vec<String>> = list.into_iter().map(|word: Dynamic| word.into_string().ok()).collect();
    words.ok_or_else(|| Fault::usage(format!("`{of}` takes an array of strings")))
}
