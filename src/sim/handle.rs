//! Handle to a simulated engine running in this process: its URL, state and exit status, and the memory and power of
//! its devices. The latter are atomics, because a sampler reads them from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::profile::Power;
use crate::telemetry::{Activity, Device, Reading, Tenant};

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

/// Simulated devices `sim0`, `sim1`, …; all ranks of an engine use the same amount.
#[derive(Debug)]
pub(crate) struct SimDevices {
    name: String,
    count: u64,
    total: u64,
    baseline: u64,
    used: AtomicU64,
    power: Option<Power>,
    busy: AtomicBool,
}

impl SimDevices {
    /// Devices of `total` bytes each; `baseline` bytes are in use before the engine starts.
    pub(crate) fn new(name: impl Into<String>, count: u64, total: u64, baseline: u64, power: Option<Power>) -> Self {
        Self {
            name: name.into(),
            count,
            total,
            baseline,
            used: AtomicU64::new(baseline),
            power,
            busy: AtomicBool::new(false),
        }
    }

    /// Sets the bytes in use on each device.
    pub(crate) fn set(&self, used: u64) {
        self.used.store(used, Ordering::Relaxed);
    }

    pub(crate) fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Relaxed);
    }

    pub(crate) fn reading(&self) -> Reading {
        self.with(self.used.load(Ordering::Relaxed))
    }

    /// Reading as it was before the engine started.
    pub(crate) fn before(&self) -> Reading {
        self.with(self.baseline)
    }

    /// The engine's memory is attributed to this process.
    fn with(&self, used: u64) -> Reading {
        let id = |index: u64| format!("sim{index}");
        let ours = |index: u64| Tenant {
            pid: std::process::id(),
            device: id(index),
            used: Some(used.saturating_sub(self.baseline)),
        };
        let device = |index: u64| Device {
            id: id(index),
            name: self.name.clone(),
            used,
            total: self.total,
        };
        Reading {
            devices: (0..self.count).map(device).collect(),
            tenants: if used > self.baseline {
                (0..self.count).map(ours).collect()
            } else {
                Vec::new()
            },
            activity: self.power.map_or_else(Vec::new, |power| {
                (0..self.count).map(|index| self.activity(id(index), power)).collect()
            }),
        }
    }

    fn activity(&self, device: String, power: Power) -> Activity {
        let busy = self.busy.load(Ordering::Relaxed);
        Activity {
            device,
            power_mw: Some(1000 * if busy { power.busy_w } else { power.idle_w }),
            busy_percent: Some(if busy { 100 } else { 0 }),
        }
    }
}
