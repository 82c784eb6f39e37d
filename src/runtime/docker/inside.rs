//! An engine in a container that somebody else runs: started there as a command, watched, and ended with all that it
//! started. The container keeps its own processes and gets no files.
//!
//! Docker cannot end such a command. So a shell is started above it, which reads the names of signals from its standard
//! input, and kills the command with all that it started at the input's end. Docker closes that input when this program
//! is gone, also when that was killed.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use futures_util::{Stream, StreamExt};
use serde_json::json;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Mutex, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Container, daemon};
use crate::fault::{Fault, Kind, Result};
use crate::run::{Run, hide_variables, hide_words};
use crate::runtime::output::LineSplitter;
use crate::runtime::process::RUN_VARIABLE;
use crate::runtime::state::{EndedBy, Exit, Started, State};
use crate::runtime::{Grant, Launch, ServerLog, cgroup, launch};

/// Kills all processes whose environment has the mark `$0`: also those that left the shell's process group. Nothing but
/// the shell itself is needed for it, and the shell has no mark in its own environment.
const SWEEP: &str = r#"sweep() {
for process in /proc/[0-9]*; do
while read -r entry || [ -n "$entry" ]; do
case $entry in *"PROFILER_START=$0"*) kill -9 "${process#/proc/}";; esac
done <"$process/environ"
done
} >/dev/null 2>&1
"#;
/// The first line is its process id, which is that of the group. `exit` keeps the status of the command; those of the
/// group that have hidden their environment are killed afterwards by [`KILL_GROUP`]. The reader ignores the shell's TERM
/// once it kills, because its sweep ends the command, and so the shell, before the group is killed.
const SHELL: &str = r#"echo $$
exec 3<&0
PROFILER_START=$0 "$@" 3<&- </dev/null &
child=$!
{ while read -r signal && [ "$signal" != END ]; do kill "-$signal" $child; done <&3; trap '' TERM; sweep; kill -9 0; } >/dev/null 2>&1 &
reader=$!
exec 3<&-
wait $child
code=$?
kill $reader 2>/dev/null
sweep
exit $code
"#;
const KILL_GROUP: &str = "sweep; kill -9 -$1 2>/dev/null; true";

/// How long the shell may take to say its process id, and a killed group to be gone.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two looks at a command whose output has ended.
const PAUSE: Duration = Duration::from_millis(100);
/// How long after the end of a killed command its container's end may be told.
const SETTLED: Duration = Duration::from_secs(1);
/// 128 + SIGKILL.
const KILLED: i64 = 137;

type Input = Pin<Box<dyn AsyncWrite + Send>>;
type Output = Pin<Box<dyn Stream<Item = std::result::Result<LogOutput, bollard::errors::Error>> + Send>>;

/// A running engine.
pub(in crate::runtime) struct Inside {
    container: Container,
    /// `None` once it was killed.
    input: Mutex<Option<Input>>,
    exit: watch::Receiver<Option<Exit>>,
    /// The container's processes before the start, as this machine numbers them.
    before: BTreeSet<u32>,
    force_kill: CancellationToken,
    /// Closes the other half of the connection, which `follow` reads: only without both does Docker close the shell's
    /// input.
    _connection: DropGuard,
}

impl Inside {
    pub(in crate::runtime) fn container(&self) -> &Container {
        &self.container
    }

    pub(in crate::runtime) fn state(&self) -> State {
        self.exit.borrow().clone().map_or(State::Running, State::Exited)
    }

    pub(in crate::runtime) async fn wait(&self) -> Exit {
        match self.exit.clone().wait_for(Option::is_some).await {
            Ok(exit) => exit.clone().unwrap_or_default(),
            Err(_) => Exit::default(),
        }
    }

    /// Its processes as this machine numbers them; empty if they are not visible.
    pub(in crate::runtime) async fn pids(&self) -> Result<Vec<u32>> {
        let mut pids = self.container.pids().await?;
        pids.retain(|pid| !self.before.contains(pid));
        Ok(pids)
    }

    /// Sends SIGTERM to the engine, and kills its process group after `grace` or when stopping is forced.
    pub(in crate::runtime) async fn stop(&self, grace: Duration) -> Result<()> {
        self.tell("TERM").await;
        tokio::select! {
            _ = self.wait() => return Ok(()),
            () = tokio::time::sleep(grace) => {}
            () = self.force_kill.cancelled() => {}
        }
        self.tell("END").await;
        let ended = tokio::time::timeout(PATIENCE, self.wait()).await;
        ended.map(drop).map_err(|_| {
            let name = self.container.name();
            Fault::new(
                Kind::Engine,
                format!("the engine in the container `{name}` does not exit after SIGKILL"),
            )
            .hint(format!("see `docker top {name}`"))
        })
    }

    /// Kills the engine with all that it started, once stopping is forced. Returns at once.
    pub(in crate::runtime) fn kill(&self) {
        // Otherwise it is being told to end.
        if let Ok(mut input) = self.input.try_lock() {
            *input = None;
        }
    }

    /// Writes to the shell. If that fails, it has ended.
    async fn tell(&self, word: &str) {
        let mut input = self.input.lock().await;
        if let Some(input) = input.as_mut() {
            let _ = input.write_all(format!("{word}\n").as_bytes()).await;
            let _ = input.flush().await;
        }
    }
}

/// The container that an engine is started in.
pub(in crate::runtime) struct Place<'a> {
    pub(in crate::runtime) docker: Docker,
    pub(in crate::runtime) id: String,
    /// As the user named it.
    pub(in crate::runtime) name: &'a str,
    pub(in crate::runtime) started_at: Option<String>,
    /// Where the engine's port is reached.
    pub(in crate::runtime) url: String,
}

/// Starts the command of `launch` in a container.
pub(in crate::runtime) async fn start(
    place: Place<'_>,
    launch: &Launch,
    grant: &Grant,
    run: &Arc<Run>,
    logs: ServerLog,
    force_kill: CancellationToken,
) -> Result<Started<Inside>> {
    let Place {
        docker,
        id,
        name,
        started_at,
        url,
    } = place;
    if !launch.files.is_empty() || launch.in_process {
        return Err(Fault::usage(format!(
            "the engine needs files of its own, and the container `{name}` is left as it is"
        ))
        .hint("start it in a container of this run: `--runtime docker`"));
    }
    let port = launch.port.to_string();
    let fill = |text: &String| text.replace("{port}", &port);
    let command: Vec<String> = launch.command.iter().map(fill).collect();
    let Some(program) = command.first().cloned() else {
        return Err(Fault::usage(
            "`command` is empty: an engine in a container needs a program",
        ));
    };
    let container = Container::attached(docker.clone(), id.clone(), name, run);
    let before = container.pids().await?.into_iter().collect();
    let token = if grant.token { launch::token_env() } else { Vec::new() };
    let env = launch.env.iter().map(|(name, value)| format!("{name}={}", fill(value)));
    let env = env
        .chain(token.iter().map(|(name, value)| format!("{name}={value}")))
        .chain([format!("{RUN_VARIABLE}={}", run.id())]);
    // A resumed run has the same id.
    let mark = format!("{}-{}", run.id(), jiff::Timestamp::now().as_nanosecond());
    let script = format!("{SWEEP}{SHELL}");
    let shell = ["sh", "-c", &script, &mark].map(str::to_owned);
    let options = CreateExecOptions {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        env: Some(env.collect()),
        cmd: Some(shell.into_iter().chain(command.iter().cloned()).collect()),
        ..CreateExecOptions::default()
    };
    let doing =
        |error| daemon::explain(error).while_doing(format!("cannot start `{program}` in the container `{name}`"));
    let exec = docker.create_exec(&id, options).await.map_err(doing)?.id;
    let kills = container.cgroup().await?.and_then(|folder| cgroup::oom_kills(&folder));
    let StartExecResults::Attached { output, input } = docker
        .start_exec(&exec, None::<StartExecOptions>)
        .await
        .map_err(doing)?
    else {
        return Err(Fault::internal("a command without streams"));
    };
    let (sender, exit) = watch::channel(None);
    let (ready, group) = oneshot::channel();
    let closed = force_kill.child_token();
    // Also when the start fails or is cancelled.
    let connection = closed.clone().drop_guard();
    let watched = Watched {
        container: Container::attached(docker, id.clone(), name, run).started_at(started_at),
        exec,
        mark,
        kills,
        closed,
    };
    tokio::spawn(watched.follow(output, ready, sender, logs.clone()));
    if !matches!(tokio::time::timeout(PATIENCE, group).await, Ok(Ok(()))) {
        let said = logs.last(3).join("; ");
        return Err(Fault::missing(
            format!("no shell runs in the container `{name}`: {said}"),
            "an engine is started and ended there by `sh`: use an image that has it, or start the engine yourself and attach to it",
        ));
    }
    let info = json!({
        "runtime": "process",
        "container": name,
        "id": id,
        "command": hide_words(&command),
        "env": hide_variables(launch.env.iter().map(|(name, value)| (name.as_str(), value.as_str()))),
        "port": launch.port,
    });
    Ok(Started {
        backend: Inside {
            container,
            input: Mutex::new(Some(input)),
            exit,
            before,
            force_kill,
            _connection: connection,
        },
        base_url: Some(url),
        logs,
        info,
    })
}

/// A command whose output and end are watched.
struct Watched {
    container: Container,
    exec: String,
    /// The mark in the environment of its processes.
    mark: String,
    /// Kills of the kernel in the container before the start.
    kills: Option<u64>,
    /// Cancelled when its output is no longer to be read.
    closed: CancellationToken,
}

impl Watched {
    async fn follow(
        self,
        mut output: Output,
        ready: oneshot::Sender<()>,
        sender: watch::Sender<Option<Exit>>,
        logs: ServerLog,
    ) {
        let (mut out, mut err) = (LineSplitter::default(), LineSplitter::default());
        let (mut ready, mut group) = (Some(ready), None);
        while let Some(Some(chunk)) = self.closed.run_until_cancelled(output.next()).await {
            let lines = match chunk {
                Ok(LogOutput::StdErr { message }) => err.push(&message),
                Ok(other) => out.push(other.as_ref()),
                Err(error) => vec![format!("[profiler: reading the engine's output failed: {error}]")],
            };
            for line in lines {
                match (ready.take(), line.parse::<u32>()) {
                    (Some(waiting), Ok(pid)) => {
                        group = Some(pid);
                        let _ = waiting.send(());
                    }
                    (waiting, _) => {
                        ready = waiting;
                        logs.push(line);
                    }
                }
            }
        }
        drop(output);
        for line in [out.finish(), err.finish()].into_iter().flatten() {
            logs.push(line);
        }
        logs.end();
        let exit = self.exit(group).await;
        sender.send_replace(Some(exit));
    }

    /// How it ended. What it left running is killed.
    async fn exit(&self, group: Option<u32>) -> Exit {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        // A daemon that was restarted knows no commands of before. Where systemd holds its socket, that is all that is seen of
        // the restart: what is asked meanwhile waits.
        let (code, is_lost) = loop {
            match self.container.docker.inspect_exec(&self.exec).await {
                Ok(seen) if seen.running != Some(true) => break (seen.exit_code, false),
                Err(error) if daemon::is_gone(&error) => break (None, true),
                _ if tokio::time::Instant::now() >= deadline => break (None, false),
                // The container may be gone, with all its commands.
                Err(_) if !matches!(self.container.state().await, Ok(State::Running)) => break (None, false),
                Ok(_) | Err(_) => tokio::time::sleep(PAUSE).await,
            }
        };
        let mut exit = Exit {
            code,
            finished_at: Some(jiff::Timestamp::now().to_string()),
            ..Exit::default()
        };
        // A busy daemon may lose the command of a killed container long before it tells of the container.
        match self.state_after(code, if is_lost { PATIENCE } else { SETTLED }).await {
            // The container itself ended, and the engine with it.
            Ok(State::Exited(ended)) => {
                exit.ended_by = ended.ended_by;
                exit.oom_killed = ended.oom_killed;
            }
            Ok(State::Running) => {
                if let Some(group) = group {
                    let script = format!("{SWEEP}{KILL_GROUP}");
                    let command = ["sh", "-c", &script, &self.mark, &group.to_string()].map(str::to_owned);
                    let _ = self
                        .container
                        .exec(&command, &std::collections::BTreeMap::new(), false)
                        .await;
                }
                // It may exit by itself after the kernel killed a worker of it.
                exit.oom_killed = code != Some(0) && self.was_oom_killed().await;
                if !exit.oom_killed && (is_lost || self.container.absence.ended(&exit)) {
                    exit.ended_by = Some(EndedBy::Daemon);
                }
            }
            Err(_) => {}
        }
        exit
    }

    /// The state of the container after its command ended. The daemon may tell of a killed command before it tells of the
    /// container that was killed with it.
    async fn state_after(&self, code: Option<i64>, patience: Duration) -> Result<State> {
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            let state = self.container.state().await?;
            let may_follow = matches!(code, None | Some(KILLED)) && tokio::time::Instant::now() < deadline;
            if state.exit().is_some() || !may_follow {
                return Ok(state);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn was_oom_killed(&self) -> bool {
        let folder = self.container.cgroup().await.ok().flatten();
        let now = folder.and_then(|folder| cgroup::oom_kills(&folder));
        now.zip(self.kills).is_some_and(|(now, before)| now > before)
    }
}
