//! A server inside this very process: the simulated engine, as the sim room starts it.

use std::time::Duration;

use tokio::sync::watch;

use super::service::Body;
use super::state::{Exit, State};
use super::{LogBook, Service};
use crate::fault::Result;

/// Asks the server to end.
type Stop = Box<dyn Fn() + Send + Sync>;

/// A server inside this process.
pub(super) struct InProcess {
    exit: watch::Receiver<Option<Exit>>,
    stop: Stop,
}

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcess").finish_non_exhaustive()
    }
}

impl Service {
    /// A server inside this process: where it listens, what it writes, how it ended once it has, and what makes it end.
    #[must_use]
    pub fn in_process(
        name: &str,
        base_url: &str,
        logs: LogBook,
        info: serde_json::Value,
        exit: watch::Receiver<Option<Exit>>,
        stop: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let stop = Box::new(stop);
        Self::new(
            name,
            Some(base_url.to_owned()),
            logs,
            info,
            Body::InProcess(InProcess { exit, stop }),
        )
    }
}

impl InProcess {
    pub(super) fn state(&self) -> State {
        self.exit.borrow().clone().map_or(State::Running, State::Exited)
    }

    pub(super) async fn wait(&self) -> Exit {
        let mut exit = self.exit.clone();
        match exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.clone().unwrap_or_default(),
            // Dropped without a word: it is gone all the same.
            Err(_) => Exit::default(),
        }
    }

    pub(super) async fn stop(&self, grace: Duration) -> Result<()> {
        (self.stop)();
        // It shares our process: there is no force to use after the grace.
        let _ = tokio::time::timeout(grace, self.wait()).await;
        Ok(())
    }
}
