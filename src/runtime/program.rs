//! Runs a Python program inside a server: copies its files there and runs it next to the engine, with a timeout and
//! without secrets.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Captured, Launch, Service};
use crate::fault::{Fault, Kind, Result};

/// Enforces the timeout, exits when standard input is closed, and removes secrets from the environment.
const GUARD: &str = include_str!("guard.py");
/// Keeps a container or process alive without doing anything.
const IDLE_PROGRAM: &str = "import signal; signal.pause()";
/// Time the guard itself may take beyond the program's timeout.
const GUARD_OVERHEAD: Duration = Duration::from_secs(15);
/// Exit code of the guard on timeout.
const TIMEOUT_EXIT_CODE: i64 = 124;

/// A Python program to run inside a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The entry of `files` to run.
    pub file: String,
    /// Source texts by plain file name, all in one folder.
    pub files: BTreeMap<String, String>,
    /// Command line arguments.
    pub args: Vec<String>,
    /// Environment variables in addition to the server's.
    pub env: BTreeMap<String, String>,
    /// Interpreter. Default: the one of the server's own process if it is Python, else `python3`.
    pub python: Option<String>,
    /// Timeout in seconds.
    pub timeout: f64,
}

impl Service {
    /// Runs a program inside the server until it exits.
    ///
    /// # Errors
    ///
    /// `timeout` when it runs too long; `missing` if the interpreter cannot be run; `usage` if the runtime does not
    /// support it; `not_allowed` in a container that this run did not start.
    pub async fn run_program(&self, program: &Program) -> Result<Captured> {
        let time = Duration::try_from_secs_f64(program.timeout).map_err(|_| {
            Fault::usage(format!(
                "option `timeout` is {}, not a number of seconds",
                program.timeout
            ))
        })?;
        let python = program.python.clone().or_else(|| self.python());
        let python = python.unwrap_or_else(|| "python3".to_owned());
        let probe_folder = self.upload_files(&folder_name(), &program.files).await?;
        let folder = probe_folder.path();
        let file = format!("{folder}/{}", program.file);
        let mut command = vec![
            python.clone(),
            "-c".to_owned(),
            GUARD.to_owned(),
            program.timeout.to_string(),
        ];
        command.extend([folder.into_owned(), python.clone(), file]);
        command.extend(program.args.iter().cloned());
        let captured = tokio::time::timeout(time + GUARD_OVERHEAD, self.capture(&command, &program.env)).await;
        match captured {
            Ok(Ok(captured)) if captured.code == Some(TIMEOUT_EXIT_CODE) => Err(timed_out(program, &captured)),
            // Exit codes of shells and Docker for a program that cannot be found or run.
            Ok(Ok(captured)) if matches!(captured.code, Some(126 | 127)) => Err(Fault::missing(
                format!("cannot run `{python}` there: {}", error_text(&captured)),
                "give the engine's Python interpreter with the option `python`",
            )),
            Ok(done) => done,
            Err(_) => Err(timed_out(program, &Captured::default())),
        }
    }
}

/// The launch without its server: an idle program in the same image, with the same devices and folders.
#[must_use]
pub fn placeholder_launch(launch: Launch, python: Option<&str>) -> Launch {
    let words = |python: &str| vec![python.to_owned(), "-c".to_owned(), IDLE_PROGRAM.to_owned()];
    let mut command = words(python.unwrap_or("python3"));
    Launch {
        entrypoint: command.drain(..1).collect(),
        args: command,
        command: words(python.unwrap_or("python3")),
        port: 0,
        token: false,
        in_process: false,
        ..launch
    }
}

/// Unique, so that concurrent probes do not remove each other's files.
fn folder_name() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!(
        "profiler-probe-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

fn timed_out(program: &Program, captured: &Captured) -> Fault {
    let fault = Fault::new(
        Kind::Timeout,
        format!(
            "the probe `{}` was ended after {} s{}",
            program.file,
            program.timeout,
            stderr_suffix(captured)
        ),
    );
    fault.hint("give it more time with the option `timeout`")
}

fn stderr_suffix(captured: &Captured) -> String {
    match captured.stderr_tail(5) {
        words if words.is_empty() => String::new(),
        words => format!("; its last output: {words}"),
    }
}

/// Docker reports its own failure on standard output.
fn error_text(captured: &Captured) -> String {
    let words = captured.stderr_tail(3);
    if words.is_empty() {
        String::from_utf8_lossy(&captured.stdout).trim().to_owned()
    } else {
        words
    }
}
