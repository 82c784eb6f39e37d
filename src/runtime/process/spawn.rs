//! Starts a native process: port, environment, GPUs, log, and a task that waits for its exit.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{HOST_VARIABLE, Process, RUN_VARIABLE, SERVICE_VARIABLE, oom_watch, tree};
use crate::fault::{Fault, Result};
use crate::run::Run;
use crate::runtime::launch::Started;
use crate::runtime::orphans::ProcessIdentity;
use crate::runtime::output::LineSplitter;
use crate::runtime::{Exit, Outside};
use crate::runtime::{Grant, Launch, ServerLog, free_port, launch, orphans, redact};
use crate::telemetry;
use crate::telemetry::{GpuInfo, Vendor};

/// Starts the process that `launch` describes.
pub(in crate::runtime) fn start(
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
    let Some((program, args)) = command.split_first() else {
        return Err(Fault::usage("`command` is empty: a native process needs a program"));
    };
    let service_id = format!("{}.{}.{name}", run.id(), std::process::id());
    let mut env: std::collections::BTreeMap<_, _> = launch
        .env
        .iter()
        .map(|(key, value)| (key.clone(), fill(value)))
        .collect();
    // If no GPUs are visible, there is nothing to restrict.
    let gpus = telemetry::select(&launch.gpus).unwrap_or_default();
    let inherited = |name: &str| std::env::var_os(name).is_some();
    for (name, value) in visible_devices(&gpus, &env, inherited) {
        env.insert(name.to_owned(), value);
    }
    env.extend([
        (RUN_VARIABLE.to_owned(), run.id().to_owned()),
        (HOST_VARIABLE.to_owned(), ProcessIdentity::current().encode()),
        (SERVICE_VARIABLE.to_owned(), service_id.clone()),
    ]);
    let info = json!({
        "runtime": "process",
        "command": redact::command_line(&command),
        "env": launch.env.iter().map(|(key, value)| (key.clone(), redact::env(key, value).to_owned()))
            .collect::<std::collections::BTreeMap<_, _>>(),
        "files": launch.files,
        "port": port,
    });

    let mut child = Command::new(program);
    child.args(args);
    for name in launch::TOKEN_VARIABLES {
        child.env_remove(name);
    }
    child.envs(&env).stdin(Stdio::null()).process_group(0);
    if grant.token {
        child.envs(launch::token_env());
    }
    // One pipe for both streams keeps their order.
    let (reader, writer) = io::pipe().map_err(|error| pipe_error(&error))?;
    child
        .stderr(writer.try_clone().map_err(|error| pipe_error(&error))?)
        .stdout(writer);
    let oom_watch = oom_watch::OomWatch::new();
    let child = child.spawn().map_err(|error| spawn_error(program, &error))?;
    let pid = child.id().unwrap_or_default();
    let reader = pipe::Receiver::from_owned_fd(reader.into()).map_err(|error| pipe_error(&error))?;
    tokio::spawn(follow(reader, logs.clone()));
    let (sender, exit) = watch::channel(None);
    tokio::spawn(wait(child, oom_watch.watch(pid), sender));
    let process = Process {
        service_id,
        root: tree::Root {
            pid,
            start: orphans::start_time(pid),
        },
        env,
        exit,
        _files: folder,
        force_kill,
    };
    Ok(Started {
        backend: process,
        base_url: Some(format!("http://127.0.0.1:{port}")),
        logs,
        info,
    })
}

async fn follow(mut reader: pipe::Receiver, logs: ServerLog) {
    let mut lines = LineSplitter::default();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match reader.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => lines
                .push(&buffer[..count])
                .into_iter()
                .for_each(|line| logs.push(line)),
        }
    }
    lines.finish().into_iter().for_each(|line| logs.push(line));
    logs.end();
}

async fn wait(mut child: Child, oom_watch: oom_watch::OomWatch, sender: watch::Sender<Option<Exit>>) {
    let status = child.wait().await;
    let finished_at = Some(jiff::Timestamp::now().to_string());
    let exit = match status {
        Ok(status) => {
            let signal = status.signal();
            let oom_killed = signal == Some(9) && oom_watch.was_oom_killed();
            Exit {
                code: exit_code(status),
                signal,
                oom_killed,
                finished_at,
                outside: signal
                    .filter(|signal| !oom_killed && matches!(signal, 9 | 15))
                    .map(Outside::Process),
            }
        }
        Err(_) => Exit {
            finished_at,
            ..Exit::default()
        },
    };
    sender.send_replace(Some(exit));
}

pub(super) fn exit_code(status: ExitStatus) -> Option<i64> {
    let after_signal = status.signal().map(|signal| 128 + signal);
    status.code().or(after_signal).map(i64::from)
}

pub(super) fn pipe_error(error: &io::Error) -> Fault {
    Fault::new(
        crate::fault::Kind::Io,
        format!("cannot create a pipe for the log: {error}"),
    )
}

pub(super) fn spawn_error(program: &str, error: &io::Error) -> Fault {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "install it, or give its full path",
        io::ErrorKind::PermissionDenied => "make the file executable",
        _ => "try the command by hand",
    };
    Fault::missing(format!("cannot start `{program}`: {error}"), hint)
}

/// If any of these is set, the choice has already been made.
const DEVICE_VARIABLES: [&str; 3] = ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"];

/// Variables that restrict a process to these GPUs. None if the launch or the inherited environment already sets one.
fn visible_devices(
    gpus: &[GpuInfo],
    launch_env: &BTreeMap<String, String>,
    inherited: impl Fn(&str) -> bool,
) -> Vec<(&'static str, String)> {
    let Some(first) = gpus.first() else { return Vec::new() };
    if DEVICE_VARIABLES
        .iter()
        .any(|name| launch_env.contains_key(*name) || inherited(name))
    {
        return Vec::new();
    }
    let indices: Vec<String> = gpus.iter().map(|gpu| gpu.index.to_string()).collect();
    let indices = indices.join(",");
    match first.vendor {
        // The indices are NVML's, which orders by PCI address. CUDA's default order is by speed.
        Vendor::Nvidia => vec![
            ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()),
            ("CUDA_VISIBLE_DEVICES", indices),
        ],
        Vendor::Amd => vec![("HIP_VISIBLE_DEVICES", indices)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let nvidia = [gpu(3, Vendor::Nvidia), gpu(1, Vendor::Nvidia)];
        let set = visible_devices(&nvidia, &none, |_| false);
        assert_eq!(set[1], ("CUDA_VISIBLE_DEVICES", "3,1".to_owned()));
        let amd = visible_devices(&[gpu(2, Vendor::Amd)], &none, |_| false);
        assert_eq!(amd, [("HIP_VISIBLE_DEVICES", "2".to_owned())]);
        assert_eq!(visible_devices(&[], &none, |_| false), []);
    }

    #[test]
    fn an_existing_choice_is_not_overridden() {
        let gpus = [gpu(0, Vendor::Nvidia)];
        let launch_env = [("CUDA_VISIBLE_DEVICES".to_owned(), "7".to_owned())].into();
        assert_eq!(visible_devices(&gpus, &launch_env, |_| false), []);
        let inherited = |name: &str| name == "ROCR_VISIBLE_DEVICES";
        assert_eq!(visible_devices(&gpus, &BTreeMap::new(), inherited), []);
    }
}
