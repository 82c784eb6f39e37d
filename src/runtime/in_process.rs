//! The simulated engine, running inside this process.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::launch::Started;
use super::{Exit, State};
use super::{Launch, ServerLog};
use crate::fault::{Fault, Result};
use crate::sim::{self, Sim, SimHandle, Spec};

/// Starts the simulated engine described by `launch.sim` on a loopback port chosen by the kernel.
pub(super) fn start(launch: &Launch, logs: ServerLog) -> Result<Started<InProcess>> {
    let spec = launch
        .sim
        .clone()
        .ok_or_else(|| Fault::usage("`sim` is missing: the simulated engine needs a profile"))?;
    let spec: Spec = serde_path_to_error::deserialize(spec)
        .map_err(|error| Fault::usage(format!("option `sim.{}`: {}", error.path(), error.inner())))?;
    let (profile, options) = spec.resolve()?;
    let sink = logs.clone();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let info = json!({"runtime": "sim", "profile": spec.profile, "gpu": profile.gpu, "options": spec.options});
    let handle = Sim::start(profile, options, address, Arc::new(move |line| sink.push(line)))?;
    Ok(Started {
        base_url: Some(handle.url.clone()),
        backend: InProcess(handle),
        logs,
        info,
    })
}

pub(super) struct InProcess(pub(super) SimHandle);

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("InProcess").field(&self.0.url).finish()
    }
}

impl InProcess {
    pub(super) fn state(&self) -> State {
        match self.0.state() {
            sim::State::Exited(exit) => State::Exited(as_exit(exit)),
            sim::State::Starting | sim::State::Ready => State::Running,
        }
    }

    pub(super) async fn wait(&self) -> Exit {
        as_exit(self.0.wait_exited().await)
    }

    pub(super) async fn stop(&self, grace: Duration) {
        self.0.stop(grace).await;
    }
}

fn as_exit(exit: sim::Exit) -> Exit {
    Exit {
        code: Some(exit.code.into()),
        signal: None,
        oom_killed: exit.oom_killed,
        outside: None,
        finished_at: None,
    }
}
