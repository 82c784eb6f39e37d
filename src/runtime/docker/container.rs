//! A container that this run started: its state, its end.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use bollard::Docker;
use bollard::models::ContainerState;
use bollard::query_parameters::{
    InspectContainerOptions, KillContainerOptionsBuilder, StopContainerOptionsBuilder, WaitContainerOptionsBuilder,
};
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::{fault, remove, word};
use crate::fault::Result;
use crate::runtime::claims::Claims;
use crate::runtime::state::{Exit, State};
use crate::runtime::{Services, cgroup};

/// A container that this run started.
#[derive(Debug)]
pub(in crate::runtime) struct Container {
    inside: Inside,
    name: String,
    claims: Claims,
    hurry: CancellationToken,
    // How it ended: asked once, before it is removed.
    exit: Mutex<Option<Exit>>,
    removed: tokio::sync::Mutex<bool>,
}

/// A running container, whoever started it: what can be seen from outside.
#[derive(Clone, Debug)]
pub(in crate::runtime) struct Inside {
    pub(super) docker: Docker,
    pub(super) id: String,
}

impl Container {
    pub(super) fn new(docker: Docker, id: String, name: String, services: &Services) -> Self {
        Self {
            inside: Inside::new(docker, id),
            name,
            claims: services.claims().clone(),
            hurry: services.hurry(),
            exit: Mutex::default(),
            removed: tokio::sync::Mutex::default(),
        }
    }

    pub(in crate::runtime) fn inside(&self) -> &Inside {
        &self.inside
    }

    pub(in crate::runtime) async fn state(&self) -> Result<State> {
        if let Some(exit) = self.known_exit() {
            return Ok(State::Exited(exit));
        }
        let state = self.inside.state().await?;
        self.keep(&state);
        Ok(state)
    }

    fn keep(&self, state: &State) {
        if let Some(exit) = state.exit() {
            *self.exit.lock().unwrap_or_else(PoisonError::into_inner) = Some(exit.clone());
        }
    }

    pub(in crate::runtime) async fn wait(&self) -> Result<Exit> {
        loop {
            if let State::Exited(exit) = self.state().await? {
                return Ok(exit);
            }
            self.inside.wait().await;
        }
    }

    /// Ends and removes it; what is known of its end stays known.
    pub(in crate::runtime) async fn stop(&self, grace: Duration) -> Result<()> {
        let mut removed = self.removed.lock().await;
        if *removed {
            return Ok(());
        }
        if self.state().await?.exit().is_none() {
            self.end(grace).await?;
            // Whoever killed it now, it was not for its memory: nothing more is to be heard.
            self.keep(&self.inside.seen().await?);
        }
        remove::remove(&self.inside.docker, &self.inside.id).await?;
        *removed = true;
        self.claims.drop(&self.name);
        Ok(())
    }

    /// The daemon sends the image's stop signal, and kills after the grace.
    async fn end(&self, grace: Duration) -> Result<()> {
        let Inside { docker, id } = &self.inside;
        let seconds = i32::try_from(grace.as_secs_f64().ceil() as u64).unwrap_or(i32::MAX);
        let options = StopContainerOptionsBuilder::default().t(seconds).build();
        let patient = docker.clone().with_timeout(grace + docker.timeout());
        let stopped = tokio::select! {
            stopped = patient.stop_container(id, Some(options)) => stopped,
            () = self.hurry.cancelled() => {
                docker.kill_container(id, Some(KillContainerOptionsBuilder::default().signal("SIGKILL").build())).await
            }
        };
        match stopped {
            Ok(()) => Ok(()),
            // Not running any more, or removed by somebody else.
            Err(error) if matches!(fault::status(&error), Some(304 | 404 | 409)) => Ok(()),
            Err(error) => Err(fault::explain(&error)),
        }
    }

    fn known_exit(&self) -> Option<Exit> {
        self.exit.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Inside {
    pub(in crate::runtime) fn new(docker: Docker, id: String) -> Self {
        Self { docker, id }
    }

    /// Whether it lives; a container that somebody removed has ended in an unknown way. Of one that was killed a moment ago it is waited for that the daemon tells by whom.
    pub(in crate::runtime) async fn state(&self) -> Result<State> {
        let Some(state) = self.inspect().await? else {
            return Ok(State::Exited(Exit::default()));
        };
        if word::awaited(&self.docker, &self.id, &state).await {
            return self.seen().await;
        }
        Ok(as_state(state))
    }

    /// The same, as it is seen now.
    async fn seen(&self) -> Result<State> {
        let state = self.inspect().await?;
        Ok(state.map_or_else(|| State::Exited(Exit::default()), as_state))
    }

    /// Returns when it may have ended.
    pub(in crate::runtime) async fn wait(&self) {
        let options = WaitContainerOptionsBuilder::default().condition("not-running").build();
        // An exit code other than 0 is an error to the client; the state tells more.
        let failed = match self.docker.wait_container(&self.id, Some(options)).next().await {
            Some(Ok(_)) | None => false,
            Some(Err(error)) => !matches!(error, bollard::errors::Error::DockerContainerWaitError { .. }),
        };
        if failed {
            // The daemon may be restarting: not in a busy loop.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The folder of its memory control group, if it is on this very machine and visible.
    pub(in crate::runtime) async fn cgroup(&self) -> Result<Option<PathBuf>> {
        let pid = self.inspect().await?.and_then(|state| state.pid).unwrap_or_default();
        let folder = u32::try_from(pid)
            .ok()
            .filter(|&pid| pid != 0)
            .and_then(cgroup::memory_folder);
        // A daemon in a virtual machine has other process numbers: only a group that carries the id is the container's.
        Ok(folder.filter(|folder| folder.to_string_lossy().contains(&self.id)))
    }

    /// Its processes, as this machine numbers them.
    pub(in crate::runtime) async fn pids(&self) -> Result<Vec<u32>> {
        Ok(self
            .cgroup()
            .await?
            .map(|folder| cgroup::processes(&folder))
            .unwrap_or_default())
    }

    async fn inspect(&self) -> Result<Option<ContainerState>> {
        match self
            .docker
            .inspect_container(&self.id, None::<InspectContainerOptions>)
            .await
        {
            Ok(found) => Ok(found.state),
            Err(error) if fault::status(&error) == Some(404) => Ok(None),
            Err(error) => Err(fault::explain(&error)),
        }
    }
}

fn as_state(state: ContainerState) -> State {
    if state.running.unwrap_or(false) {
        return State::Running;
    }
    State::Exited(Exit {
        code: state.exit_code,
        signal: None,
        oom_killed: state.oom_killed.unwrap_or(false),
        // The daemon writes year 1 for a time that has not come.
        finished_at: state.finished_at.filter(|time| !time.starts_with("0001-")),
    })
}
