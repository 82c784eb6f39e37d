//! The simulated engine as the program sees it while it runs in-process: where it listens, what it holds, how it ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::gauge::Gauge;
use crate::telemetry::Reading;

/// Where log lines go, one call a line, without the line end. Called from the runtime's threads; must not block.
pub type LogSink = Arc<dyn Fn(&str) + Send + Sync>;

/// What the simulated process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Loading; vLLM and TGI refuse connections, llama.cpp answers 503.
    Starting,
    /// Serving.
    Ready,
    /// Gone.
    Exited(Exit),
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The status that the process told.
    pub code: i32,
    /// Whether the kernel killed it for memory.
    pub oom_killed: bool,
}

/// What is said of an engine that is gone without a word: its runtime was shut down.
const GONE: State = State::Exited(Exit {
    code: 137,
    oom_killed: false,
});

/// A running simulated engine. Dropping it ends the engine at once.
pub struct SimHandle {
    /// `http://127.0.0.1:PORT`, known before the engine is ready.
    pub url: String,
    pub(super) gauge: Arc<Gauge>,
    pub(super) state: watch::Receiver<State>,
    pub(super) term: CancellationToken,
    pub(super) kill: CancellationToken,
}

impl SimHandle {
    /// The memory of the simulated device now. One device, `sim0`.
    #[must_use]
    pub fn reading(&self) -> Reading {
        self.gauge.reading()
    }

    /// The memory of the simulated device before the engine started.
    #[must_use]
    pub fn before(&self) -> Reading {
        self.gauge.before()
    }

    /// A closure that gives [`SimHandle::reading`], for a sampler that outlives this borrow.
    pub fn reader(&self) -> impl Fn() -> Reading + Send + 'static + use<> {
        let gauge = Arc::clone(&self.gauge);
        move || gauge.reading()
    }

    /// What it is doing now.
    #[must_use]
    pub fn state(&self) -> State {
        match *self.state.borrow() {
            State::Starting | State::Ready if self.state.has_changed().is_err() => GONE,
            state => state,
        }
    }

    /// Waits until it serves, or has failed to.
    pub async fn settled(&self) -> State {
        self.until(|state| *state != State::Starting).await
    }

    /// Waits until it is gone.
    pub async fn exited(&self) -> Exit {
        match self.until(|state| matches!(state, State::Exited(_))).await {
            State::Exited(exit) => exit,
            State::Starting | State::Ready => unreachable!("waited for the end"),
        }
    }

    /// SIGTERM, and SIGKILL after `grace`. Waits for the end.
    pub async fn stop(&self, grace: Duration) -> Exit {
        self.term.cancel();
        if let Ok(exit) = tokio::time::timeout(grace, self.exited()).await {
            return exit;
        }
        self.kill.cancel();
        self.exited().await
    }

    async fn until(&self, wanted: impl FnMut(&State) -> bool) -> State {
        let mut state = self.state.clone();
        match state.wait_for(wanted).await {
            Ok(found) => *found,
            Err(_) => GONE,
        }
    }
}

impl Drop for SimHandle {
    fn drop(&mut self) {
        self.kill.cancel();
    }
}
