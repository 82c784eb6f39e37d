//! The environment of every command: async runtime, cancellation, output streams.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::runtime::{Builder, Runtime};

use super::signals::Signals;
use crate::fault::{Fault, Kind, Result};
use crate::memory::ModelFiles;
use crate::prompt::{Hub, read_model};
use crate::report::Terminal;
use crate::run::hide_json;
use crate::script::{Diagnostic, Host, Settings};
use crate::task::Tasks;

/// The exit status of a command that succeeded: 0, or 1 if nothing fits.
pub(super) type Status = u8;

/// Time for what was started to end.
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

    /// The host of a script that is looked at and not run: nothing is written, nothing is allowed.
    pub(super) fn idle_host(&self, script: &Path) -> Arc<Host> {
        let settings = Settings {
            script: script.to_owned(),
            ..Settings::default()
        };
        Host::idle(&self.tasks, settings)
    }

    /// The files that describe a model: of a folder, or of the hub.
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

    /// Prints the error that ended the script. An interruption is not the fault of any line.
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

/// A value as indented JSON without secrets.
pub(super) fn json_text(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value).map_err(Fault::internal)?;
    Ok(hide_json(text))
}
