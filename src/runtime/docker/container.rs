//! State and end of a container.

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

use super::{fault, oom_event, remove};
use crate::fault::Result;
use crate::runtime::container_names::ContainerNames;
use crate::runtime::state::{Exit, State};
use crate::runtime::{Services, cgroup};

/// A container started by this run.
#[derive(Debug)]
pub(in crate::runtime) struct Container {
    client: ContainerClient,
    name: String,
    container_names: ContainerNames,
    force_kill: CancellationToken,
    // Exit status, read once before removal.
    exit: Mutex<Option<Exit>>,
    removed: tokio::sync::Mutex<bool>,
}

/// Access to a container, whoever started it.
#[derive(Clone, Debug)]
pub(in crate::runtime) struct ContainerClient {
    pub(super) docker: Docker,
    pub(super) id: String,
}

impl Container {
    pub(super) fn new(docker: Docker, id: String, name: String, services: &Services) -> Self {
        Self {
            client: ContainerClient::new(docker, id),
            name,
            container_names: services.container_names().clone(),
            force_kill: services.force_kill(),
            exit: Mutex::default(),
            removed: tokio::sync::Mutex::default(),
        }
    }

    pub(in crate::runtime) fn client(&self) -> &ContainerClient {
        &self.client
    }

    pub(in crate::runtime) async fn state(&self) -> Result<State> {
        if let Some(exit) = self.cached_exit() {
            return Ok(State::Exited(exit));
        }
        let state = self.client.state().await?;
        self.cache_exit(&state);
        Ok(state)
    }

    fn cache_exit(&self, state: &State) {
        if let Some(exit) = state.exit() {
            *self.exit.lock().unwrap_or_else(PoisonError::into_inner) = Some(exit.clone());
        }
    }

    pub(in crate::runtime) async fn wait(&self) -> Result<Exit> {
        loop {
            if let State::Exited(exit) = self.state().await? {
                return Ok(exit);
            }
            self.client.wait().await;
        }
    }

    /// Stops and removes it; the exit status is kept.
    pub(in crate::runtime) async fn stop(&self, grace: Duration) -> Result<()> {
        let mut removed = self.removed.lock().await;
        if *removed {
            return Ok(());
        }
        if self.state().await?.exit().is_none() {
            self.stop_running(grace).await?;
            // We killed it, so no OOM event is expected.
            self.cache_exit(&self.client.current_state().await?);
        }
        remove::remove(&self.client.docker, &self.client.id).await?;
        *removed = true;
        self.container_names.remove(&self.name);
        Ok(())
    }

    /// The daemon sends the image's stop signal, and SIGKILL after the grace period.
    async fn stop_running(&self, grace: Duration) -> Result<()> {
        let ContainerClient { docker, id } = &self.client;
        let seconds = i32::try_from(grace.as_secs_f64().ceil() as u64).unwrap_or(i32::MAX);
        let options = StopContainerOptionsBuilder::default().t(seconds).build();
        let patient = docker.clone().with_timeout(grace + docker.timeout());
        let stopped = tokio::select! {
            stopped = patient.stop_container(id, Some(options)) => stopped,
            () = self.force_kill.cancelled() => {
                docker.kill_container(id, Some(KillContainerOptionsBuilder::default().signal("SIGKILL").build())).await
            }
        };
        match stopped {
            Ok(()) => Ok(()),
            // Already stopped, or removed by somebody else.
            Err(error) if matches!(fault::status(&error), Some(304 | 404 | 409)) => Ok(()),
            Err(error) => Err(fault::explain(&error)),
        }
    }

    fn cached_exit(&self) -> Option<Exit> {
        self.exit.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ContainerClient {
    pub(in crate::runtime) fn new(docker: Docker, id: String) -> Self {
        Self { docker, id }
    }

    /// The container's state. A removed container counts as exited with unknown status. After a recent SIGKILL, waits
    /// briefly for Docker's `oom` event.
    pub(in crate::runtime) async fn state(&self) -> Result<State> {
        let Some(state) = self.inspect().await? else {
            return Ok(State::Exited(Exit::default()));
        };
        if oom_event::wait_for(&self.docker, &self.id, &state).await {
            return self.current_state().await;
        }
        Ok(to_state(state))
    }

    /// The same without waiting.
    async fn current_state(&self) -> Result<State> {
        let state = self.inspect().await?;
        Ok(state.map_or_else(|| State::Exited(Exit::default()), to_state))
    }

    /// Returns when it may have exited.
    pub(in crate::runtime) async fn wait(&self) {
        let options = WaitContainerOptionsBuilder::default().condition("not-running").build();
        // The client treats exit codes other than 0 as errors; the state tells more.
        let failed = match self.docker.wait_container(&self.id, Some(options)).next().await {
            Some(Ok(_)) | None => false,
            Some(Err(error)) => !matches!(error, bollard::errors::Error::DockerContainerWaitError { .. }),
        };
        if failed {
            // The daemon may be restarting; avoid a busy loop.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Folder of its memory cgroup, if visible on this machine.
    pub(in crate::runtime) async fn cgroup(&self) -> Result<Option<PathBuf>> {
        let pid = self.inspect().await?.and_then(|state| state.pid).unwrap_or_default();
        let folder = u32::try_from(pid)
            .ok()
            .filter(|&pid| pid != 0)
            .and_then(cgroup::memory_folder);
        // A daemon in a virtual machine has other pids; only a group whose path contains the id belongs to the
        // container.
        Ok(folder.filter(|folder| folder.to_string_lossy().contains(&self.id)))
    }

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

fn to_state(state: ContainerState) -> State {
    if state.running.unwrap_or(false) {
        return State::Running;
    }
    State::Exited(Exit {
        code: state.exit_code,
        signal: None,
        oom_killed: state.oom_killed.unwrap_or(false),
        // Docker writes year 1 for "not yet".
        finished_at: state.finished_at.filter(|time| !time.starts_with("0001-")),
    })
}
