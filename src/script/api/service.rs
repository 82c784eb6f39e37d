//! Script API of servers and programs: containers and processes started by a script; the server that an adapter's
//! `ready` checks; and in-process probes, which are Python programs that run inside an engine (see
//! stdlib/probes/README.md), shipped or a script's own.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rhai::plugin::*;
use rhai::{Array, Map};
use serde::Deserialize;
use serde_json::{Value, json};

use super::boundary::number;
use super::jobs::strings;
use crate::engine::{Arguments, DefaultsTo, ProbeProgram, ProgramOptions};
use crate::fault::{Fault, Result};
use crate::run::hide_variable;
use crate::runtime::{self, Launch, Mount, Origin, RuntimeKind, bytes, environment, mounts, placeholder_launch};
use crate::script::adapter::{REQUEST_TIMEOUT, Server};
use crate::script::convert::deserialize_as;
use crate::script::host::{EngineHandle, LogOptions, Service};
use crate::script::resolver::open_named;
use crate::script::{Caught, Host, Source, begin_call, from_script, shipped, to_script};

/// Servers that a script started: logs, state, commands, stop.
#[export_module]
pub mod service {
    /// Its address: `http://127.0.0.1:49153`, or `()` for a container without a `port`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let server = process::start(#{ command: ["sleep", "10"] });
    /// print(server.url);
    /// ```
    #[rhai_fn(get = "url", pure)]
    pub fn url(service: &mut Service) -> Dynamic {
        service.0.base_url().map_or(Dynamic::UNIT, |url| url.to_owned().into())
    }

    /// Its output so far: an array of lines, oldest first, both streams in order of arrival.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let once = process::start(#{ command: ["echo", "hello"] });
    /// once.wait();
    /// assert(once.logs()[0] == "hello");
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn logs(context: NativeCallContext, service: &mut Service) -> Caught<Dynamic> {
        logs_with(context, service, Map::new())
    }

    /// Its output so far, with options: `last`, the number of latest lines.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown option.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let once = process::start(#{ command: ["printf", "one\ntwo\n"] });
    /// once.wait();
    /// assert(once.logs(#{ last: 1 }) == ["two"]);
    /// ```
    #[rhai_fn(name = "logs", return_raw, pure)]
    pub fn logs_with(context: NativeCallContext, service: &mut Service, options: Map) -> Caught<Dynamic> {
        begin_call(&context);
        let options: LogOptions = crate::script::options(options)?;
        Ok(to_script(&service.0.logs().last(options.last.unwrap_or(usize::MAX)))?)
    }

    /// Its state: `#{ state: "running" }`, or `#{ state: "exited", code, signal, oom_killed, finished_at }`.
    /// `oom_killed` is true only if the kernel reports that it killed the server for lack of memory.
    ///
    /// # Errors
    ///
    /// `missing` if the Docker daemon does not respond.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let server = process::start(#{ command: ["sleep", "10"] });
    /// assert(server.state().state == "running");
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn state(context: NativeCallContext, service: &mut Service) -> Caught<Dynamic> {
        Ok(to_script(&begin_call(&context).tasks.wait(service.0.state())?)?)
    }

    /// Waits until it exits, and returns `#{ code, signal, oom_killed, finished_at }`.
    ///
    /// # Errors
    ///
    /// `missing` if the Docker daemon does not respond.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let once = process::start(#{ command: ["false"] });
    /// assert(once.wait().code == 1);
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn wait(context: NativeCallContext, service: &mut Service) -> Caught<Dynamic> {
        Ok(to_script(&service.wait(&begin_call(&context), None)?)?)
    }

    /// Waits until it exits, at most `seconds` (int or float); `()` if it is still running then.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid time; `missing` if the Docker daemon does not respond.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let server = process::start(#{ command: ["sleep", "10"] });
    /// assert(server.wait(0.01) == ());
    /// ```
    #[rhai_fn(name = "wait", return_raw, pure)]
    pub fn wait_for(context: NativeCallContext, service: &mut Service, seconds: Dynamic) -> Caught<Dynamic> {
        let time = duration("wait", &seconds)?;
        Ok(to_script(&service.wait(&begin_call(&context), Some(time))?)?)
    }

    /// Stops it gracefully, and by force after its `stop_grace` (default 10 seconds). A container is removed. Stopping
    /// it again does nothing.
    ///
    /// # Errors
    ///
    /// `missing` if the Docker daemon does not respond.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let server = process::start(#{ command: ["sleep", "10"] });
    /// server.stop();
    /// assert(server.state().state == "exited");
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn stop(context: NativeCallContext, service: &mut Service) -> Caught<()> {
        Ok(service.stop(&begin_call(&context), None)?)
    }

    /// Stops it gracefully, and by force after `seconds` (int or float).
    ///
    /// # Errors
    ///
    /// `usage` for an invalid time; `missing` if the Docker daemon does not respond.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let server = process::start(#{ command: ["sleep", "10"] });
    /// server.stop(0.5);
    /// ```
    #[rhai_fn(name = "stop", return_raw, pure)]
    pub fn stop_within(context: NativeCallContext, service: &mut Service, seconds: Dynamic) -> Caught<()> {
        let grace = duration("stop", &seconds)?;
        Ok(service.stop(&begin_call(&context), Some(grace))?)
    }

    /// Runs a command inside the container, or on this machine with the process's environment, until it exits:
    /// `#{ code, output, truncated }`. The output contains both streams, up to 4 MiB; the order of lines on different
    /// streams is not certain.
    ///
    /// # Errors
    ///
    /// `missing` if there is no such program, `usage` for a command that is not an array of strings.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let server = process::start(#{ command: ["sleep", "10"], env: #{ COLOUR: "red" } });
    /// let seen = server.exec(["sh", "-c", "echo $COLOUR"]);
    /// assert(seen.output == "red\n");
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn exec(context: NativeCallContext, service: &mut Service, command: Array) -> Caught<Dynamic> {
        let words = strings(command, "exec")?;
        Ok(to_script(&begin_call(&context).tasks.wait(service.0.exec(&words))?)?)
    }

    /// Its name in the run, for `print(server)`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// print(process::start(#{ command: ["sleep", "10"] }));
    /// ```
    #[rhai_fn(name = "to_string", name = "to_debug", pure)]
    pub fn shown(service: &mut Service) -> String {
        service.0.name().to_owned()
    }

    /// Sends a GET request to the engine's server, and returns `#{ status, body }`: the HTTP status (0 without a
    /// response; `body` is then the reason) and the text. The timeout is five seconds.
    ///
    /// # Errors
    ///
    /// `usage` if the path does not start with `/`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// fn ready(engine) {
    ///     engine.get("/health").status == 200
    /// }
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn get(context: NativeCallContext, engine: &mut Server, path: &str) -> Caught<Dynamic> {
        Ok(to_script(&engine.get(&begin_call(&context).tasks, path)?)?)
    }

    /// Sends a map as JSON to a path of the engine's server, and returns `#{ status, body }` like `get`.
    ///
    /// # Errors
    ///
    /// `usage` if the path does not start with `/`, or the map has no JSON form.
    ///
    /// # Example
    ///
    /// ```rhai
    /// fn ready(engine) {
    ///     engine.post("/api/show", #{ model: "tiny" }).status == 200
    /// }
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn post(context: NativeCallContext, engine: &mut Server, path: &str, body: Map) -> Caught<Dynamic> {
        send(&context, engine, path, body, REQUEST_TIMEOUT)
    }

    /// Like `post`, with a timeout in seconds (an int or a float): for a server that responds only when a model is
    /// loaded.
    ///
    /// # Errors
    ///
    /// `usage` if the path does not start with `/`, the map has no JSON form, or `seconds` is not a valid number of
    /// seconds.
    ///
    /// # Example
    ///
    /// ```rhai
    /// fn ready(engine) {
    ///     engine.post("/api/generate", #{ model: "tiny" }, engine.options.start_timeout).status == 200
    /// }
    /// ```
    #[rhai_fn(name = "post", return_raw, pure)]
    pub fn post_within(
        context: NativeCallContext,
        engine: &mut Server,
        path: &str,
        body: Map,
        seconds: Dynamic,
    ) -> Caught<Dynamic> {
        send(&context, engine, path, body, duration("post", &seconds)?)
    }

    /// The argument of `launch(options)`; for an attached engine, with `runtime` `attach` and without `limits`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// fn ready(engine) {
    ///     engine.post("/api/show", #{ model: engine.options.model }).status == 200
    /// }
    /// ```
    #[rhai_fn(get = "options", pure)]
    pub fn options(engine: &mut Server) -> Dynamic {
        engine.options.clone()
    }

    /// Runs an in-process probe inside the engine, or in its place if it is not running, and returns the document that
    /// it prints: values in bytes, and `()` for unknown ones, with the reason in `unknown`.
    ///
    /// `name` is a shipped probe (`allocator`, `layers`, `trtllm_graphs`), or the path of your own (`"./mine.py"`,
    /// relative to the script). Options: `args` (a map by name, `#{ max_tokens: 5 }` for `--max-tokens 5`, or an array
    /// of strings), `python` (the interpreter; the engine's own, or `python3`), `env`, `timeout` (600 seconds). Secrets
    /// of the environment are not passed to it. A probe that loads a model refuses to do so next to a serving engine,
    /// unless `args` has `second_copy: true`. A resumed run replays the earlier answer.
    ///
    /// # Errors
    ///
    /// `not_allowed` for your own program, or `env`, in a container, without `--allow exec`; `missing` if an
    /// interpreter, a Python module or a GPU is not available, or the engine was launched without `in_process: true`;
    /// `usage` for the simulated engine, and if it would disturb the engine; `timeout`; `engine` if it fails, or prints
    /// something else.
    ///
    /// # Example
    ///
    /// ```rhai,needs-docker
    /// import "std/engines" as engines;
    /// let engine = engines::describe("vllm", #{ model: "Qwen/Qwen3-8B", in_process: true });
    /// engine.start();
    /// for process in engine.run_probe("allocator", #{}).processes {
    ///     for gpu in process.devices { print(`${gpu.reserved} bytes reserved, ${gpu.allocated} of them allocated`); }
    /// }
    /// ```
    #[rhai_fn(return_raw)]
    pub fn run_probe(
        context: NativeCallContext,
        engine: &mut EngineHandle,
        name: &str,
        options: Map,
    ) -> Caught<Dynamic> {
        let host = begin_call(&context);
        let given = crate::script::options(options)?;
        Ok(to_script(&crate::engine::run_probe(
            engine.0.first(),
            &program(&host, name)?,
            &given,
        )?)?)
    }
}

fn duration(function: &str, seconds: &Dynamic) -> Result<Duration, Fault> {
    number(seconds)
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| Fault::usage(format!("`{function}` takes seconds, not `{seconds}`")))
}

/// Containers started by a script. Engines are started by `engines::describe`; this is for anything else.
#[export_module]
pub mod docker {
    /// The URL of a running container, through a published port or its Docker network. Permits requests to this URL
    /// from now on. `port` is the port inside the container; `()` if it has only one.
    ///
    /// # Errors
    ///
    /// `missing` without Docker, or if the container is not running or not reachable over any network; `usage` if it
    /// has several ports and none is given; `not_allowed` for a container that the user did not name.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try {
    ///     docker::url("somebody's", ());
    /// } catch (problem) {
    ///     assert(problem.kind == "usage" && problem.message.contains("not a valid container name"));
    /// }
    /// ```
    #[rhai_fn(return_raw)]
    pub fn url(context: NativeCallContext, name: &str, port: Dynamic) -> Caught<String> {
        let host = begin_call(&context);
        let port: Option<u16> = deserialize_as("port", from_script(&port)?)?;
        Ok(host
            .tasks
            .wait(crate::runtime::container_url(name, port, &host.permits))?)
    }

    /// Starts a container and returns it as a service. It is stopped at the end of the run at the latest.
    ///
    /// Options: `image`; `entrypoint`, `args` (arrays of strings); `env` (a map of strings); `port` (inside the
    /// container, see `url`); `mounts` (`"HOST:INSIDE"`, `"HOST:INSIDE:rw"` or `#{ host, container, writable }` each);
    /// `gpus` (indices or UUIDs); `shm_size`, `memory_limit` (bytes, or `"1g"`; without swap); `ulimits` (a map of `memlock` and
    /// `stack` in bytes; -1 means unlimited); `files` (a map from file names to texts; `{files}` in `args` and `env`
    /// stands for their folder); `stop_grace` (seconds); `cache` (the path of the hub cache in the image) and `token`
    /// (true: the Hugging Face token is needed).
    ///
    /// It reaches no network and, without GPUs, writes only to `/tmp`, `/var/tmp`, `/run`, `/root/.cache` and
    /// `{files}`. `--allow net=HOST` gives it Docker's usual network, not only to that host, and a writable image.
    ///
    /// The image needs `--allow image=PREFIX`, an `entrypoint` of your own `--allow entrypoint`, and mounts
    /// `--allow mount=PATH`. The token is passed only with `--allow token`; otherwise the container starts without it,
    /// and a warning says so. `privileged`, `network: "host"`, `pid`, `ipc`, `devices`, `capabilities`,
    /// `security` and the Docker socket are always refused.
    ///
    /// # Errors
    ///
    /// `not_allowed`, before anything starts, with the permission that is missing; `missing` if there is no Docker
    /// daemon, no permission for its socket, no such image, no GPU or no disk space; `usage` for an invalid option.
    ///
    /// # Example
    ///
    /// ```rhai,needs-docker
    /// let server = docker::start(#{ image: "ollama/ollama:0.12.0", port: 11434, memory_limit: 8_000_000_000 });
    /// print(server.url);
    /// server.stop();
    /// ```
    #[rhai_fn(return_raw)]
    pub fn start(context: NativeCallContext, options: Map) -> Caught<Service> {
        let launch = crate::script::options(options)?;
        Ok(Service::start(&begin_call(&context), RuntimeKind::Docker, &launch)?)
    }
}

/// Native processes started by a script. They are not confined, so they need `--allow process`.
#[export_module]
pub mod process {
    /// Starts a program on this machine and returns it as a service. It is stopped, with all its children, at the end
    /// of the run at the latest.
    ///
    /// Options: `command` (the program and its arguments); `env` (a map of strings, added to the environment of
    /// profiler without the Hugging Face token); `port` (a fixed one; otherwise `{port}` in `command` and `env` stands
    /// for a free port); `files` (a map from file names to texts; `{files}` stands for their temporary folder); `token`
    /// (true: the Hugging Face token is needed, passed with `--allow token`); `stop_grace` (seconds).
    ///
    /// # Errors
    ///
    /// `not_allowed` without `--allow process`; `missing` if there is no such program, or the port is taken; `usage`
    /// for an invalid option.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let once = process::start(#{ command: ["echo", "hello"] });
    /// once.wait();
    /// assert(once.logs() == ["hello"]);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn start(context: NativeCallContext, options: Map) -> Caught<Service> {
        let launch = crate::script::options(options)?;
        Ok(Service::start(&begin_call(&context), RuntimeKind::Process, &launch)?)
    }
}

fn send(context: &NativeCallContext, engine: &Server, path: &str, body: Map, timeout: Duration) -> Caught<Dynamic> {
    let body = from_script(&Dynamic::from(body))?;
    Ok(to_script(&engine.post(
        &begin_call(context).tasks,
        path,
        &body,
        timeout,
    )?)?)
}

/// In-process probes without an engine.
#[export_module]
pub mod probe {
    /// Runs an in-process probe in its own process, or with `image` in its own container, and returns the document that
    /// it prints.
    ///
    /// `name` is a shipped probe (`allocator`, `layers`, `trtllm_graphs`), or the path of your own (`"./mine.py"`,
    /// relative to the script). Options: `args` (a map by name, `#{ max_tokens: 5 }` for `--max-tokens 5`, or an array
    /// of strings), `python` (the interpreter; `python3`), `env`, `gpus` (indices or UUIDs), `timeout` (600 seconds);
    /// for a container also `image`, `mounts`, `shm_size`, `memory_limit`.
    ///
    /// # Errors
    ///
    /// `not_allowed` without `--allow process`, or `--allow mount=DIR` for mounts; `missing` if an interpreter, a
    /// Python module or a GPU is not available; `usage` if it would disturb an engine; `timeout`; `engine` if it fails,
    /// or prints something else.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try {
    ///     let counters = probe::run("allocator", #{});
    /// } catch (e) {
    ///     assert(e.kind == "missing");
    /// }
    /// ```
    #[rhai_fn(return_raw)]
    pub fn run(context: NativeCallContext, name: &str, options: Map) -> Caught<Dynamic> {
        let given = crate::script::options(options)?;
        Ok(to_script(&run_standalone(&begin_call(&context), name, given)?)?)
    }
}

/// Options of `probe::run`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ProbeOptions {
    args: Arguments,
    #[serde(deserialize_with = "environment")]
    env: BTreeMap<String, String>,
    python: Option<String>,
    timeout: DefaultsTo<600>,
    /// The Docker image; without it, a native process is started.
    image: Option<String>,
    #[serde(deserialize_with = "mounts")]
    mounts: Vec<Mount>,
    gpus: Option<Value>,
    #[serde(deserialize_with = "bytes")]
    shm_size: Option<u64>,
    #[serde(deserialize_with = "bytes")]
    memory_limit: Option<u64>,
}

/// Loads the probe `name`: a shipped one, or a path relative to the main script, such as `./mine.py`. Stores it in the
/// run's folder.
fn program(host: &Host, name: &str) -> Result<ProbeProgram> {
    let shipped = shipped::probe(name).map(|text| Source::new(&format!("std/probes/{name}.py"), &text));
    let source = open_named(
        host,
        (name, Path::new(name)),
        ("probe", ".py"),
        shipped,
        shipped::probes(),
    )?;
    host.sources.insert(source.clone());
    let given = Path::new(&*source.key)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let file = if given.chars().all(is_plain) && !given.starts_with('.') && given.len() <= 100 {
        given.into_owned()
    } else {
        "probe.py".to_owned()
    };
    let mut files: BTreeMap<String, String> = shipped::shared_probe_files().into_iter().collect();
    files.insert(file.clone(), source.text.to_string());
    Ok(ProbeProgram {
        name: name.to_owned(),
        file,
        files,
        shipped: source.key.starts_with("std/"),
        sha256: source.sha256,
    })
}

/// Runs a probe in its own process or container.
fn run_standalone(host: &Host, name: &str, given: ProbeOptions) -> Result<Value> {
    let probe = program(host, name)?;
    let options = ProgramOptions {
        args: given.args,
        env: BTreeMap::new(),
        python: given.python,
        timeout: given.timeout,
    };
    let ready = probe.with(&options)?;
    let mut launch: Launch = serde_json::from_value(json!({ "gpus": given.gpus.unwrap_or_else(|| json!([])) }))
        .map_err(|error| Fault::usage(format!("option `gpus`: {error}")))?;
    launch = Launch {
        image: given.image,
        env: given.env,
        mounts: given.mounts,
        shm_size: given.shm_size,
        memory_limit: given.memory_limit,
        ..launch
    };
    let kind = match launch.image {
        Some(_) => RuntimeKind::Docker,
        None => RuntimeKind::Process,
    };
    if kind == RuntimeKind::Process
        && !(launch.mounts.is_empty() && launch.memory_limit.is_none() && launch.shm_size.is_none())
    {
        return Err(
            Fault::usage("`mounts`, `memory_limit` and `shm_size` belong to a container")
                .hint("give an `image`; a native process already sees all your files"),
        );
    }
    let launch = placeholder_launch(launch, options.python.as_deref());
    host.permits.check_launch(kind, &launch, &Origin::Script)?;
    if host.settings.dry_run {
        return Err(Fault::dry_run(format!("the probe `{name}` would be run")));
    }
    let env = launch
        .env
        .iter()
        .map(|(name, value)| (name, hide_variable(name, value)));
    let place = json!({
        "image": launch.image,
        "gpus": launch.gpus,
        "mounts": launch.mounts,
        "env": env.collect::<BTreeMap<_, _>>(),
    });
    let question = probe.journal_key(place, &options);
    probe.run_or_replay(&host.run, question, || {
        let service = host
            .tasks
            .wait(runtime::start(kind, &launch, &host.start_context("probe")))?;
        let captured = host.tasks.wait(service.run_program(&ready));
        host.tasks.finish(service.stop(service.grace()))?;
        captured
    })
}
