//! Native processes: in a group of their own, marked in their environment, ended with all their descendants.

mod exec;
mod kernel;
mod spawn;
pub(super) mod tree;
mod visible;

pub(super) use spawn::start;

use std::collections::BTreeMap;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::state::{Exit, State};
use crate::fault::{Fault, Result};

/// Names the run in the environment of everything it starts.
pub(super) const RUN: &str = "PROFILER_RUN";
/// Names the host process: see `Identity::mark`.
pub(super) const HOST: &str = "PROFILER_HOST";
/// Names one server of one host process.
pub(super) const SERVICE: &str = "PROFILER_SERVICE";

/// How often what is dying is looked at: descendants are not our children, so that nothing tells of their end.
const GLANCE: Duration = Duration::from_millis(10);
/// How long the kernel may take to end a killed process (it may be writing a core, or wait for a disk).
const AFTER_KILL: Duration = Duration::from_secs(10);

/// A process that this run started.
#[derive(Debug)]
pub(super) struct Process {
    mark: String,
    root: tree::Root,
    env: BTreeMap<String, String>,
    exit: watch::Receiver<Option<Exit>>,
    hurry: CancellationToken,
    // Removed with the process.
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
        tree::members(&self.mark, self.root)
    }

    /// Ends the whole tree: politely first, by force after `grace` or when the user is in a hurry.
    pub(super) async fn stop(&self, grace: Duration) -> Result<()> {
        tree::signal(&self.pids(), Signal::SIGTERM);
        tokio::select! {
            () = self.gone() => {}
            () = tokio::time::sleep(grace) => {}
            () = self.hurry.cancelled() => {}
        }
        let deadline = Instant::now() + AFTER_KILL;
        loop {
            // Looked for again each time: a dying tree may still fork.
            let left = self.pids();
            if left.is_empty() {
                break;
            }
            if Instant::now() > deadline {
                return Err(Fault::internal(format!("processes {left:?} do not end")));
            }
            tree::signal(&left, Signal::SIGKILL);
            tokio::time::sleep(GLANCE).await;
        }
        self.wait().await;
        Ok(())
    }

    async fn gone(&self) {
        while !self.pids().is_empty() {
            tokio::time::sleep(GLANCE).await;
        }
    }
}
