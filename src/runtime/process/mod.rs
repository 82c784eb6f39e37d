//! Native processes: started in their own process group with an environment variable, stopped with all descendants.

mod exec;
mod oom_watch;
mod spawn;
pub(super) mod tree;
mod visible_devices;

pub(super) use spawn::start;

use std::collections::BTreeMap;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::state::{Exit, State};
use crate::fault::{Fault, Result};

/// Id of the run, in the environment of everything it starts.
pub(super) const RUN_VARIABLE: &str = "PROFILER_RUN";
/// Owner of the process; see `ProcessIdentity::encode`.
pub(super) const HOST_VARIABLE: &str = "PROFILER_HOST";
/// One server of one host process.
pub(super) const SERVICE_VARIABLE: &str = "PROFILER_SERVICE";

/// Descendants are not our children, so their exit has to be polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Time for the kernel to end a killed process (it may be writing a core dump or waiting for a disk).
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Process {
    service_id: String,
    root: tree::Root,
    env: BTreeMap<String, String>,
    exit: watch::Receiver<Option<Exit>>,
    force_kill: CancellationToken,
    // Temporary folder, removed with the process.
    _files: Option<tempfile::TempDir>,
}

impl Process {
    pub(super) fn state(&self) -> State {
        self.exit.borrow().clone().map_or(State::Running, State::Exited)
    }

    pub(super) async fn wait(&self) -> Exit {
        let mut exit = self.exit.clone();
        match exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.clone().unwrap_or_default(),
            Err(_) => Exit::default(),
        }
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        tree::members(&self.service_id, self.root)
    }

    /// Stops the whole process tree: SIGTERM, then SIGKILL after `grace` or when stopping is forced.
    pub(super) async fn stop(&self, grace: Duration) -> Result<()> {
        tree::signal(&self.pids(), Signal::SIGTERM);
        tokio::select! {
            () = self.all_exited() => {}
            () = tokio::time::sleep(grace) => {}
            () = self.force_kill.cancelled() => {}
        }
        let deadline = Instant::now() + KILL_TIMEOUT;
        loop {
            // Listed again each time: a dying tree may still fork.
            let remaining = self.pids();
            if remaining.is_empty() {
                break;
            }
            if Instant::now() > deadline {
                return Err(Fault::internal(format!(
                    "processes {remaining:?} do not exit after SIGKILL"
                )));
            }
            tree::signal(&remaining, Signal::SIGKILL);
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.wait().await;
        Ok(())
    }

    async fn all_exited(&self) {
        while !self.pids().is_empty() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
