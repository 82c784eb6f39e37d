//! The environment of every command: async runtime, cancellation, output streams.

use tokio::runtime::{Builder, Runtime};

use super::signals::Signals;
use crate::fault::{Fault, Result};
use crate::report::Terminal;
use crate::task::Tasks;

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
