//! Servers that a script started: logs, state, commands, stop.

use std::time::Duration;

use rhai::plugin::*;
use rhai::{Array, Map};

use crate::fault::Fault;
use crate::script::service::Service;
use crate::script::{Caught, host, to_script};

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
        service.url().map_or(Dynamic::UNIT, |url| url.to_owned().into())
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
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn logs(context: NativeCallContext, service: &mut Service) -> Caught<Dynamic> {
        let _ = host(&context);
        Ok(to_script(&service.logs(&Default::default()))?)
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
    #[rhai_fn(name = "logs", return_raw, volatile, pure)]
    pub fn logs_with(context: NativeCallContext, service: &mut Service, options: Map) -> Caught<Dynamic> {
        let _ = host(&context);
        Ok(to_script(&service.logs(&crate::script::options(options)?))?)
    }

    /// Its state: `#{ state: "running" }`, or `#{ state: "exited", code, signal, oom_killed, finished_at }`.
    /// `oom_killed` is true only if the kernel reports that it killed it because of its memory.
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
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn state(context: NativeCallContext, service: &mut Service) -> Caught<Dynamic> {
        Ok(to_script(&service.state(&host(&context))?)?)
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
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn wait(context: NativeCallContext, service: &mut Service) -> Caught<Dynamic> {
        Ok(to_script(&service.wait(&host(&context), None)?)?)
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
    #[rhai_fn(name = "wait", return_raw, volatile, pure)]
    pub fn wait_for(context: NativeCallContext, service: &mut Service, seconds: Dynamic) -> Caught<Dynamic> {
        let time = duration("wait", &seconds)?;
        Ok(to_script(&service.wait(&host(&context), Some(time))?)?)
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
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn stop(context: NativeCallContext, service: &mut Service) -> Caught<()> {
        Ok(service.stop(&host(&context), None)?)
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
    #[rhai_fn(name = "stop", return_raw, volatile, pure)]
    pub fn stop_within(context: NativeCallContext, service: &mut Service, seconds: Dynamic) -> Caught<()> {
        let grace = duration("stop", &seconds)?;
        Ok(service.stop(&host(&context), Some(grace))?)
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
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn exec(context: NativeCallContext, service: &mut Service, command: Array) -> Caught<Dynamic> {
        let words: Option<Vec<String>> = command.into_iter().map(|word| word.into_string().ok()).collect();
        let words = words.ok_or_else(|| Fault::usage("`exec` takes an array of strings"))?;
        Ok(to_script(&service.exec(&host(&context), &words)?)?)
    }

    /// Copies a file or folder of this machine into an existing folder of the container. It must be in a folder
    /// permitted with `--allow mount=DIR`, or named on the command line.
    ///
    /// # Errors
    ///
    /// `not_allowed` for any other file; `usage` for a native process, and for a file that does not exist.
    ///
    /// # Example
    ///
    /// ```rhai,needs-docker
    /// let server = docker::start(#{ image: "debian:13", args: ["sleep", "60"] });
    /// server.copy_in("models/tiny", "/tmp");
    /// ```
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn copy_in(context: NativeCallContext, service: &mut Service, from: &str, to: &str) -> Caught<()> {
        Ok(service.copy_in(&host(&context), from, to)?)
    }

    /// Copies a file or folder of the container into the run's folder, below `files/`, and returns the path of the
    /// folder that contains it. Links are left out.
    ///
    /// # Errors
    ///
    /// `missing` if there is no such file; `usage` for a native process, and in a run without a folder.
    ///
    /// # Example
    ///
    /// ```rhai,needs-docker
    /// let server = docker::start(#{ image: "debian:13", args: ["sleep", "60"] });
    /// print(server.copy_out("/etc/os-release"));
    /// ```
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn copy_out(context: NativeCallContext, service: &mut Service, from: &str) -> Caught<String> {
        Ok(service.copy_out(&host(&context), from)?)
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
        service.name().to_owned()
    }
}

fn duration(function: &str, seconds: &Dynamic) -> Result<Duration, Fault> {
    seconds
        .as_float()
        .or_else(|_| seconds.as_int().map(|whole| whole as f64))
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| Fault::usage(format!("`{function}` takes seconds, not `{seconds}`")))
}
