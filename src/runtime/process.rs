//! Native processes: started below a supervisor, marked with an environment variable, and stopped with all descendants.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use std::{fs, io};

use nix::errno::Errno;
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use crate::fault::{Fault, Kind, Result};
use crate::prompt::Hub;
use crate::run::{Run, hide_variables, hide_words};
use crate::runtime::output::LineSplitter;
use crate::runtime::output::read;
use crate::runtime::process_tree::signal;
use crate::runtime::state::{Exit, Started, State};
use crate::runtime::supervisor::{Supervised, Work};
use crate::runtime::{Captured, Grant, Launch, ServerLog, free_port, launch};
use crate::task::lock;
use crate::telemetry::{self, GpuInfo};

/// Id of the run, in the environment of everything it starts.
pub(super) const RUN_VARIABLE: &str = "PROFILER_RUN";

/// Time for the kernel to end a killed process, which may be writing a core dump or waiting for a disk.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Process {
    root: Supervised,
    /// Commands that have exited but left processes running.
    left: Mutex<Vec<Supervised>>,
    env: BTreeMap<String, String>,
    force_kill: CancellationToken,
}

impl Process {
    pub(super) fn state(&self) -> State {
        self.root.exit.borrow().clone().map_or(State::Running, State::Exited)
    }

    pub(super) async fn wait(&self) -> Exit {
        exit_of(&self.root).await
    }

    /// All running processes of the tree, the first process first.
    pub(super) fn pids(&self) -> Vec<u32> {
        let mut pids = self.root.pids();
        pids.extend(self.left().iter().flat_map(Supervised::pids));
        pids
    }

    /// Stops the whole process tree: SIGTERM, then SIGKILL after `grace` or when stopping is forced.
    pub(super) async fn stop(&self, grace: Duration) -> Result<()> {
        signal(&self.pids(), Signal::SIGTERM);
        tokio::select! {
            () = self.all_exited() => {}
            () = tokio::time::sleep(grace) => {}
            () = self.force_kill.cancelled() => {}
        }
        self.kill();
        let killed = tokio::time::timeout(KILL_TIMEOUT, self.all_exited()).await;
        killed.map_err(|_| Fault::internal(format!("processes {:?} do not exit after SIGKILL", self.pids())))
    }

    /// Kills the whole process tree. Returns at once.
    pub(super) fn kill(&self) {
        self.root.end();
        self.left().iter().for_each(Supervised::end);
    }

    async fn all_exited(&self) {
        let left: Vec<_> = self.left().iter().map(|command| command.gone().clone()).collect();
        for gone in left.iter().chain([self.root.gone()]) {
            gone.cancelled().await;
        }
    }

    fn left(&self) -> MutexGuard<'_, Vec<Supervised>> {
        lock(&self.left)
    }
}

impl Process {
    /// Runs a command until it exits, with the server's environment and `env`, but without the token. For a `probe`,
    /// the output streams are separate, and standard input closes when the caller is gone. For any other command, both
    /// streams are merged, and standard input is empty.
    pub(in crate::runtime) async fn exec(
        &self,
        command: &[String],
        env: &BTreeMap<String, String>,
        probe: bool,
    ) -> Result<Captured> {
        let work = Work {
            command: command.to_vec(),
            env: self.env.clone().into_iter().chain(env.clone()).collect(),
            holds_stdin: probe,
            ..Work::default()
        };
        let (out, stdout, same) = pipe()?;
        // The read ends when nobody holds the other end of the pipe, so the unused end is dropped.
        let (err, stderr) = if probe {
            drop(same);
            let (reader, stderr, _) = pipe()?;
            (Some(reader), stderr)
        } else {
            (None, same)
        };
        let command = supervised(work, stdout, stderr).await?;
        let (mut output, mut errors) = (Captured::default(), Captured::default());
        tokio::join!(
            read(Some(out), |bytes| output.push_stdout(bytes)),
            read(err, |bytes| errors.push_stderr(bytes))
        );
        Ok(Captured {
            code: self.end(command).await,
            stderr: errors.stderr,
            ..output
        })
    }

    /// Waits for a command to exit. Processes that it left running end with the server.
    async fn end(&self, command: Supervised) -> Option<i64> {
        let exit = exit_of(&command).await;
        if !command.pids().is_empty() {
            self.left().push(command);
        }
        exit.code
    }

    /// The server's Python interpreter, if it is one, by the name it was called with, since a virtual environment is
    /// found by that name.
    pub(in crate::runtime) fn python(&self) -> Option<String> {
        let words = fs::read_to_string(format!("/proc/{}/cmdline", self.root.pid)).ok()?;
        let program = words.split('\0').next()?.to_owned();
        let name = program.rsplit('/').next().unwrap_or(&program);
        name.starts_with("python").then_some(program)
    }
}

pub(super) async fn exit_of(command: &Supervised) -> Exit {
    match command.exit.clone().wait_for(Option::is_some).await {
        Ok(exit) => exit.clone().unwrap_or_default(),
        Err(_) => Exit::default(),
    }
}

/// Starts the process that `launch` describes.
pub(in crate::runtime) async fn start(
    launch: &Launch,
    grant: &Grant,
    run: &Run,
    name: &str,
    logs: ServerLog,
    force_kill: CancellationToken,
) -> Result<Started<Process>> {
    let launch = &launch::add_hook(launch, std::env::var("PYTHONPATH").ok(), name);
    let port = free_port(launch.port)?;
    let folder = launch::temp_folder(&launch.files)?;
    let folder_path = folder.as_ref().map(|folder| folder.path().display().to_string());
    let launch = &launch::with_folder(launch, folder_path.as_deref().unwrap_or_default());
    let fill = |text: &String| text.replace("{port}", &port.to_string());
    let command: Vec<String> = launch.command.iter().map(fill).collect();
    if command.is_empty() {
        return Err(Fault::usage("`command` is empty: a native process needs a program"));
    }
    let filled = launch.env.iter().map(|(key, value)| (key.clone(), fill(value)));
    let mut env: BTreeMap<_, _> = filled.collect();
    // If no GPUs are visible, there is nothing to restrict.
    let gpus = telemetry::select(&launch.gpus).unwrap_or_default();
    let inherited = |name: &str| std::env::var_os(name).is_some();
    for (name, value) in visible_devices(&gpus, &env, inherited) {
        env.insert(name.to_owned(), value);
    }
    for (name, value) in Hub::given_variables() {
        env.entry(name).or_insert(value);
    }
    env.insert(RUN_VARIABLE.to_owned(), run.id().to_owned());
    let info = json!({
        "runtime": "process",
        "command": hide_words(&command),
        "env": hide_variables(launch.env.iter().map(|(name, value)| (name.as_str(), value.as_str()))),
        "files": launch.files,
        "port": port,
    });

    // One pipe for both streams keeps their order.
    let (reader, stdout, stderr) = pipe()?;
    let token = if grant.token { launch::token_env() } else { Vec::new() };
    let token = token.into_iter().map(|(name, value)| (name.to_owned(), value));
    let work = Work {
        command,
        env: env.clone().into_iter().chain(token).collect(),
        folder: folder.as_ref().map(|folder| folder.path().to_owned()),
        ..Work::default()
    };
    let root = supervised(work, stdout, stderr).await?;
    // From here on, the supervisor removes the folder.
    folder.map(tempfile::TempDir::keep);
    tokio::spawn(follow(reader, logs.clone()));
    Ok(Started {
        backend: Process {
            root,
            left: Mutex::default(),
            env,
            force_kill,
        },
        base_url: Some(format!("http://127.0.0.1:{port}")),
        logs,
        info,
    })
}

async fn follow(reader: pipe::Receiver, logs: ServerLog) {
    let mut lines = LineSplitter::default();
    let push = |line| logs.push(line);
    read(Some(reader), |bytes| lines.push(bytes).into_iter().for_each(push)).await;
    lines.finish().into_iter().for_each(push);
    logs.end();
}

/// A pipe whose write end becomes both output streams of a process.
pub(super) fn pipe() -> Result<(pipe::Receiver, Stdio, Stdio)> {
    let pipe = || {
        let (reader, writer) = io::pipe()?;
        let reader = pipe::Receiver::from_owned_fd(reader.into())?;
        io::Result::Ok((reader, Stdio::from(writer.try_clone()?), Stdio::from(writer)))
    };
    pipe().map_err(|error| Fault::new(Kind::Io, format!("cannot create a pipe for the output: {error}")))
}

/// Starts a command below its own supervisor.
pub(super) async fn supervised(work: Work, stdout: Stdio, stderr: Stdio) -> Result<Supervised> {
    let Some(program) = work.command.first().cloned() else {
        return Err(Fault::usage("a command needs a program"));
    };
    let started = Supervised::start(work, stdout, stderr).await?;
    started.map_err(|error| spawn_error(&program, &error))
}

fn spawn_error(program: &str, error: &io::Error) -> Fault {
    let hint = match error.kind() {
        _ if matches!(
            error.raw_os_error().map(Errno::from_raw),
            Some(Errno::EAGAIN | Errno::ENOMEM)
        ) =>
        {
            "allow more processes and memory: `ulimit -u`, `ulimit -v`"
        }
        io::ErrorKind::NotFound => "install it, or give its full path",
        io::ErrorKind::PermissionDenied => "make the file executable",
        _ => "try the command by hand",
    };
    Fault::missing(format!("cannot start `{program}`: {error}"), hint)
}

/// Variables that restrict a process to these GPUs; empty if the launch or the inherited environment already sets one.
fn visible_devices(
    gpus: &[GpuInfo],
    launch_env: &BTreeMap<String, String>,
    inherited: impl Fn(&str) -> bool,
) -> Vec<(&'static str, String)> {
    let is_set = |name: &str| launch_env.contains_key(name) || inherited(name);
    match gpus.first() {
        Some(first) if !telemetry::choices().any(is_set) => first.vendor.visible(gpus),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{Amd, Nvidia, Vendor};

    fn gpu(index: u32, vendor: Vendor) -> GpuInfo {
        GpuInfo {
            index,
            id: format!("GPU-{index}"),
            name: "test".into(),
            vendor,
            used: 0,
            total: 1,
            driver: None,
            nodes: Vec::new(),
        }
    }

    #[test]
    fn a_process_sees_the_gpus_of_its_launch() {
        let none = BTreeMap::new();
        let nvidia = [gpu(3, Vendor(&Nvidia)), gpu(1, Vendor(&Nvidia))];
        let set = visible_devices(&nvidia, &none, |_| false);
        assert_eq!(set[1], ("CUDA_VISIBLE_DEVICES", "3,1".to_owned()));
        let amd = visible_devices(&[gpu(2, Vendor(&Amd))], &none, |_| false);
        assert_eq!(amd, [("HIP_VISIBLE_DEVICES", "2".to_owned())]);
        assert_eq!(visible_devices(&[], &none, |_| false), []);
    }

    #[test]
    fn an_existing_choice_is_not_overridden() {
        let gpus = [gpu(0, Vendor(&Nvidia))];
        let launch_env = [("CUDA_VISIBLE_DEVICES".to_owned(), "7".to_owned())].into();
        assert_eq!(visible_devices(&gpus, &launch_env, |_| false), []);
        let inherited = |name: &str| name == "ROCR_VISIBLE_DEVICES";
        assert_eq!(visible_devices(&gpus, &BTreeMap::new(), inherited), []);
    }
}
