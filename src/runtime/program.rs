//! A Python program inside a server: its files are copied there, it runs beside what serves, within its time, and without secrets.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Captured, Launch, Service};
use crate::fault::{Fault, Kind, Result};

/// Ends the program when its time is up or nobody waits any more, and keeps secrets of the environment from it.
const GUARD: &str = include_str!("guard.py");
/// What holds a container or a process's place until it is stopped.
const HOLD: &str = "import signal; signal.pause()";
/// What the guard itself may take beyond the program's time.
const SPARE: Duration = Duration::from_secs(15);
/// The guard's exit code when the time was up.
const TIME_UP: i64 = 124;

/// A Python program to run inside a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The one of `files` that is run.
    pub file: String,
    /// Texts by plain names, which lie beside each other.
    pub files: BTreeMap<String, String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment beside that of the server.
    pub env: BTreeMap<String, String>,
    /// The interpreter; that of the server's own process where it is one, else `python3`.
    pub python: Option<String>,
    /// Seconds that it may take.
    pub timeout: f64,
}

impl Service {
    /// Runs a program inside it, to its end.
    ///
    /// # Errors
    ///
    /// `timeout` when its time is up; `missing` without such an interpreter; `usage` where there is no inside; `not_allowed` in a container
    /// that this run did not start.
    pub async fn run_program(&self, program: &Program) -> Result<Captured> {
        let time = Duration::try_from_secs_f64(program.timeout).map_err(|_| {
            Fault::usage(format!(
                "option `timeout` is {}, not a number of seconds",
                program.timeout
            ))
        })?;
        let python = program.python.clone().or_else(|| self.python());
        let python = python.unwrap_or_else(|| "python3".to_owned());
        let placed = self.place(&folder_name(), &program.files).await?;
        let folder = placed.path();
        let file = format!("{folder}/{}", program.file);
        let mut command = vec![
            python.clone(),
            "-c".to_owned(),
            GUARD.to_owned(),
            program.timeout.to_string(),
        ];
        command.extend([folder.into_owned(), python.clone(), file]);
        command.extend(program.args.iter().cloned());
        let captured = tokio::time::timeout(time + SPARE, self.capture(&command, &program.env)).await;
        match captured {
            Ok(Ok(captured)) if captured.code == Some(TIME_UP) => Err(late(program, &captured)),
            // What a shell and Docker give for a program that is not there.
            Ok(Ok(captured)) if matches!(captured.code, Some(126 | 127)) => Err(Fault::missing(
                format!("`{python}` cannot be run there: {}", said(&captured)),
                "name the Python of the engine with the option `python`",
            )),
            Ok(done) => done,
            Err(_) => Err(late(program, &Captured::default())),
        }
    }
}

/// The launch without its server: something that only holds the place, in the same image, with the same devices and folders.
#[must_use]
pub fn holding(launch: Launch, python: Option<&str>) -> Launch {
    let words = |python: &str| vec![python.to_owned(), "-c".to_owned(), HOLD.to_owned()];
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

/// Two probes at once must not remove each other's files.
fn folder_name() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!(
        "profiler-probe-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

fn late(program: &Program, captured: &Captured) -> Fault {
    let fault = Fault::new(
        Kind::Timeout,
        format!(
            "the probe `{}` was ended after {} s{}",
            program.file,
            program.timeout,
            after(captured)
        ),
    );
    fault.hint("give it more time with the option `timeout`")
}

fn after(captured: &Captured) -> String {
    match captured.last_words(5) {
        words if words.is_empty() => String::new(),
        words => format!("; it said last: {words}"),
    }
}

/// Docker tells its own failure on standard output.
fn said(captured: &Captured) -> String {
    let words = captured.last_words(3);
    if words.is_empty() {
        String::from_utf8_lossy(&captured.stdout).trim().to_owned()
    } else {
        words
    }
}
