//! Script API of runs that others do: commands of this machine, and jobs, each a run of its own.

use std::time::Duration;

use rhai::plugin::*;
use rhai::{Array, Map};
use serde::Deserialize;
use serde_json::json;

use crate::fault::{Fault, Kind};
use crate::fmt::shell_quoted;
use crate::report::jobs_text;
use crate::run::Event;
use crate::runtime::{Input, run_command};
use crate::script::host::Service;
use crate::script::{Caught, from_script, host, jobs as logic, options, to_script};

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct CommandOptions {
    input: String,
    send: Option<String>,
    fetch: Option<String>,
    timeout: f64,
}

impl Default for CommandOptions {
    fn default() -> Self {
        Self {
            input: String::new(),
            send: None,
            fetch: None,
            timeout: 60.0,
        }
    }
}

/// Commands of this machine, such as those of a scheduler. Each needs `--allow command=NAME`.
#[export_module]
pub mod command {
    /// Runs a command to its end: `#{ code, output, errors }`, its exit status (`()` after a signal), its standard output, and
    /// the end of its standard error. Its standard input is empty, it has a minute, and the Hugging Face token only with `--allow token`.
    ///
    /// # Errors
    ///
    /// `not_allowed` without `--allow command=NAME`; `missing` if there is no such program; `timeout` if it does not end.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let said = command::run(["echo", "hello"]);
    /// assert(said == #{ code: 0, output: "hello\n", errors: "" });
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn run(context: NativeCallContext, words: Array) -> Caught<Dynamic> {
        run_with(context, words, Map::new())
    }

    /// Runs a command with options: `timeout`, seconds (60); `input`, the text of its standard input; in its place `send`, the name of a job: the input is a tar archive of what another
    /// host needs to do it (its parameters, its own scripts, and what there is of its run, by their paths below this folder and this run's), or `jobs::program()`: this program;
    /// `fetch`, the name of a job: the output is taken as a tar archive of the folder of its run, of which folders and regular files are unpacked.
    ///
    /// # Errors
    ///
    /// As without options; `usage` for an unknown option, a job that was not prepared, and a script of one outside of this folder; `limit` if the run would hold more than it may.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(command::run(["cat"], #{ input: "squeue" }).output == "squeue");
    /// ```
    #[rhai_fn(name = "run", return_raw, volatile)]
    pub fn run_with(context: NativeCallContext, words: Array, given: Map) -> Caught<Dynamic> {
        let host = host(&context);
        let words = logic::words(words, "command::run")?;
        let given: CommandOptions = options(given)?;
        let time = Duration::try_from_secs_f64(given.timeout).map_err(|_| {
            Fault::usage(format!(
                "option `timeout` is {}, not a number of seconds",
                given.timeout
            ))
        })?;
        host.permits.check_command(words.first().map_or("", String::as_str))?;
        if host.settings.dry_run {
            return Err(Fault::dry_run(format!("`{}` would be run", words.join(" "))).into());
        }
        host.state().commands = true;
        let input = match &given.send {
            Some(name) => logic::sent(&host, name)?,
            None => Input::Text(&given.input),
        };
        let take = given.fetch.map(|name| logic::take_job(&host, &name)).transpose()?;
        let done = host
            .tasks
            .wait(run_command(&words, input, take, time, host.permits.gives_tokens()))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = json!({ "code": done.code, "output": text(&done.stdout), "errors": text(&done.stderr) });
        Ok(to_script(&said)?)
    }

    /// Words as a line of a POSIX shell, such as a scheduler's script or a command of `ssh` needs: each is quoted where it has to be.
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
        let words = logic::words(words, "command::line")?;
        Ok(words
            .iter()
            .map(|word| shell_quoted(word))
            .collect::<Vec<_>>()
            .join(" "))
    }
}

/// Jobs: runs of `profiler` that a script has done, each in a folder of its own below `jobs/` of the run's folder.
/// `std/fleet` reads which, `std/clusters/…` has them done. Scripts that do not ship with the program need `--allow process`.
#[export_module]
pub mod jobs {
    /// Checks a job and gives `#{ name, folder, home, attempt, found }`: its folder, the folder that its script and paths are relative to, the number of the latest attempt (0: none), and what
    /// it found (`()`: not ended). Nothing is started. `job` is `#{ script, set, max_time }`: a script as `profiler run` takes it, its parameters
    /// (`#{}`), and the time after which it ends, such as `"30m"`. It may do what this run may.
    ///
    /// # Errors
    ///
    /// `not_allowed` without `--allow process`; `usage` for a name that is no plain word, for an unknown script, and in a run without a folder; what `profiler check`
    /// finds in the script or its parameters.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try {
    ///     jobs::prepare("one", #{ script: "adaptive", set: #{ inputt: 512 } });
    /// } catch (e) { assert(e.message.contains("inputt")); }
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn prepare(context: NativeCallContext, name: &str, job: Map) -> Caught<Dynamic> {
        Ok(to_script(&logic::prepare(&host(&context), name, options(job)?)?)?)
    }

    /// The words of the command that does a prepared job, to which `--attempt` and a number are added.
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
        let words = logic::command(&host(&context), name)?;
        Ok(words.into_iter().map(Dynamic::from).collect())
    }

    /// Starts an attempt at a prepared job on this machine and returns it as a service. `gpus` are the GPUs that it sees, by
    /// index or UUID (`[]`: all). It ends with this run, and needs no permission: it may do what this run may.
    ///
    /// # Errors
    ///
    /// `usage` for a job that was not prepared; `missing` for a GPU that is not there.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try { jobs::start("one", 1, []); } catch (e) { assert(e.kind == "usage"); }
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn start(context: NativeCallContext, name: &str, attempt: i64, gpus: Array) -> Caught<Service> {
        let gpus = logic::words(gpus, "jobs::start")?;
        Ok(logic::start(&host(&context), name, attempt, &gpus)?)
    }

    /// What a job found, which the journal keeps: `#{ name, status, script, model, engine, gpu, answer, tokens, concurrency,
    /// output_throughput, mean_ttft_ms, cost_output, why, hint, simulated }`, without what is not known. `status` is `done` or `failed`; `()` if its run was not begun, is under way, or was
    /// interrupted or killed, so that another attempt may go on with it.
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
    #[rhai_fn(return_raw, volatile)]
    pub fn conclude(context: NativeCallContext, name: &str) -> Caught<Dynamic> {
        Ok(to_script(&logic::conclude(&host(&context), name)?)?)
    }

    /// Gives a job up and returns `#{ name, status: "given up", script, why }`, which the journal keeps.
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
    #[rhai_fn(return_raw, volatile)]
    pub fn give_up(context: NativeCallContext, name: &str, why: &str) -> Caught<Dynamic> {
        Ok(to_script(&logic::give_up(&host(&context), name, why)?)?)
    }

    /// What jobs found as text: tables by model, engine and GPU, and what failed and why. `found` are maps as
    /// `jobs::conclude` gives them.
    ///
    /// # Errors
    ///
    /// `usage` for anything else.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let text = jobs::text([#{ name: "one", status: "given up", script: "adaptive", why: "no node is left" }]);
    /// assert(text.contains("no node is left"));
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn text(context: NativeCallContext, found: Array) -> Caught<String> {
        let page = host(&context).settings.page;
        Ok(jobs_text(&from_script(&Dynamic::from(found))?, page)?)
    }

    /// The last `n` lines of `jobs/NAME.log` in the run's folder, where a scheduler puts what a job prints; `[]` without it.
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
    #[rhai_fn(return_raw, volatile)]
    pub fn log(context: NativeCallContext, name: &str, n: i64) -> Caught<Dynamic> {
        let last = usize::try_from(n).unwrap_or_default();
        Ok(to_script(&logic::log(&host(&context), name, last)?)?)
    }

    /// The name of this program for other hosts, with its hash, so that each version is put there once (`send` of `command::run`).
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
    #[rhai_fn(return_raw, volatile)]
    pub fn program(_context: NativeCallContext) -> Caught<String> {
        Ok(logic::program_name()?)
    }

    /// The id of this run, by which jobs are found in a scheduler's queue.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(jobs::owner() != "");
    /// ```
    #[rhai_fn(volatile)]
    pub fn owner(context: NativeCallContext) -> String {
        host(&context).run.id().to_owned()
    }

    /// What the user wants of a fleet: `"detach"` (`--detach`), `"cancel"` (`--cancel`), `"follow"` (`--follow` without these), else `""`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(jobs::wish() == "");
    /// ```
    #[rhai_fn(volatile)]
    pub fn wish(context: NativeCallContext) -> String {
        host(&context).settings.wish.clone()
    }

    /// Ends the script with a message, while jobs go on elsewhere: the run is not finished, and is gone on with by `--resume`.
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
    #[rhai_fn(return_raw, volatile)]
    pub fn leave(context: NativeCallContext, message: &str) -> Caught<()> {
        host(&context).state().left = true;
        Err(Fault::new(Kind::Interrupted, message).into())
    }

    /// Shows lines on the live screen, most important first, in place of those of the last call.
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
    #[rhai_fn(return_raw, volatile)]
    pub fn watch(context: NativeCallContext, lines: Array) -> Caught<()> {
        let lines = logic::words(lines, "jobs::watch")?;
        Ok(host(&context).run.note(Event::Watch { lines })?)
    }
}
