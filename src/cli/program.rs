//! The environment of every command: async runtime, cancellation, signals, output streams.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::fault::{Fault, Kind, Result};
use crate::memory::ModelFiles;
use crate::prompt::{Hub, read_model};
use crate::report::Terminal;
use crate::run::{Run, hide_json};
use crate::runtime::Services;
use crate::script::{Diagnostic, Host, Settings};
use crate::task::{Tasks, lock};
use crate::temporary;

/// The exit status of a command that succeeded: 0, or 1 if nothing fits.
pub(super) type Status = u8;

/// Grace period for services at the end.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// Enough for sockets and timers; computation runs on the script's thread.
const WORKERS: usize = 2;

pub(super) struct Program {
    pub(super) tasks: Tasks,
    pub(super) terminal: Terminal,
    pub(super) signals: Signals,
    _runtime: Runtime,
}

impl Program {
    pub(super) fn new(terminal: Terminal) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("async")
            .enable_all()
            .build()
            .map_err(|error| Fault::no_thread("asynchronous runtime", &error))?;
        let tasks = Tasks::new(runtime.handle().clone());
        Ok(Self {
            signals: Signals::listen(&tasks)?,
            tasks,
            terminal,
            _runtime: runtime,
        })
    }

    /// The host of a script that is inspected but not run: it writes nothing and has no permissions.
    pub(super) fn idle_host(&self, script: &Path) -> Arc<Host> {
        let settings = Settings {
            script: script.to_owned(),
            ..Settings::default()
        };
        Host::idle(&self.tasks, settings)
    }

    /// The files that describe a model, from a folder or the hub.
    pub(super) fn read_model(&self, model: &str) -> Result<ModelFiles> {
        self.tasks.wait(async { read_model(model, &Hub::from_env()?).await })
    }

    /// Prints a line to stderr that is neither a result nor an error.
    pub(super) fn note(&self, text: impl AsRef<str>) {
        self.terminal.print_error(text.as_ref());
    }

    /// Prints a JSON document without secrets.
    pub(super) fn print_json(&self, value: &impl Serialize) -> Result<()> {
        self.terminal.print(&json_text(value)?)
    }

    /// Prints the error that ended the script. An interruption is shown without a line, because no line caused it.
    pub(super) fn complain(&self, diagnostic: &Diagnostic) -> Status {
        let kind = diagnostic.fault.kind;
        if kind == Kind::Interrupted || diagnostic.location().is_none() {
            self.terminal.print_fault(&diagnostic.fault);
        } else {
            let text = diagnostic.render(self.terminal.error_colour);
            self.terminal.print_failure(text.trim_end());
        }
        kind.exit_code()
    }
}

/// Creates a file that the user named.
///
/// # Errors
///
/// `usage` if the path exists; `io` if it cannot be created.
pub(super) fn create_file(path: &Path, hint: &str) -> Result<File> {
    File::create_new(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Fault::usage(format!("`{}` exists", path.display())).hint(hint),
        _ => Fault::io(path, &error),
    })
}

/// A value as indented JSON without secrets.
pub(super) fn json_text(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value).map_err(Fault::internal)?;
    Ok(hide_json(text))
}

/// Exit status after a signal: 128 and the signal's number.
pub(super) const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;
const HUNG_UP: u8 = 129;
/// Exit status when `--max-time` is reached, like that of `timeout` of the GNU core utilities.
const OUT_OF_TIME: u8 = 124;

/// Exit status when a later attempt takes over the run.
const SUPERSEDED: u8 = 75;

/// How long the script may take to react to the first signal before its services are stopped without it.
const NOTICE_TIME: Duration = Duration::from_secs(2);

/// How long a command that reads or writes files may take to react before the process ends without it.
const BRIEF_TIME: Duration = Duration::from_millis(500);

/// Maximum time to kill services.
const KILL_TIME: Duration = Duration::from_secs(5);

/// Handles SIGINT, SIGTERM and SIGHUP. The first one asks the script to stop; a second one kills. SIGHUP, which a
/// closing terminal sends, stays ignored if it was ignored from the start, as under `nohup`.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// Exit status for the last signal; 0 if there was none.
    status: Arc<AtomicU8>,
    /// The services of the running script.
    guarded: Arc<Mutex<Option<Guarded>>>,
    /// Whether the command has nothing to finish after a signal.
    brief: Arc<AtomicBool>,
}

/// Services to stop if the script does not do so.
#[derive(Clone)]
struct Guarded {
    services: Arc<Services>,
    /// Whether the script is running; false while its services are being stopped.
    running: bool,
}

impl Signals {
    /// Starts listening. An interruption does not count as a first signal once the command has recovered from it
    /// ([`Tasks::renew`]).
    pub(super) fn listen(tasks: &Tasks) -> Result<Self> {
        let signals = Self::default();
        let _inside = tasks.runtime().enter();
        let stream =
            |kind| signal(kind).map_err(|error| Fault::internal(format!("cannot listen for signals: {error}")));
        let mut interrupt = stream(SignalKind::interrupt())?;
        let mut terminate = stream(SignalKind::terminate())?;
        let mut hangup = if is_ignored(Signal::SIGHUP) {
            None
        } else {
            Some(stream(SignalKind::hangup())?)
        };
        // With a handler, exceeding the file size limit becomes a write error and does not end the process.
        let mut too_long = stream(SignalKind::from_raw(Signal::SIGXFSZ as i32))?;
        let (shared, tasks) = (signals.clone(), tasks.clone());
        tasks.runtime().clone().spawn(async move {
            loop {
                let status = tokio::select! {
                    _ = interrupt.recv() => INTERRUPTED,
                    _ = terminate.recv() => TERMINATED,
                    Some(_) = async { hangup.as_mut()?.recv().await } => HUNG_UP,
                    _ = too_long.recv() => continue,
                };
                if tasks.interrupted() {
                    shared.kill_and_exit(status).await;
                }
                shared.interrupt(status, &tasks);
            }
        });
        Ok(signals)
    }

    /// Ends the run like a first signal: after `time`, or when a later attempt has begun.
    pub(super) fn end_after(&self, time: Option<Duration>, run: &Arc<Run>, tasks: &Tasks) -> JoinHandle<()> {
        let (shared, tasks, run) = (self.clone(), tasks.clone(), Arc::clone(run));
        tasks.runtime().clone().spawn(async move {
            let over = async {
                match time {
                    Some(time) => tokio::time::sleep(time).await,
                    None => std::future::pending().await,
                }
            };
            let status = tokio::select! {
                () = over => OUT_OF_TIME,
                () = run.superseded() => SUPERSEDED,
            };
            if !tasks.interrupted() {
                shared.interrupt(status, &tasks);
            }
        })
    }

    /// Whether `--max-time` was reached.
    pub(super) fn out_of_time(&self) -> bool {
        self.status() == Some(OUT_OF_TIME)
    }

    /// Whether a later attempt at the run began.
    pub(super) fn superseded(&self) -> bool {
        self.status() == Some(SUPERSEDED)
    }

    fn interrupt(&self, status: u8, tasks: &Tasks) {
        self.status.store(status, Ordering::Relaxed);
        tasks.interrupt();
        tasks
            .runtime()
            .spawn(self.clone().end_unless_stopped(status, tasks.clone()));
    }

    /// The exit status that a signal requests, unless it was cleared.
    pub(super) fn status(&self) -> Option<u8> {
        Some(self.status.load(Ordering::Relaxed)).filter(|status| *status != 0)
    }

    /// The reason why the command ended, for people.
    pub(super) fn stopped_by(&self) -> &'static str {
        match self.status() {
            Some(TERMINATED) => "stopped by SIGTERM",
            Some(OUT_OF_TIME) => "stopped: --max-time was reached",
            Some(SUPERSEDED) => "stopped: a later attempt took over this run",
            Some(HUNG_UP) => "stopped because its terminal closed (SIGHUP)",
            _ => "stopped by Ctrl-C",
        }
    }

    /// Clears an interruption, because the REPL continues after it. A request to terminate is kept.
    pub(super) fn clear_interrupt(&self) {
        // The result does not matter: there may have been no interruption.
        let _ = self
            .status
            .compare_exchange(INTERRUPTED, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Ignores the signal, so that the command's own exit status applies.
    pub(super) fn clear(&self) {
        self.status.store(0, Ordering::Relaxed);
    }

    /// From here on, a signal ends the process soon, whatever it is doing: nothing is measured that could be lost.
    pub(super) fn end_soon(&self) {
        self.brief.store(true, Ordering::Relaxed);
    }

    /// Registers the services of a script that is about to start.
    pub(super) fn guard(&self, services: &Arc<Services>) {
        *self.guarded() = Some(Guarded {
            services: Arc::clone(services),
            running: true,
        });
    }

    /// Notes that the script has ended and its services are being stopped: only a second signal interferes now.
    pub(super) fn script_ended(&self) {
        if let Some(guarded) = &mut *self.guarded() {
            guarded.running = false;
        }
    }

    /// Forgets the services: all have ended, or somebody else is responsible for them.
    pub(super) fn unguard(&self) {
        self.guarded().take();
    }

    fn guarded(&self) -> MutexGuard<'_, Option<Guarded>> {
        lock(&self.guarded)
    }

    /// If the script ignores the interruption, ends its services and then the process.
    async fn end_unless_stopped(self, status: u8, tasks: Tasks) {
        if self.brief.load(Ordering::Relaxed) {
            tokio::time::sleep(BRIEF_TIME).await;
            exit(status);
        }
        loop {
            tokio::time::sleep(NOTICE_TIME).await;
            if !tasks.interrupted() {
                return;
            }
            // Engines that are being stopped have their own grace period, and the script ends after that.
            if !tasks.finishing() {
                break;
            }
        }
        // A clone, so that a second signal still finds the services to kill.
        let guarded = self.guarded().clone();
        if let Some(guarded) = guarded.filter(|guarded| guarded.running) {
            // A failure cannot be handled here: the next start finds leftovers.
            let _ = guarded.services.stop_all(GRACE).await;
            exit(status);
        }
    }

    /// Kills everything and ends the process.
    async fn kill_and_exit(&self, status: u8) {
        let guarded = self.guarded().clone();
        if let Some(Guarded { services, .. }) = guarded {
            services.kill_all();
            // The next start finds what could not be killed in time.
            let _ = tokio::time::timeout(KILL_TIME, services.stop_all(Duration::ZERO)).await;
        }
        exit(status);
    }
}

/// Ends the process without waiting for its threads. Supervisors end what runs below it.
#[expect(clippy::exit, reason = "threads may be busy, and a signal must end the process")]
pub(super) fn exit(status: u8) -> ! {
    temporary::remove_all();
    std::process::exit(i32::from(status))
}

/// Whether this process was started with the signal ignored.
fn is_ignored(signal: Signal) -> bool {
    let status = procfs::process::Process::myself().and_then(|process| process.status());
    status.is_ok_and(|status| status.sigign & (1 << (signal as i32 - 1)) != 0)
}
