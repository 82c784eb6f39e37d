//! Script API of work outside the script: commands of this machine, and jobs, each of them a run of this program with
//! its own parameters and result.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rhai::plugin::*;
use rhai::{Array, Dynamic, Map};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::Digest as _;

use crate::fault::{Fault, Kind, Result};
use crate::fmt::shell_quoted;
use crate::report::{job_result, jobs_text};
use crate::run::OperationKind;
use crate::run::{Event, JobFolder, Operation};
use crate::runtime::{CommandLine, Input, Take, run_command};
use crate::script::form::time;
use crate::script::host::Service;
use crate::script::params::PARAMETERS_ARE;
use crate::script::{
    Caught, Host, Main, Settings, Source, begin_call, check_main, from_script, is_shipped, module_hash, named_modules,
    options, to_script,
};
use crate::{file, own_program, runtime, tls};

/// The kind of job events in the journal: a job that ended, by its name, script and parameters.
const KIND: OperationKind = OperationKind::Job;

/// The prefix of this program's name on other hosts. No job has such a name.
const PROGRAM: &str = "@profiler-";

/// A job as the script describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobOptions {
    script: String,
    #[serde(default)]
    set: serde_json::Map<String, Value>,
    #[serde(default)]
    setting: String,
    max_time: Option<String>,
}

/// A job that was prepared. There may be many thousands, so it is kept small.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name, script and parameters, as JSON text: a parsed value takes ten times the memory.
    args: String,
    script: String,
    /// Its values of the `matrix`, as text.
    setting: String,
    max_time: Option<String>,
    folder: String,
    parameters: String,
    own: Arc<OwnTexts>,
}

/// The texts of a job's script that do not ship with the program: their hashes and files.
#[derive(Clone, Debug, Default)]
pub struct OwnTexts {
    hashes: Vec<String>,
    files: Vec<PathBuf>,
}

/// Checks a job and writes its parameters: `#{ name, folder, home, attempt, found }`.
fn prepare(host: &Arc<Host>, name: &str, options: JobOptions) -> Result<Value> {
    host.permits.check_jobs()?;
    if let Some(given) = &options.max_time {
        time(given).map_err(|hint| {
            Fault::usage(format!("job `{name}`: `max_time` is `{given}`, which is no time")).hint(hint)
        })?;
    }
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
        setting: options.setting,
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

/// The words of the command that runs a job. The caller appends the attempt's number.
fn command(host: &Host, name: &str) -> Result<Vec<String>> {
    let job = prepared(host, name)?;
    let mut command = vec![own()?, "run".to_owned(), job.script];
    let mut add = |option: &str, value: String| command.extend([option.to_owned(), value]);
    add("--params", job.parameters);
    add("--out", job.folder);
    if !job.own.hashes.is_empty() {
        add("--trust-script", job.own.hashes.join(","));
    }
    for allowed in host.permits.arguments() {
        add("--allow", allowed);
    }
    // So that all jobs send the same prompts.
    add("--seed", host.settings.seed.to_string());
    if let Some(time) = job.max_time {
        add("--max-time", time);
    }
    if host.settings.shared_gpu {
        command.push("--shared-gpu".to_owned());
    }
    if let Some(wait) = host.settings.wait {
        command.extend(["--wait".to_owned(), format!("{}ms", wait.as_millis())]);
    }
    if tls::is_insecure() {
        command.push("--insecure".to_owned());
    }
    Ok(command)
}

/// The path of this program.
fn own() -> Result<String> {
    let program = own_program::get()
        .ok_or_else(|| Fault::internal("no program that does jobs: `own_program::set` was not called"))?;
    text(&std::fs::canonicalize(program).unwrap_or_else(|_| program.to_owned()))
}

fn text(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Fault::usage(format!("the path `{}` is not UTF-8", path.display())))
}

/// Records the result of a job, and returns it for the script.
fn note(host: &Host, job: Job, mut found: Value) -> Caught<Dynamic> {
    if !job.setting.is_empty() {
        found["setting"] = job.setting.into();
    }
    let shown = to_script(&found)?;
    if found["simulated"] == true {
        host.run.set_simulated();
    }
    let args = serde_json::from_str(&job.args).unwrap_or_default();
    host.run.finish(args, Operation::Job(found))?;
    Ok(shown)
}

fn prepared(host: &Host, name: &str) -> Result<Job> {
    let known = host.state().jobs.get(name).cloned();
    known
        .ok_or_else(|| Fault::usage(format!("there is no job `{name}`")).hint("describe it with `jobs::prepare` first"))
}

/// The name of this program on other hosts. It includes the program's hash, so that each version is copied once.
fn program_name() -> Result<String> {
    static NAME: OnceLock<String> = OnceLock::new();
    if let Some(known) = NAME.get() {
        return Ok(known.clone());
    }
    let hash: String = file::hashed(open_program()?)
        .map_err(|error| Fault::io(Path::new("this program"), &error))?
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

/// Checks a script with its parameters, once for all jobs that set parameters of the same names and name the same
/// modules by them, and returns the texts that do not ship with the program.
fn checked(host: &Host, options: &JobOptions) -> Result<Arc<OwnTexts>> {
    let names = options.set.keys().cloned().chain(named_modules(&options.set));
    let key = format!("{} {}", options.script, names.collect::<Vec<_>>().join(" "));
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
    let idle = Host::idle(&host.tasks, settings);
    if let Some(found) = check_main(&idle, &main).into_iter().next() {
        return Err(set_where_known(found.fault, &options.script));
    }
    // A shipped script runs as such, whatever its name.
    let runs_shipped = |text: &Source| text.key == main.source.key && is_shipped(&main.source.sha256);
    let mut texts: Vec<(String, PathBuf)> = idle
        .sources
        .own()
        .filter(|text| !runs_shipped(text))
        .map(|text| (text.sha256.clone(), PathBuf::from(&*text.key)))
        .collect();
    let named = named_modules(&options.set).filter(|file| !file.starts_with("std/"));
    texts.extend(named.filter_map(|file| Some((module_hash(&main, &file)?, main.root.join(file)))));
    texts.sort();
    texts.dedup();
    let (hashes, files) = texts.into_iter().unzip();
    let own = Arc::new(OwnTexts { hashes, files });
    host.state().checked_jobs.insert(key, Arc::clone(&own));
    Ok(own)
}

/// Replaces the long list of parameters in the hint of an unknown one, which may come from the defaults of many jobs.
fn set_where_known(fault: Fault, script: &str) -> Fault {
    let lists = fault
        .hint
        .as_deref()
        .is_some_and(|hint| hint.starts_with(PARAMETERS_ARE));
    if lists {
        fault.hint(format!(
            "`{script}` has no such parameter: set it only for the scripts that have it; `profiler run {script} --help` lists those of this one"
        ))
    } else {
        fault
    }
}

/// Converts an array to a list of strings.
pub(super) fn strings(list: rhai::Array, of: &str) -> Result<Vec<String>> {
    let words: Option<Vec<String>> = list.into_iter().map(|word: Dynamic| word.into_string().ok()).collect();
    words.ok_or_else(|| Fault::usage(format!("`{of}` takes an array of strings")))
}

/// The least growth of a job's archive in a minute, bytes.
const LEAST_FETCHED: u64 = 16 << 10;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct CommandOptions {
    input: String,
    send: Option<String>,
    fetch: Option<String>,
    timeout: Option<f64>,
}

/// Commands of this machine, such as those of a scheduler. Each needs `--allow command=NAME`.
#[export_module]
pub mod command {
    /// Runs a command until it exits: `#{ code, output, errors }`, its exit status (`()` after a signal), its standard
    /// output, and the end of its standard error. Its standard input is empty, its time limit is a minute, and it gets
    /// the Hugging Face token only with `--allow token`.
    ///
    /// # Errors
    ///
    /// `not_allowed` without `--allow command=NAME`; `missing` if there is no such program; `timeout` if it does not
    /// end in time.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let said = command::run(["echo", "hello"]);
    /// assert(said == #{ code: 0, output: "hello\n", errors: "" });
    /// ```
    #[rhai_fn(return_raw)]
    pub fn run(context: NativeCallContext, words: Array) -> Caught<Dynamic> {
        run_with(context, words, Map::new())
    }

    /// Runs a command with options.
    ///
    /// - `timeout`: seconds (60)
    /// - `input`: the text of its standard input
    /// - `send`, instead of `input`: the name of a job, for a tar archive of everything that another host needs to run
    ///   it (its parameters, its own scripts, and the run's files so far, by their paths below this folder and this
    ///   run's); or `jobs::program()`, for this program
    /// - `fetch`: the name of a job; the output is read as a tar archive of the folder of its run, and folders and
    ///   regular files are unpacked. It must grow by 16 KiB in each minute
    ///
    /// # Errors
    ///
    /// The errors of `run` without options; `timeout` for an archive that grows too slowly; `usage` for an unknown
    /// option, a job that was not prepared, or a job with a script outside this folder; `limit` if the run would become
    /// larger than allowed.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(command::run(["cat"], #{ input: "squeue" }).output == "squeue");
    /// ```
    #[rhai_fn(name = "run", return_raw)]
    pub fn run_with(context: NativeCallContext, words: Array, given: Map) -> Caught<Dynamic> {
        let host = begin_call(&context);
        let words = super::strings(words, "command::run")?;
        let given: CommandOptions = options(given)?;
        let seconds = given.timeout.unwrap_or(60.0);
        let time = Duration::try_from_secs_f64(seconds)
            .map_err(|_| Fault::usage(format!("option `timeout` is {seconds}, not a number of seconds")))?;
        host.permits.check_command(words.first().map_or("", String::as_str))?;
        if host.settings.dry_run {
            return Err(Fault::dry_run(format!("`{}` would be run", words.join(" "))).into());
        }
        host.state().commands = true;
        let input = match &given.send {
            Some(name) if name.starts_with(PROGRAM) => Input::File(open_program()?),
            Some(name) => Input::File(host.run.pack_job(name, &prepared(&host, name)?.own.files)?),
            None => Input::Text(&given.input),
        };
        let take = |name: String| -> Result<Take> {
            prepared(&host, &name)?;
            let run = Arc::clone(&host.run);
            Ok(Box::new(move |archive| run.unpack_job(&name, archive)))
        };
        let take = given.fetch.map(take).transpose()?;
        let done = host.tasks.wait(run_command(CommandLine {
            input,
            take,
            least: LEAST_FETCHED,
            token: host.permits.gives_tokens(),
            leaves: true,
            ..CommandLine::new(&words, time)
        }))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = json!({ "code": done.code, "output": text(&done.stdout), "errors": text(&done.stderr) });
        Ok(to_script(&said)?)
    }

    /// Words as a line of a POSIX shell, as a scheduler's script or a command of `ssh` needs it: each word is quoted if
    /// necessary.
    ///
    /// # Errors
    ///
    /// `usage` unless each is a string.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(command::line(["echo", "a b"]) == "echo 'a b'");
    /// ```
    #[rhai_fn(return_raw)]
    pub fn line(words: Array) -> Caught<String> {
        let words = super::strings(words, "command::line")?;
        let quoted: Vec<_> = words.iter().map(|word| shell_quoted(word)).collect();
        Ok(quoted.join(" "))
    }
}

/// Jobs: runs of `profiler` that a script starts, each in its own folder below `jobs/` of the run's folder. `std/fleet`
/// reads a list of them, `std/clusters/…` run them. Scripts that do not ship with the program need `--allow process`.
#[export_module]
pub mod jobs {
    /// Checks a job and returns `#{ name, folder, home, attempt, found }`: its folder, the folder to which its script
    /// and paths are relative, the number of the latest attempt (0: none), and its result (`()`: not ended). Nothing is
    /// started. `job` is `#{ script, set, setting, max_time }`: a script as `profiler run` takes it, its parameters
    /// (`#{}`), what distinguishes it from other jobs, in words, and the time after which it ends, such as `"30m"`. The
    /// job has the permissions of this run.
    ///
    /// # Errors
    ///
    /// `not_allowed` without `--allow process`; `usage` for a name that is not a plain word, for an unknown script, and
    /// in a run without a folder; and the faults that `profiler check` finds in the script or its parameters.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try {
    ///     jobs::prepare("one", #{ script: "adaptive", set: #{ inputt: 512 } });
    /// } catch (e) { assert(e.message.contains("inputt")); }
    /// ```
    #[rhai_fn(return_raw)]
    pub fn prepare(context: NativeCallContext, name: &str, job: Map) -> Caught<Dynamic> {
        Ok(to_script(&super::prepare(&begin_call(&context), name, options(job)?)?)?)
    }

    /// The words of the command that runs a prepared job. Append `--attempt` and a number.
    ///
    /// # Errors
    ///
    /// `usage` for a job that was not prepared.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try { jobs::command("one"); } catch (e) { assert(e.kind == "usage"); }
    /// ```
    #[rhai_fn(return_raw)]
    pub fn command(context: NativeCallContext, name: &str) -> Caught<Array> {
        let words = super::command(&begin_call(&context), name)?;
        Ok(words.into_iter().map(Dynamic::from).collect())
    }

    /// Starts an attempt at a prepared job on this machine and returns it as a service. `gpus` are the GPUs that it
    /// sees, by index or UUID (`[]`: all). It ends with this run, and has the permissions of this run.
    ///
    /// # Errors
    ///
    /// `usage` for a job that was not prepared; `missing` for a GPU that does not exist.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try { jobs::start("one", 1, []); } catch (e) { assert(e.kind == "usage"); }
    /// ```
    #[rhai_fn(return_raw)]
    pub fn start(context: NativeCallContext, name: &str, attempt: i64, gpus: Array) -> Caught<Service> {
        let (host, gpus) = (begin_call(&context), super::strings(gpus, "jobs::start")?);
        host.permits.check_jobs()?;
        let mut words = super::command(&host, name)?;
        if host.settings.dry_run {
            return Err(Fault::dry_run(format!("the job `{name}` would be started")).into());
        }
        words.extend(["--attempt".to_owned(), attempt.to_string()]);
        let context = host.start_context(name);
        Ok(Service(host.tasks.wait(runtime::start_own(words, &gpus, &context))?))
    }

    /// The result of a job, as the journal keeps it: `#{ name, status, script, setting, model, engine, gpu, answer,
    /// tokens, concurrency, output_throughput, mean_ttft_ms, cost_output, why, hint, simulated }`, without unknown values.
    /// `status` is `done`, `failed`, or `out of time` if its `max_time` was over: `answer` is then that of the run so far.
    /// Returns `()` if its run was not started, is still running, or was interrupted or killed, so that another attempt
    /// may resume it.
    ///
    /// # Errors
    ///
    /// `usage` for a job that was not prepared; `io` if its folder cannot be read.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try { jobs::conclude("one"); } catch (e) { assert(e.kind == "usage"); }
    /// ```
    #[rhai_fn(return_raw)]
    pub fn conclude(context: NativeCallContext, name: &str) -> Caught<Dynamic> {
        let host = begin_call(&context);
        let job = prepared(&host, name)?;
        // The run did not end by itself.
        let Some(folder) = host.run.ended_job(name)? else {
            return Ok(Dynamic::UNIT);
        };
        note(&host, job, job_result(&folder, name)?)
    }

    /// Gives up on a job and returns `#{ name, status: "given up", script, why }`, which the journal keeps.
    ///
    /// # Errors
    ///
    /// `usage` for a job that was not prepared.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try { jobs::give_up("one", "no node is left"); } catch (e) { assert(e.kind == "usage"); }
    /// ```
    #[rhai_fn(return_raw)]
    pub fn give_up(context: NativeCallContext, name: &str, why: &str) -> Caught<Dynamic> {
        let host = begin_call(&context);
        let job = prepared(&host, name)?;
        let found = json!({ "name": name, "status": "given up", "script": job.script, "why": why });
        note(&host, job, found)
    }

    /// The results of jobs as text: tables by model, engine and GPU, and the failed jobs with their reasons. `found`
    /// are maps as `jobs::conclude` returns them.
    ///
    /// # Errors
    ///
    /// `usage` for other maps.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let text = jobs::text([#{ name: "one", status: "given up", script: "adaptive", why: "no node is left" }]);
    /// assert(text.contains("no node is left"));
    /// ```
    #[rhai_fn(return_raw)]
    pub fn text(context: NativeCallContext, found: Array) -> Caught<String> {
        let page = begin_call(&context).settings.page;
        Ok(jobs_text(&from_script(&Dynamic::from(found))?, page)?)
    }

    /// The last `n` lines of `jobs/NAME.log` in the run's folder, where a scheduler writes the output of a job; `[]` if
    /// there is no such file.
    ///
    /// # Errors
    ///
    /// `io` if it cannot be read.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(jobs::log("one", 20) == []);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn log(context: NativeCallContext, name: &str, n: i64) -> Caught<Dynamic> {
        let last = usize::try_from(n).unwrap_or_default();
        let text = begin_call(&context).run.job_log(name)?;
        let mut lines: Vec<&str> = text.lines().collect();
        Ok(to_script(&lines.split_off(lines.len().saturating_sub(last)))?)
    }

    /// The name of this program on other hosts, with its hash, so that each version is copied once (`send` of
    /// `command::run`).
    ///
    /// # Errors
    ///
    /// `io` if the program cannot be read.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(jobs::program().starts_with("@profiler-"));
    /// ```
    #[rhai_fn(return_raw)]
    pub fn program(_context: NativeCallContext) -> Caught<String> {
        Ok(super::program_name()?)
    }

    /// The id of this run, which identifies its jobs in a scheduler's queue.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(jobs::owner() != "");
    /// ```
    pub fn owner(context: NativeCallContext) -> String {
        begin_call(&context).run.id().to_owned()
    }

    /// The command line's wish for a fleet: `"detach"` (`--detach`), `"cancel"` (`--cancel`), `"follow"` (`--follow`
    /// without these), otherwise `""`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(jobs::wish() == "");
    /// ```
    pub fn wish(context: NativeCallContext) -> String {
        begin_call(&context).settings.wish.clone()
    }

    /// Ends the script with a message and leaves the jobs running; `--resume` picks the run up again.
    ///
    /// # Errors
    ///
    /// `interrupted`, always.
    ///
    /// # Example
    ///
    /// ```rhai
    /// if jobs::wish() == "detach" { jobs::leave("8 jobs go on"); }
    /// ```
    #[rhai_fn(return_raw)]
    pub fn leave(context: NativeCallContext, message: &str) -> Caught<()> {
        begin_call(&context).state().left = true;
        Err(Fault::new(Kind::Interrupted, message).into())
    }

    /// Shows lines on the live screen, most important first; they replace the lines of the last call.
    ///
    /// # Errors
    ///
    /// `usage` unless each is a string.
    ///
    /// # Example
    ///
    /// ```rhai
    /// jobs::watch(["3 of 8 jobs ended", "node-1: adaptive"]);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn watch(context: NativeCallContext, lines: Array) -> Caught<()> {
        let lines = super::strings(lines, "jobs::watch")?;
        Ok(begin_call(&context).run.note(Event::Watch { lines })?)
    }
}
