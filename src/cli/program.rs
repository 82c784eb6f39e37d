//! What every command works with: the asynchronous runtime, the user's wish to stop, the two output streams.

use tokio::runtime::{Builder, Runtime};

use super::signals::Signals;
use crate::fault::{Fault, Result};
use crate::report::Terminal;
use crate::task::Tasks;

/// Enough for sockets and timers; the work is done on the script's thread.
const WORKERS: usize = 2;

/// One command under way.
pub(super) struct Program {
    /// Waiting for asynchronous work.
    pub(super) tasks: Tasks,
    /// Where to print.
    pub(super) terminal: Terminal,
    /// SIGINT and SIGTERM.
    pub(super) signals: Signals,
    _runtime: Runtime,
}

impl Program {
    /// Starts the runtime and listens for signals.
    pub(super) fn new(terminal: Terminal) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("async")
            .enable_all()
            .build()
            .map_err(|error| Fault::internal(format!("cannot start the asynchronous runtime: {error}")))?;
        let tasks = Tasks::new(runtime.handle().clone());
        Ok(Self {
            signals: Signals::listen(&tasks)?,
            tasks,
            terminal,
            _runtime: runtime,
        })
    }
}
