//! State, stop and removal of a container; commands that run in it, and files that are put into it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::models::{ContainerState, EventMessage};
use bollard::query_parameters::{
    EventsOptionsBuilder, InspectContainerOptions, KillContainerOptionsBuilder, RemoveContainerOptionsBuilder,
    StopContainerOptionsBuilder, UploadToContainerOptionsBuilder, WaitContainerOptionsBuilder,
};
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::{connect, create, daemon, labelled};
use crate::fault::Result;
use crate::run::Run;
use crate::runtime::orphans::ProcessIdentity;
use crate::runtime::output::OutputBuffer;
use crate::runtime::supervisor::Supervisor;
use crate::runtime::{Captured, ExecOutput, Exit, Outside, State, cgroup, launch};
use crate::task::lock;
use crate::warning::Warning;

/// What a container needs from the run's registry.
#[derive(Clone, Debug, Default)]
pub(in crate::runtime) struct ContainerRegistry {
    pub(in crate::runtime) names: Arc<Mutex<BTreeSet<String>>>,
    /// Removes the containers if this program is killed; started with the first of them.
    supervisor: Arc<OnceLock<Supervisor>>,
    /// Cancelled when stopping is forced.
    pub(in crate::runtime) force_kill: CancellationToken,
}

impl ContainerRegistry {
    /// To be called before anything is created.
    pub(super) fn supervise(&self, run: &str) -> Result<()> {
        if self.supervisor.get().is_none() {
            let supervisor = Supervisor::of_containers(run, ProcessIdentity::current().encode())?;
            // Where two starts come together, the second one is not needed.
            if let Err(supervisor) = self.supervisor.set(supervisor) {
                supervisor.dismiss();
            }
        }
        Ok(())
    }

    /// Nothing is left to remove.
    pub(in crate::runtime) fn dismiss(&self) {
        if let Some(supervisor) = self.supervisor.get() {
            supervisor.dismiss();
        }
    }
}

/// A container started by this run.
#[derive(Debug)]
pub(in crate::runtime) struct Container {
    client: ContainerClient,
    name: String,
    registry: ContainerRegistry,
    // Exit status, read once before removal.
    exit: Mutex<Option<Exit>>,
    removed: tokio::sync::Mutex<bool>,
}

/// Access to a container, whoever started it.
#[derive(Clone)]
pub(in crate::runtime) struct ContainerClient {
    pub(super) docker: Docker,
    pub(super) id: String,
    /// The run that is told when the daemon is waited for.
    run: Option<Arc<Run>>,
    /// The memory limit that this program chose, in bytes.
    own_limit: Option<u64>,
    /// Whether it may write to a few folders only.
    pub(super) read_only: bool,
}

impl fmt::Debug for ContainerClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContainerClient")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Container {
    pub(super) fn new(
        docker: Docker,
        id: String,
        name: String,
        registry: ContainerRegistry,
        run: Arc<Run>,
        own_limit: Option<u64>,
        read_only: bool,
    ) -> Self {
        Self {
            client: ContainerClient {
                run: Some(run),
                own_limit,
                read_only,
                ..ContainerClient::new(docker, id)
            },
            name,
            registry,
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
            *lock(&self.exit) = Some(exit.clone());
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
        remove(&self.client.docker, &self.name).await?;
        *removed = true;
        lock(&self.registry.names).remove(&self.name);
        Ok(())
    }

    /// The daemon sends the image's stop signal, and SIGKILL after the grace period.
    async fn stop_running(&self, grace: Duration) -> Result<()> {
        let ContainerClient { docker, id, .. } = &self.client;
        let seconds = i32::try_from(grace.as_secs_f64().ceil() as u64).unwrap_or(i32::MAX);
        let options = StopContainerOptionsBuilder::default().t(seconds).build();
        let patient = docker.clone().with_timeout(grace + docker.timeout());
        let stopped = tokio::select! {
            stopped = patient.stop_container(id, Some(options)) => stopped,
            () = self.registry.force_kill.cancelled() => {
                docker.kill_container(id, Some(KillContainerOptionsBuilder::default().signal("SIGKILL").build())).await
            }
        };
        match stopped {
            Ok(()) => Ok(()),
            // Already stopped, or removed by somebody else.
            Err(error) if matches!(daemon::status(&error), Some(304 | 404 | 409)) => Ok(()),
            Err(error) => Err(daemon::explain(error)),
        }
    }

    fn cached_exit(&self) -> Option<Exit> {
        lock(&self.exit).clone()
    }
}

impl ContainerClient {
    pub(in crate::runtime) fn new(docker: Docker, id: String) -> Self {
        Self {
            docker,
            id,
            run: None,
            own_limit: None,
            read_only: false,
        }
    }

    /// The container's state. A removed container counts as exited with unknown status. After a recent SIGKILL without a
    /// known cause, asks the kernel's log, and waits briefly for Docker's `oom` event.
    pub(in crate::runtime) async fn state(&self) -> Result<State> {
        let Some(mut state) = self.inspect().await? else {
            return Ok(State::Exited(removed()));
        };
        let killed = !state.running.unwrap_or(false) && state.exit_code == Some(SIGKILL_EXIT_CODE);
        if killed && !state.oom_killed.unwrap_or(false) {
            // Docker may miss a kill: its shim looks for the count of a group that is removed when its last process ends. A
            // container of somebody else's may have been killed and started again before.
            let logged = self.run.is_some() && cgroup::was_container_oom_killed(&self.id);
            state.oom_killed = Some(logged || wait_for_oom_event(&self.docker, &self.id, &state).await);
        }
        let started = state.started_at.as_deref().and_then(|time| time.parse().ok());
        Ok(match to_state(state) {
            State::Exited(exit) if exit.oom_killed && self.own_limit.is_some() => State::Exited(Exit {
                oom_killed: false,
                outside: self.own_limit.map(Outside::OwnLimit),
                ..exit
            }),
            State::Exited(exit) if !exit.oom_killed => State::Exited(Exit {
                outside: self.signal_since(started).await.map(Outside::Signal),
                ..exit
            }),
            state => state,
        })
    }

    /// The last signal that was sent through the daemon. This program's own come with [`Container::stop`], which does not ask.
    async fn signal_since(&self, started: Option<jiff::Timestamp>) -> Option<i32> {
        let sent = past_events(&self.docker, &self.id, &["kill"], started?).await;
        sent.last()?
            .actor
            .as_ref()?
            .attributes
            .as_ref()?
            .get("signal")?
            .parse()
            .ok()
    }

    /// Whether it was paused at some time in the last `period`.
    pub(in crate::runtime) async fn was_paused(&self, period: Duration) -> Result<bool> {
        let Ok(from) = jiff::Timestamp::now().checked_sub(period) else {
            return Ok(false);
        };
        let seen = past_events(&self.docker, &self.id, &["pause", "unpause"], from).await;
        Ok(!seen.is_empty())
    }

    /// The same without waiting.
    async fn current_state(&self) -> Result<State> {
        let state = self.inspect().await?;
        Ok(state.map_or_else(|| State::Exited(removed()), to_state))
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
        let deadline = tokio::time::Instant::now() + AWAY;
        let mut told = false;
        loop {
            let asked = self.docker.inspect_container(&self.id, None::<InspectContainerOptions>);
            let fault = match asked.await {
                Ok(found) => return Ok(found.state),
                Err(error) if daemon::status(&error) == Some(404) => return Ok(None),
                Err(error) => daemon::explain(error),
            };
            // It may be restarting, as after an update; what it ran is there again afterwards, or has exited.
            if !daemon::is_away(&fault) || tokio::time::Instant::now() >= deadline {
                return Err(fault);
            }
            if let Some(run) = self.run.as_ref().filter(|_| !std::mem::replace(&mut told, true)) {
                let message = format!("{}; waiting up to {} s for it", fault.message, AWAY.as_secs());
                run.warn(Warning::new("docker_away", message))?;
            }
            tokio::time::sleep(AWAY_PAUSE).await;
        }
    }
}

/// The exit of a container that is gone: this program removes its own only after it has read their exit.
fn removed() -> Exit {
    Exit {
        outside: Some(Outside::Removed),
        ..Exit::default()
    }
}

/// Events of a container from `from` until now, oldest first; none if the daemon does not tell.
async fn past_events(docker: &Docker, id: &str, events: &[&str], from: jiff::Timestamp) -> Vec<EventMessage> {
    let options = events_of(id, events)
        .since(&seconds(from))
        .until(&seconds(jiff::Timestamp::now()));
    let collected = docker
        .events(Some(options.build()))
        .filter_map(async |event| event.ok())
        .collect();
    tokio::time::timeout(MAX_DELAY, collected).await.unwrap_or_default()
}

/// As the daemon reads it: `1700000000.000000001`.
fn events_of(id: &str, events: &[&str]) -> EventsOptionsBuilder {
    let filters = HashMap::from([
        ("type", vec!["container"]),
        ("container", vec![id]),
        ("event", events.to_vec()),
    ]);
    EventsOptionsBuilder::default().filters(&filters)
}

fn seconds(time: jiff::Timestamp) -> String {
    format!("{}.{:09}", time.as_second(), time.subsec_nanosecond())
}

fn to_state(state: ContainerState) -> State {
    if state.running.unwrap_or(false) {
        return State::Running;
    }
    State::Exited(Exit {
        code: state.exit_code,
        signal: None,
        oom_killed: state.oom_killed.unwrap_or(false),
        outside: None,
        // Docker writes year 1 for "not yet".
        finished_at: state.finished_at.filter(|time| !time.starts_with("0001-")),
    })
}

/// Removes a container by force, and its network. What is already gone is not an error.
pub(in crate::runtime) async fn remove(docker: &Docker, name: &str) -> Result<()> {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    match docker.remove_container(name, Some(options)).await {
        Ok(()) => create::remove_network(docker, name).await,
        Err(error) if daemon::status(&error) == Some(404) => create::remove_network(docker, name).await,
        // Somebody else is removing it.
        Err(error) if daemon::status(&error) == Some(409) => Ok(()),
        Err(error) => Err(daemon::explain(error)),
    }
}

/// Last resort, with its own async runtime and connection, as the program's may be gone. Failures are ignored; the
/// next start finds what remains by its labels.
pub(in crate::runtime) fn remove_blocking(names: &[String]) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    runtime.block_on(async {
        if let Ok(docker) = connect().await {
            for name in names {
                let _ = remove(&docker, name).await;
            }
        }
    });
}

/// How long a daemon may take to create what it was asked for by a program that was killed.
const LATE: Duration = Duration::from_secs(10);

/// Removes what has the labels of this run and host, of which the daemon may still be creating something.
pub(in crate::runtime) fn remove_all_blocking(run: &str, host: &str) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    let deadline = std::time::Instant::now() + LATE;
    while std::time::Instant::now() < deadline {
        let _: Result<()> = runtime.block_on(async {
            let (docker, found) = labelled().await?;
            for found in found.iter().filter(|found| found.run == run && found.host == host) {
                remove(&docker, &found.name).await?;
            }
            Ok(())
        });
        std::thread::sleep(AWAY_PAUSE);
    }
}

/// How long a daemon that went away is waited for, and how often it is asked.
const AWAY: Duration = Duration::from_secs(120);
const AWAY_PAUSE: Duration = Duration::from_millis(500);

/// How long after the exit the event may still arrive.
const MAX_DELAY: Duration = Duration::from_secs(2);

/// 128 + SIGKILL.
const SIGKILL_EXIT_CODE: i64 = 137;

/// Waits for Docker's `oom` event if it may still arrive: after a recent SIGKILL without a known cause. Returns whether
/// it arrived.
async fn wait_for_oom_event(docker: &Docker, id: &str, state: &ContainerState) -> bool {
    // Before 2.3, containerd's shim publishes OOM kill and exit from two threads, in either order (`pkg/oom`, later
    // `internal/oom`: containerd/containerd#12714). The daemon handles each as it arrives: it sets `OOMKilled` and
    // emits `oom` when it hears of the kill, whether or not the container still runs (moby, `daemon/monitor.go`,
    // `ProcessEvent`). So the state read right after the exit may be too early.
    let Some(remaining) = remaining(state.finished_at.as_deref(), jiff::Timestamp::now()) else {
        return false;
    };
    let mut options = events_of(id, &["oom"]);
    // In the daemon's time; events since the container's start are replayed.
    if let Some(started) = state
        .started_at
        .as_deref()
        .and_then(|time| time.parse::<jiff::Timestamp>().ok())
    {
        options = options.since(&started.as_second().to_string());
    }
    let mut events = std::pin::pin!(docker.events(Some(options.build())));
    matches!(tokio::time::timeout(remaining, events.next()).await, Ok(Some(Ok(_))))
}

/// Time in which the event may still arrive; none if it is over. If our clock is behind the daemon's, the full delay.
fn remaining(finished_at: Option<&str>, now: jiff::Timestamp) -> Option<Duration> {
    let finished: jiff::Timestamp = finished_at?.parse().ok()?;
    let since = Duration::try_from(now.duration_since(finished)).unwrap_or_default();
    MAX_DELAY.checked_sub(since).filter(|remaining| !remaining.is_zero())
}

impl ContainerClient {
    /// Runs a command until it exits.
    pub(in crate::runtime) async fn exec(&self, command: &[String]) -> Result<ExecOutput> {
        let options = CreateExecOptions {
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(command.to_vec()),
            ..CreateExecOptions::default()
        };
        let (id, started) = self.start_exec(options).await?;
        let mut buffer = OutputBuffer::default();
        if let StartExecResults::Attached { mut output, .. } = started {
            while let Some(chunk) = output.next().await {
                buffer.push(chunk.map_err(daemon::explain)?.as_ref());
            }
        }
        Ok(buffer.finish(self.exit_code(&id).await?))
    }

    /// Runs a command until it exits, with separate output streams. Its standard input closes when the caller is
    /// gone.
    pub(in crate::runtime) async fn capture(
        &self,
        command: &[String],
        env: &BTreeMap<String, String>,
    ) -> Result<Captured> {
        let options = CreateExecOptions {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            env: Some(env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
            cmd: Some(command.to_vec()),
            ..CreateExecOptions::default()
        };
        let (id, started) = self.start_exec(options).await?;
        let mut captured = Captured::default();
        if let StartExecResults::Attached { mut output, input } = started {
            while let Some(chunk) = output.next().await {
                match chunk.map_err(daemon::explain)? {
                    LogOutput::StdErr { message } => captured.push_stderr(&message),
                    other => captured.push_stdout(other.as_ref()),
                }
            }
            drop(input);
        }
        captured.code = self.exit_code(&id).await?;
        Ok(captured)
    }

    /// Starts a command; returns its id and streams.
    async fn start_exec(&self, options: CreateExecOptions<String>) -> Result<(String, StartExecResults)> {
        let created = self
            .docker
            .create_exec(&self.id, options)
            .await
            .map_err(daemon::explain)?;
        let started = self
            .docker
            .start_exec(&created.id, None::<StartExecOptions>)
            .await
            .map_err(daemon::explain)?;
        Ok((created.id, started))
    }

    /// Exit code of a finished command, if the daemon reports one.
    async fn exit_code(&self, id: &str) -> Result<Option<i64>> {
        let ended = self.docker.inspect_exec(id).await;
        Ok(ended.map_err(daemon::explain)?.exit_code)
    }

    /// Puts files into a new folder and returns its path.
    pub(in crate::runtime) async fn upload_files(
        &self,
        folder: &str,
        texts: &BTreeMap<String, String>,
    ) -> Result<String> {
        let parent = match self.read_only {
            true => launch::container_path(),
            false => String::new(),
        };
        let path = format!("{parent}/");
        let options = UploadToContainerOptionsBuilder::default().path(&path).build();
        let archive = bollard::body_full(launch::archive(folder, texts)?);
        self.docker
            .upload_to_container(&self.id, Some(options), archive)
            .await
            .map_err(|error| daemon::explain(error).while_doing("cannot copy the probe into the container"))?;
        Ok(format!("{parent}/{folder}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oom_event_is_awaited_only_shortly_after_the_exit() {
        let now: jiff::Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
        assert_eq!(
            remaining(Some("2026-01-01T00:00:09.5Z"), now),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(remaining(Some("2026-01-01T00:00:08Z"), now), None);
        assert_eq!(remaining(Some("2025-01-01T00:00:08Z"), now), None);
        assert_eq!(
            remaining(Some("2026-01-01T00:00:20Z"), now),
            Some(MAX_DELAY),
            "clocks differ"
        );
        assert_eq!((remaining(None, now), remaining(Some("soon"), now)), (None, None));
    }
}
