//! A server that a script started by hand: its log, its inside, its end.

use std::time::Duration;

use rhai::plugin::*;
use rhai::{Array, Map};

use crate::fault::Fault;
use crate::script::service::Service;
use crate::script::{Caught, host, to_script};

/// A server that a script started by hand: its log, its inside, its end.
#[export_module]
pub mod service {
    /// Where it listens: `http://127.0.0.1:49153`, or `()` for a container without a `port`.
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

    /// What it wrote so far: an array of lines, oldest first, both streams in the order that they came.
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

    /// What it wrote so far, with options: `last`, how many of the newest lines.
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

    /// Whether it lives: `#{ state: "running" }`, or `#{ state: "exited", code, signal, oom_killed, finished_at }`. `oom_killed` is true only when
    /// the kernel says that it killed it for its memory.
    ///
    /// # Errors
    ///
    /// `missing` when the Docker daemon does not answer any more.
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

    /// Waits until it ends, and gives `#{ code, signal, oom_killed, finished_at }`.
    ///
    /// # Errors
    ///
    /// `missing` when the Docker daemon does not answer any more.
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

    /// Waits until it ends, at most so many seconds (int or float); `()` when it still runs then.
    ///
    /// # Errors
    ///
    /// `usage` for a time that is none; `missing` when the Docker daemon does not answer any more.
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

    /// Ends it: politely, and by force after its `stop_grace` (10 seconds unless its options say otherwise). A container is removed.
    /// Doing it again does nothing.
    ///
    /// # Errors
    ///
    /// `missing` when the Docker daemon does not answer any more.
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

    /// Ends it: politely, and by force after so many seconds (int or float).
    ///
    /// # Errors
    ///
    /// `usage` for a time that is none; `missing` when the Docker daemon does not answer any more.
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

    /// Runs a command inside the container, or beside the process with its environment, to its end: `#{ code, output, truncated }`. The output
    /// is both streams, the first 4 MiB; which of two lines on different streams comes first is not certain.
    ///
    /// # Errors
    ///
    /// `missing` when there is no such program, `usage` for a command that is no array of strings.
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

    /// Copies a file or folder of this machine into a folder of the container, which exists. It must lie in a folder that the user allowed with
    /// `--allow mount=DIR`, or named on the command line.
    ///
    /// # Errors
    ///
    /// `not_allowed` for any other file; `usage` for a native process, and for a file that is not there.
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

    /// Copies a file or folder of the container into the run's folder, below `files/`, and gives the path of the folder that it is in now. Links
    /// are left out.
    ///
    /// # Errors
    ///
    /// `missing` when there is no such file; `usage` for a native process, and in a run that keeps no folder.
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

    /// Its name in the run, so that `print(server)` shows it.
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

/// Seconds of a script, int or float.
fn duration(function: &str, seconds: &Dynamic) -> Result<Duration, Fault> {
    seconds
        .as_float()
        .or_else(|_| seconds.as_int().map(|whole| whole as f64))
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| Fault::usage(format!("`{function}` takes seconds, not `{seconds}`")))
}
