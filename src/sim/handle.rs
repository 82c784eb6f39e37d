//! Handle to a simulated engine running in this process: its URL, memory, state and exit status.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::devices::SimDevices;
use crate::telemetry::Reading;

/// Receives log lines without the line end. Called from runtime threads; must not block.
pub type LogSink = Arc<dyn Fn(&str) + Send + Sync>;

/// State of the simulated process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Loading. vLLM and TGI refuse connections, llama.cpp answers 503.
    Starting,
    /// Serving requests.
    Ready,
    /// Exited.
    Exited(Exit),
}

/// Exit status of a simulated process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Exit {
    /// Exit code.
    pub code: i32,
    /// Whether the kernel OOM-killed it.
    pub oom_killed: bool,
}

impl Exit {
    pub(super) const FAILED: Self = Self::new(1);
    /// After SIGKILL.
    pub(super) const KILLED: Self = Self::new(137);

    pub(super) const fn new(code: i32) -> Self {
        Self {
            code,
            oom_killed: false,
        }
    }
}

impl Default for Exit {
    fn default() -> Self {
        Self::FAILED
    }
}

/// State of an engine whose async runtime was shut down.
const RUNTIME_GONE: State = State::Exited(Exit::KILLED);

/// A running simulated engine. Dropping it ends the engine.
pub struct SimHandle {
    /// `http://127.0.0.1:PORT`, known before the engine is ready.
    pub url: String,
    /// Seconds of real time per second of model time.
    pub time_scale: f64,
    pub(super) devices: Arc<SimDevices>,
    pub(super) state: watch::Receiver<State>,
    pub(super) term: CancellationToken,
    pub(super) kill: CancellationToken,
}

impl SimHandle {
    /// Current memory of the simulated devices.
    pub fn reading(&self) -> Reading {
        self.devices.reading()
    }

    /// Memory of the simulated devices before the engine started.
    pub fn before(&self) -> Reading {
        self.devices.before()
    }

    /// A closure that returns [`SimHandle::reading`], for a sampler that outlives this borrow.
    pub fn reader(&self) -> impl Fn() -> Reading + Send + 'static + use<> {
        let devices = Arc::clone(&self.devices);
        move || devices.reading()
    }

    /// Current state.
    pub fn state(&self) -> State {
        match *self.state.borrow() {
            State::Starting | State::Ready if self.state.has_changed().is_err() => RUNTIME_GONE,
            state => state,
        }
    }

    /// Waits until it serves, or has failed to start.
    pub async fn wait_started(&self) -> State {
        self.wait_for_state(|state| *state != State::Starting).await
    }

    /// Waits until it has exited.
    pub async fn wait_exited(&self) -> Exit {
        match self.wait_for_state(|state| matches!(state, State::Exited(_))).await {
            State::Exited(exit) => exit,
            State::Starting | State::Ready => unreachable!("waited for the end"),
        }
    }

    /// Sends SIGTERM, and SIGKILL after `grace`. Waits for the exit.
    pub async fn stop(&self, grace: Duration) -> Exit {
        self.term.cancel();
        if let Ok(exit) = tokio::time::timeout(grace, self.wait_exited()).await {
            return exit;
        }
        self.kill.cancel();
        self.wait_exited().await
    }

    async fn wait_for_state(&self, condition: impl FnMut(&State) -> bool) -> State {
        let mut state = self.state.clone();
        match state.wait_for(condition).await {
            Ok(found) => *found,
            Err(_) => RUNTIME_GONE,
        }
    }
}

impl Drop for SimHandle {
    fn drop(&mut self) {
        self.kill.cancel();
    }
}
