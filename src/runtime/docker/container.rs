//! State, stop and removal of a container; commands and files in it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::models::{ContainerState, EventMessage};
use bollard::query_parameters::{
    DownloadFromContainerOptionsBuilder, EventsOptionsBuilder, InspectContainerOptions, KillContainerOptionsBuilder,
    RemoveContainerOptionsBuilder, StopContainerOptionsBuilder, UploadToContainerOptionsBuilder,
    WaitContainerOptionsBuilder,
};
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::daemon::DockerInfo;
use super::{connect, daemon, labelled};
use crate::fault::{Fault, Result};
use crate::outside::Bounded;
use crate::run::Run;
use crate::runtime::state::{EndedBy, Exit, State};
use crate::runtime::supervisor::Supervisor;
use crate::runtime::{Captured, cgroup, launch, owner, process_tree};
use crate::task::lock;

/// The run's registry of its containers.
#[derive(Clone, Default)]
pub(in crate::runtime) struct ContainerRegistry {
    pub(in crate::runtime) names: Arc<Mutex<BTreeSet<String>>>,
    /// Removes the containers if this program is killed. Started with the first container.
    supervisor: Arc<OnceLock<Supervisor>>,
    /// Facts about the daemon, from the last start that succeeded.
    facts: Arc<Mutex<Option<DockerInfo>>>,
    /// Cancelled when stopping is forced.
    pub(in crate::runtime) force_kill: CancellationToken,
}

impl ContainerRegistry {
    /// Connects to the daemon and asks for its facts, or takes those that are known. A daemon that answered before is
    /// waited for if it went away, and may have changed then.
    pub(super) async fn daemon(&self, run: &Run) -> Result<(Docker, DockerInfo)> {
        let mut known = lock(&self.facts).clone();
        let docker = match connect().await {
            Err(fault) if self.supervisor.get().is_none() => return Err(fault),
            Err(_) => {
                known = None;
                daemon::connect_again(run).await?
            }
            Ok(docker) => docker,
        };
        let facts = match known {
            Some(known) => known,
            None => daemon::facts(&docker).await?,
        };
        Ok((docker, facts))
    }

    pub(super) fn keep_facts(&self, daemon: &DockerInfo) {
        *lock(&self.facts) = Some(daemon.clone());
    }

    /// Starts the supervisor of the containers of the daemon at `address`. Must be called before anything is created.
    pub(super) fn supervise(&self, run: &str, address: &str) -> Result<()> {
        if self.supervisor.get().is_none() {
            let supervisor = Supervisor::of_containers(run, owner::own_label(), address.to_owned())?;
            // If two starts run at the same time, the second supervisor is not needed.
            if let Err(supervisor) = self.supervisor.set(supervisor) {
                supervisor.dismiss();
            }
        }
        Ok(())
    }

    /// Ends the supervisor, because nothing is left to remove.
    pub(in crate::runtime) fn dismiss(&self) {
        if let Some(supervisor) = self.supervisor.get() {
            supervisor.dismiss();
        }
    }
}

/// A container of this run, or one that somebody else started.
pub(in crate::runtime) struct Container {
    pub(super) docker: Docker,
    pub(super) id: String,
    pub(super) name: String,
    /// Gets a warning while the daemon is waited for.
    pub(super) run: Arc<Run>,
    pub(super) absence: daemon::Absence,
    /// Set for a container that this run started.
    pub(super) own: Option<Own>,
    /// When an attached container was started, to notice that somebody else restarts it.
    pub(super) started_at: Option<String>,
    /// Whether the daemon is podman, once that was asked.
    pub(super) podman: tokio::sync::OnceCell<bool>,
}

/// Data about a container that this run started.
pub(super) struct Own {
    /// The memory limit that this program chose, in bytes.
    pub(super) limit: Option<u64>,
    /// Whether only a few folders are writable.
    pub(super) read_only: bool,
    pub(super) registry: ContainerRegistry,
    /// Exit status, read once before removal.
    pub(super) exit: Mutex<Option<Exit>>,
    pub(super) removed: tokio::sync::Mutex<bool>,
}

impl Container {
    /// A container that somebody else started.
    pub(in crate::runtime) fn attached(docker: Docker, id: String, name: &str, run: &Arc<Run>) -> Self {
        Self {
            docker,
            id,
            name: name.to_owned(),
            run: Arc::clone(run),
            absence: daemon::Absence::default(),
            own: None,
            started_at: None,
            podman: tokio::sync::OnceCell::new(),
        }
    }

    /// Sets when the inspected container had started: a later restart means that its process ended.
    pub(in crate::runtime) fn started_at(mut self, time: Option<String>) -> Self {
        self.started_at = time;
        self
    }

    /// The name or id that the user gave, or the container's name in this run.
    pub(in crate::runtime) fn name(&self) -> &str {
        &self.name
    }

    pub(in crate::runtime) async fn state(&self) -> Result<State> {
        let known = self.own.as_ref().and_then(|own| lock(&own.exit).clone());
        let state = match known {
            Some(exit) => State::Exited(exit),
            None => self.observed_state().await?,
        };
        self.keep_exit(&state);
        Ok(state)
    }

    fn keep_exit(&self, state: &State) {
        if let (Some(own), Some(exit)) = (&self.own, state.exit()) {
            *lock(&own.exit) = Some(exit.clone());
        }
    }

    pub(in crate::runtime) async fn wait_exit(&self) -> Result<Exit> {
        loop {
            if let State::Exited(exit) = self.state().await? {
                return Ok(exit);
            }
            self.wait().await;
        }
    }

    /// Stops and removes a container of this run, and keeps its exit status. Containers of others are left alone.
    pub(in crate::runtime) async fn stop(&self, grace: Duration) -> Result<()> {
        let Some(own) = &self.own else { return Ok(()) };
        let mut removed = own.removed.lock().await;
        if *removed {
            return Ok(());
        }
        if self.state().await?.exit().is_none() {
            if let Err(fault) = self.stop_running(own, grace).await {
                self.await_return(fault).await?;
            }
            // We killed it, so no OOM event is expected.
            let state = self.inspect().await?;
            self.keep_exit(&state.map_or_else(|| State::Exited(removed_exit()), to_state));
        }
        if let Err(fault) = remove(&self.docker, &self.name).await {
            self.await_return(fault).await?;
            remove(&self.docker, &self.name).await?;
        }
        *removed = true;
        lock(&own.registry.names).remove(&self.name);
        Ok(())
    }

    /// The daemon sends the image's stop signal, and SIGKILL after the grace period.
    async fn stop_running(&self, own: &Own, grace: Duration) -> Result<()> {
        let (docker, id) = (&self.docker, &self.id);
        let seconds = i32::try_from(grace.as_secs_f64().ceil() as u64).unwrap_or(i32::MAX);
        let options = StopContainerOptionsBuilder::default().t(seconds).build();
        let patient = docker.clone().with_timeout(grace + docker.timeout());
        let stopped = tokio::select! {
            stopped = patient.stop_container(id, Some(options)) => stopped,
            () = own.registry.force_kill.cancelled() => {
                docker.kill_container(id, Some(KillContainerOptionsBuilder::default().signal("SIGKILL").build())).await
            }
        };
        match stopped {
            Ok(()) => Ok(()),
            // Already stopped, or removed by somebody else.
            Err(error) if matches!(daemon::status(&error), Some(304 | 404 | 409)) => Ok(()),
            // Podman's words for a container that stopped meanwhile.
            Err(error) if error.to_string().contains("container state improper") => Ok(()),
            Err(error) => Err(daemon::explain(error)),
        }
    }

    /// The container's state. A removed container counts as exited with unknown status. After a recent SIGKILL without
    /// a known cause, checks the kernel log, and waits briefly for Docker's `oom` event.
    async fn observed_state(&self) -> Result<State> {
        let Some(mut state) = self.inspect().await? else {
            return Ok(State::Exited(removed_exit()));
        };
        let started = state.started_at.as_deref().and_then(|time| time.parse().ok());
        let killed = !state.running.unwrap_or(false) && state.exit_code == Some(SIGKILL_EXIT_CODE);
        if killed && !state.oom_killed.unwrap_or(false) {
            // Docker may miss a kill: its shim reads the counter of a group that is removed when its last process ends.
            // For an attached container, the log may have a kill from before a restart.
            let logged = self.own.is_some() && cgroup::was_container_oom_killed(&self.id);
            state.oom_killed = Some(logged || self.wait_for_oom_event(&state, started).await);
        }
        if self.own.is_none() && self.started_at.is_some() && state.started_at != self.started_at {
            return Ok(State::Exited(Exit {
                ended_by: Some(EndedBy::Restarted),
                ..Exit::default()
            }));
        }
        let own_limit = self.own.as_ref().and_then(|own| own.limit);
        Ok(match to_state(state) {
            State::Exited(exit) if exit.oom_killed && own_limit.is_some() => State::Exited(Exit {
                oom_killed: false,
                ended_by: own_limit.map(EndedBy::MemoryLimit),
                ..exit
            }),
            State::Exited(exit) if !exit.oom_killed && self.absence.ended(&exit) => State::Exited(Exit {
                ended_by: Some(EndedBy::Daemon),
                ..exit
            }),
            State::Exited(exit) if !exit.oom_killed => State::Exited(Exit {
                ended_by: self.signal_since(started, exit.code).await.map(EndedBy::Signal),
                ..exit
            }),
            state => state,
        })
    }

    /// The last signal that somebody else sent through the daemon since `started`; none if there were too many to read.
    /// It cannot be our own: [`Container::stop`], which sends those, never asks for it.
    async fn signal_since(&self, started: Option<jiff::Timestamp>, exit: Option<i64>) -> Option<i32> {
        let (Some(sent), true) = self.last_event(&["kill"], started?).await else {
            return None;
        };
        let attributes = sent.actor?.attributes.unwrap_or_default();
        match attributes.get("signal") {
            Some(signal) => signal.parse().ok(),
            // Podman does not say which. Most exits show it.
            None => Some(
                exit.filter(|code| *code > 128)
                    .map_or(SIGTERM, |code| (code - 128) as i32),
            ),
        }
    }

    /// Whether it is paused, or was at any time in the last `period`.
    pub(in crate::runtime) async fn was_paused(&self, period: Duration) -> bool {
        let state = self
            .docker
            .inspect_container(&self.id, None::<InspectContainerOptions>)
            .await;
        if state.is_ok_and(|found| found.state.and_then(|state| state.paused) == Some(true)) {
            return true;
        }
        match jiff::Timestamp::now().checked_sub(period) {
            Ok(from) => self.last_event(&["pause", "unpause"], from).await.0.is_some(),
            Err(_) => false,
        }
    }

    /// Returns when it may have exited.
    async fn wait(&self) {
        let options = WaitContainerOptionsBuilder::default().condition("not-running").build();
        // The client treats exit codes other than 0 as errors. The state has the details.
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
            .filter(|pid| *pid != 0)
            .and_then(cgroup::memory_folder);
        // A daemon in a virtual machine has other pids; only a group whose path contains the id belongs to the
        // container.
        Ok(folder.filter(|folder| folder.to_string_lossy().contains(&self.id)))
    }

    /// Its processes on this machine: those of its cgroup, or without one of its own those of its pid namespace.
    pub(in crate::runtime) async fn pids(&self) -> Result<Vec<u32>> {
        if let Some(folder) = self.cgroup().await? {
            return Ok(cgroup::processes(&folder));
        }
        // Podman without root's rights makes no groups of version 1.
        let first = self.inspect().await?.and_then(|state| state.pid);
        let first = first.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0);
        Ok(first.map(process_tree::in_namespace_of).unwrap_or_default())
    }

    pub(super) async fn is_running(&self) -> Result<bool> {
        Ok(self.inspect().await?.and_then(|state| state.running) == Some(true))
    }

    async fn inspect(&self) -> Result<Option<ContainerState>> {
        let deadline = tokio::time::Instant::now() + BETWEEN_STATES;
        let mut absences = 0;
        loop {
            let asked = self.docker.inspect_container(&self.id, None::<InspectContainerOptions>);
            let fault = match asked.await {
                Ok(found) => return Ok(found.state),
                Err(error) if daemon::is_gone(&error) => return Ok(None),
                // Podman's states include some between Docker's, such as `stopped` until its clean-up has run.
                Err(error) if daemon::is_between_states(&error) && tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(daemon::BETWEEN_STATES).await;
                    continue;
                }
                Err(error) => daemon::explain(error),
            };
            // A daemon that only breaks off this answer is not away.
            absences += 1;
            if absences > daemon::MAX_ABSENCES {
                return Err(fault);
            }
            // Its containers come back with it, or have exited.
            self.await_return(fault).await?;
        }
    }

    /// Waits for the daemon if it went away; any other fault is returned.
    pub(super) async fn await_return(&self, fault: Fault) -> Result<()> {
        self.absence.await_return(&self.docker, fault, Some(&self.run)).await
    }

    /// The last of its events from `from` that could be read in time, none if the daemon does not answer, and whether no
    /// more were left. Each event has all labels of the container, so only one is kept.
    async fn last_event(&self, events: &[&str], from: jiff::Timestamp) -> (Option<EventMessage>, bool) {
        // The time format that the daemon accepts: `1700000000.000000001`.
        let seconds = |time: jiff::Timestamp| format!("{}.{:09}", time.as_second(), time.subsec_nanosecond());
        let mut options = self.events(events).since(&seconds(from));
        // Podman leaves events out where it is told an end: it is read until it has no more.
        let patience = if self.is_podman().await {
            NO_MORE
        } else {
            options = options.until(&seconds(jiff::Timestamp::now()));
            MAX_DELAY
        };
        let mut events = std::pin::pin!(self.docker.events(Some(options.build())));
        let mut last = None;
        let all = async {
            while let Ok(Some(event)) = tokio::time::timeout(patience, events.next()).await {
                last = event.ok().or(last.take());
            }
        };
        // Events that come faster than they are read have no end.
        let is_last = tokio::time::timeout(ALL_EVENTS, all).await.is_ok();
        (last, is_last)
    }

    pub(super) async fn is_podman(&self) -> bool {
        let asked = self.podman.get_or_init(async || {
            let version = self.docker.version().await.unwrap_or_default();
            daemon::is_podman(&version)
        });
        *asked.await
    }

    fn events(&self, events: &[&str]) -> EventsOptionsBuilder {
        let filters = HashMap::from([
            ("type", vec!["container"]),
            ("container", vec![self.id.as_str()]),
            ("event", events.to_vec()),
        ]);
        EventsOptionsBuilder::default().filters(&filters)
    }

    /// Waits for Docker's `oom` event if it may still arrive: after a recent SIGKILL without a known cause. Returns
    /// whether it arrived.
    async fn wait_for_oom_event(&self, state: &ContainerState, started: Option<jiff::Timestamp>) -> bool {
        // Before 2.3, containerd's shim publishes OOM kill and exit from two threads, in either order (`pkg/oom`, later
        // `internal/oom`: containerd/containerd#12714). The daemon handles each as it arrives: it sets `OOMKilled` and
        // emits `oom` when it hears of the kill, whether or not the container still runs (moby, `daemon/monitor.go`,
        // `ProcessEvent`). So the state read right after the exit may be too early.
        let Some(remaining) = remaining(state.finished_at.as_deref(), jiff::Timestamp::now()) else {
            return false;
        };
        let mut options = self.events(&["oom"]);
        // By the daemon's clock; events since the container's start are replayed.
        if let Some(started) = started {
            options = options.since(&started.as_second().to_string());
        }
        let mut events = std::pin::pin!(self.docker.events(Some(options.build())));
        matches!(tokio::time::timeout(remaining, events.next()).await, Ok(Some(Ok(_))))
    }
}

/// The exit of a container that is gone. This program reads the exit status before it removes its own containers.
fn removed_exit() -> Exit {
    Exit {
        ended_by: Some(EndedBy::Removed),
        ..Exit::default()
    }
}

fn to_state(state: ContainerState) -> State {
    if state.running.unwrap_or(false) {
        return State::Running;
    }
    State::Exited(Exit {
        code: state.exit_code,
        oom_killed: state.oom_killed.unwrap_or(false),
        // Docker writes year 1 for "not yet".
        finished_at: state.finished_at.filter(|time| !time.starts_with("0001-")),
        ..Exit::default()
    })
}

/// Removes a container by force, and its network. What is already gone is not an error.
pub(in crate::runtime) async fn remove(docker: &Docker, name: &str) -> Result<()> {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    match docker.remove_container(name, Some(options)).await {
        // Somebody else is removing it.
        Err(error) if daemon::status(&error) == Some(409) => Ok(()),
        Err(error) if !daemon::is_gone(&error) => Err(daemon::explain(error)),
        _ => remove_network(docker, name).await,
    }
}

/// Removes a network if there is one.
pub(super) async fn remove_network(docker: &Docker, name: &str) -> Result<()> {
    match docker.remove_network(name).await {
        Err(error) if daemon::status(&error) != Some(404) => Err(daemon::explain(error)),
        _ => Ok(()),
    }
}

/// Last resort, with its own async runtime and connection, because the program's may be gone. Failures are ignored; the
/// next start finds leftovers by their labels and names.
fn block_on(work: impl Future<Output = ()>) {
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
        runtime.block_on(work);
    }
}

/// Removes these containers. Blocks.
pub(in crate::runtime) fn remove_blocking(names: &[String]) {
    block_on(async {
        if let Ok(docker) = connect().await {
            for name in names {
                let _ = remove(&docker, name).await;
            }
        }
    });
}

/// How long a daemon may take to finish creating a container for a program that was killed.
const LATE: Duration = Duration::from_secs(10);

/// Removes everything labelled with this run and host from the daemon at `address`, including what it is still creating.
pub(in crate::runtime) fn remove_all_blocking(run: &str, host: &str, address: &str) {
    let deadline = std::time::Instant::now() + LATE;
    block_on(async {
        while std::time::Instant::now() < deadline {
            if let Ok((docker, found)) = labelled(address).await {
                for found in found.iter().filter(|found| found.run == run && found.host == host) {
                    let _ = remove(&docker, &found.name).await;
                }
            }
            tokio::time::sleep(daemon::AWAY_PAUSE).await;
        }
    });
}

/// How long a container may be between two states.
const BETWEEN_STATES: Duration = Duration::from_secs(120);

/// How long after the exit the event may still arrive.
const MAX_DELAY: Duration = Duration::from_secs(2);

/// How long after an event of the past the next one may come.
const NO_MORE: Duration = Duration::from_millis(300);

/// How long to read events of the past.
const ALL_EVENTS: Duration = Duration::from_secs(4);

/// 128 + SIGKILL.
const SIGKILL_EXIT_CODE: i64 = 137;
const SIGTERM: i32 = 15;

/// The remaining time in which the event may arrive; `None` if it is over. If our clock is behind the daemon's, the
/// full delay.
fn remaining(finished_at: Option<&str>, now: jiff::Timestamp) -> Option<Duration> {
    let finished: jiff::Timestamp = finished_at?.parse().ok()?;
    let since = Duration::try_from(now.duration_since(finished)).unwrap_or_default();
    MAX_DELAY.checked_sub(since).filter(|remaining| !remaining.is_zero())
}

impl Container {
    /// Runs a command until it exits. For a `probe`, the output streams are separate, and standard input stays open
    /// until the caller is gone. For any other command, both streams are merged, and standard input is empty.
    pub(in crate::runtime) async fn exec(
        &self,
        command: &[String],
        env: &BTreeMap<String, String>,
        probe: bool,
    ) -> Result<Captured> {
        let options = CreateExecOptions {
            attach_stdin: Some(probe),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            env: Some(env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
            cmd: Some(command.to_vec()),
            ..CreateExecOptions::default()
        };
        let created = self.docker.create_exec(&self.id, options).await;
        let id = created.map_err(daemon::explain)?.id;
        let started = self.docker.start_exec(&id, None::<StartExecOptions>).await;
        let mut captured = Captured::default();
        if let StartExecResults::Attached { mut output, input } = started.map_err(daemon::explain)? {
            while let Some(chunk) = output.next().await {
                match chunk.map_err(daemon::explain)? {
                    LogOutput::StdErr { message } if probe => captured.push_stderr(&message),
                    other => captured.push_stdout(other.as_ref()),
                }
            }
            drop(input);
        }
        let ended = self.docker.inspect_exec(&id).await;
        captured.code = ended.map_err(daemon::explain)?.exit_code;
        Ok(captured)
    }

    /// The contents of a file in the container; `None` if it does not exist or is larger than `most` bytes. Follows a
    /// few links.
    pub(in crate::runtime) async fn read_file(&self, path: &str, most: u64) -> Result<Option<Vec<u8>>> {
        const LINKS: usize = 4;
        let mut path = PathBuf::from(path);
        for _ in 0..LINKS {
            let Some(archive) = self.archive(&path, most).await? else {
                return Ok(None);
            };
            let mut archive = tar::Archive::new(archive.as_slice());
            #[expect(clippy::disallowed_methods, reason = "the whole archive is bounded")]
            let Some(Ok(mut entry)) = archive.entries().ok().and_then(|mut entries| entries.next()) else {
                return Ok(None);
            };
            if entry.header().entry_type().is_file() && entry.size() <= most {
                return Ok(Bounded::new(&mut entry, most).all().ok());
            }
            let Some(target) = entry.link_name().ok().flatten() else {
                return Ok(None);
            };
            path = path.parent().unwrap_or(Path::new("/")).join(target);
        }
        Ok(None)
    }

    /// The tar archive of a path in the container; `None` if it does not exist, or if the archive is too large for a
    /// file of `most` bytes.
    async fn archive(&self, path: &Path, most: u64) -> Result<Option<Vec<u8>>> {
        // A header and the end of the archive.
        const AROUND: u64 = 16 << 10;
        let options = DownloadFromContainerOptionsBuilder::default()
            .path(&path.display().to_string())
            .build();
        let mut parts = std::pin::pin!(self.docker.download_from_container(&self.id, Some(options)));
        let mut archive = Vec::new();
        while let Some(part) = parts.next().await {
            match part {
                Ok(part) => archive.extend_from_slice(&part),
                Err(error) if daemon::status(&error) == Some(404) => return Ok(None),
                Err(error) => return Err(daemon::explain(error)),
            }
            if archive.len() as u64 > most + AROUND {
                return Ok(None);
            }
        }
        Ok(Some(archive))
    }

    /// Uploads files into a new folder, and returns its path.
    pub(in crate::runtime) async fn upload_files(
        &self,
        folder: &str,
        texts: &BTreeMap<String, String>,
    ) -> Result<String> {
        let read_only = self.own.as_ref().is_some_and(|own| own.read_only);
        let parent = if read_only { launch::CONTAINER_PATH } else { "" };
        upload(&self.docker, &self.id, &format!("{parent}/"), folder, texts).await?;
        Ok(format!("{parent}/{folder}"))
    }
}

/// Uploads files into a folder below this path of a container.
pub(super) async fn upload(
    docker: &Docker,
    id: &str,
    path: &str,
    folder: &str,
    files: &BTreeMap<String, String>,
) -> Result<()> {
    let options = UploadToContainerOptionsBuilder::default().path(path).build();
    let archive = bollard::body_full(launch::archive(folder, files)?);
    let uploaded = docker.upload_to_container(id, Some(options), archive).await;
    uploaded.map_err(|error| daemon::explain(error).while_doing("cannot copy files into the container"))
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
