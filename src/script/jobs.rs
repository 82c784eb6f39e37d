//! Runs that a script has others do: what a job is made of, and what it found.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rhai::Dynamic;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::Digest as _;

use super::host::Service;
use super::{Host, Main, Settings, Source, check_main, is_shipped, module_hash, source};
use crate::fault::{Fault, Result};
use crate::report::job_result;
use crate::run::{Event, JobFolder, Run};
use crate::runtime::{self, Input, Take};
use crate::{file, own_program};

/// The kind of these events in the journal: a job that ended, by its name, script and parameters.
const KIND: &str = "job";

/// How the name of this program for other hosts begins. No job is called so.
const PROGRAM: &str = "@profiler-";

/// A job as the script describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JobOptions {
    script: String,
    #[serde(default)]
    set: Map<String, Value>,
    max_time: Option<String>,
}

/// A job that was prepared. There may be many thousands.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name, script and parameters, as text: as a value they take ten times the memory.
    args: String,
    script: String,
    max_time: Option<String>,
    folder: String,
    parameters: String,
    own: Arc<OwnTexts>,
}

/// What a script has of its own: the hashes of its texts, and their files.
#[derive(Clone, Debug, Default)]
pub struct OwnTexts {
    hashes: Vec<String>,
    files: Vec<PathBuf>,
}

/// Checks a job and writes its parameters: `#{ name, folder, home, attempt, found }`.
pub(super) fn prepare(host: &Arc<Host>, name: &str, options: JobOptions) -> Result<Value> {
    host.permits.check_jobs()?;
    let own = checked(host, &options).map_err(|fault| fault.while_doing(format!("job `{name}`")))?;
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
    let args = json!({ "job": name, "script": options.script, "set": options.set });
    let job = Job {
        args: args.to_string(),
        script: options.script,
        max_time: options.max_time,
        folder: text(&place.folder)?,
        parameters: text(&place.parameters)?,
        own,
    };
    let prepared = json!({
        "name": name,
        "folder": job.folder,
        "home": text(&std::env::current_dir().unwrap_or_default())?,
        "attempt": place.attempt,
        "found": host.run.replay(KIND, &args),
    });
    host.state().jobs.insert(name.to_owned(), job);
    Ok(prepared)
}

/// The words of the command that does a job, to which the attempt's number is added.
pub(super) fn command(host: &Host, name: &str) -> Result<Vec<String>> {
    let job = prepared(host, name)?;
    let mut command = vec![own()?, "run".to_owned(), job.script];
    let mut add = |option: &str, value: String| command.extend([option.to_owned(), value]);
    add("--params", job.parameters);
    add("--out", job.folder);
    if !job.own.hashes.is_empty() {
        add("--trust-script", job.own.hashes.join(","));
    }
    for allowed in host.permits.words() {
        add("--allow", allowed);
    }
    if let Some(time) = job.max_time {
        add("--max-time", time);
    }
    if host.settings.shared_gpu {
        command.push("--shared-gpu".to_owned());
    }
    Ok(command)
}

/// The path of this program.
fn own() -> Result<String> {
    let program = own_program::get()
        .ok_or_else(|| Fault::internal("no program that does jobs: `own_program::set` was not called"))?;
    text(&std::fs::canonicalize(program).unwrap_or_else(|_| program.to_owned()))
}

/// The words of the command that has this program probe an engine for another.
pub(super) fn worker() -> Result<Vec<String>> {
    Ok(vec![own()?, "engine-worker".to_owned()])
}

fn text(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Fault::usage(format!("the path `{}` is not UTF-8", path.display())))
}

/// Starts an attempt at a job on this machine, with these GPUs.
pub(super) fn start(host: &Arc<Host>, name: &str, attempt: i64, gpus: &[String]) -> Result<Service> {
    host.permits.check_jobs()?;
    let mut command = command(host, name)?;
    if host.settings.dry_run {
        return Err(Fault::dry_run(format!("the job `{name}` would be started")));
    }
    command.extend(["--attempt".to_owned(), attempt.to_string()]);
    let context = host.start_context(name);
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
    let found = json!({ "name": name, "status": "given up", "script": job.script, "why": why });
    note(host, job, found)
}

fn note(host: &Host, job: Job, found: Value) -> Result<Value> {
    if found["simulated"] == true {
        host.run.set_simulated();
    }
    host.run.note(Event::Done {
        kind: KIND.to_owned(),
        args: serde_json::from_str(&job.args).unwrap_or_default(),
        answer: found.clone(),
    })?;
    Ok(found)
}

fn prepared(host: &Host, name: &str) -> Result<Job> {
    let known = host.state().jobs.get(name).cloned();
    known
        .ok_or_else(|| Fault::usage(format!("there is no job `{name}`")).hint("describe it with `jobs::prepare` first"))
}

/// The name of this program for other hosts: it has the program's hash, so that each version is there once.
pub(super) fn program_name() -> Result<String> {
    static NAME: OnceLock<String> = OnceLock::new();
    if let Some(known) = NAME.get() {
        return Ok(known.clone());
    }
    let hash = file::hashed(open_program()?).map_err(|error| Fault::io(Path::new("this program"), &error))?;
    let hash: String = hash
        .finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(NAME.get_or_init(|| format!("{PROGRAM}{hash}")).clone())
}

fn open_program() -> Result<File> {
    let program = own_program::get().unwrap_or(Path::new(""));
    File::open(program).map_err(|error| Fault::io(program, &error))
}

/// What a command reads: this program, or what another host needs to do a job.
pub(super) fn sent(host: &Host, name: &str) -> Result<Input<'static>> {
    Ok(Input::File(match name.starts_with(PROGRAM) {
        true => open_program()?,
        false => host.run.pack_job(name, &prepared(host, name)?.own.files)?,
    }))
}

/// Takes a command's output as the archive of a job's run.
pub(super) fn take_job(host: &Host, name: &str) -> Result<Take> {
    prepared(host, name)?;
    let (run, name) = (Arc::clone(&host.run), name.to_owned());
    Ok(Box::new(move |archive| run.unpack_job(&name, archive)))
}

/// Checks a script with its parameters, once for all jobs that set the same ones, and gives what of it does not ship with the
/// program.
fn checked(host: &Host, options: &JobOptions) -> Result<Arc<OwnTexts>> {
    let names: Vec<&str> = options.set.keys().map(String::as_str).collect();
    let key = format!("{} {}", options.script, names.join(" "));
    if let Some(known) = host.state().checked_jobs.get(&key) {
        return Ok(Arc::clone(known));
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
    let main_file = (!is_shipped(&main.source.sha256)).then_some(&main.source);
    let modules = idle.sources.all();
    let modules = modules.iter().filter(|module: &&Source| module.key != main.source.key);
    let texts = main_file
        .into_iter()
        .chain(modules)
        .filter(|text| !text.key.starts_with("std/"));
    let mut texts: Vec<(String, PathBuf)> = texts
        .map(|text| (text.sha256.clone(), PathBuf::from(&*text.key)))
        .collect();
    let named = source::named_modules(&options.set).filter(|file| !file.starts_with("std/"));
    texts.extend(named.filter_map(|file| Some((module_hash(&main, &file)?, main.root.join(file)))));
    texts.sort();
    texts.dedup();
    let (hashes, files) = texts.into_iter().unzip();
    let own = Arc::new(OwnTexts { hashes, files });
    host.state().checked_jobs.insert(key, Arc::clone(&own));
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
