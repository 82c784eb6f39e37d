//! Starts a native process: port, environment, GPUs, log, and a task that waits for its exit.

use std::collections::BTreeMap;
use std::io;
use std::process::Stdio;
use std::sync::Mutex;

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use super::{Process, RUN_VARIABLE};
use crate::fault::{Fault, Kind, Result};
use crate::run::Run;
use crate::runtime::launch::Started;
use crate::runtime::output::LineSplitter;
use crate::runtime::supervisor::{Supervised, Work};
use crate::runtime::{Grant, Launch, ServerLog, free_port, launch, redact};
use crate::telemetry;
use crate::telemetry::GpuInfo;

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
    let mut env: BTreeMap<_, _> = launch
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
    env.insert(RUN_VARIABLE.to_owned(), run.id().to_owned());
    let info = json!({
        "runtime": "process",
        "command": redact::command_line(&command),
        "env": launch.env.iter().map(|(key, value)| (key.clone(), redact::env(key, value).to_owned()))
            .collect::<BTreeMap<_, _>>(),
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
        holds_stdin: false,
        folder: folder.as_ref().map(|folder| folder.path().to_owned()),
    };
    let root = supervised(work, stdout, stderr).await?;
    // From here on it is the supervisor's to remove.
    folder.map(tempfile::TempDir::keep);
    tokio::spawn(follow(reader, logs.clone()));
    let process = Process {
        root,
        left: Mutex::default(),
        env,
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

/// A pipe whose write end is to be both output streams of a process.
pub(super) fn pipe() -> Result<(pipe::Receiver, Stdio, Stdio)> {
    let pipe = || {
        let (reader, writer) = io::pipe()?;
        let reader = pipe::Receiver::from_owned_fd(reader.into())?;
        io::Result::Ok((reader, Stdio::from(writer.try_clone()?), Stdio::from(writer)))
    };
    pipe().map_err(|error| Fault::new(Kind::Io, format!("cannot create a pipe for the output: {error}")))
}

/// Starts a command below a supervisor of its own.
pub(super) async fn supervised(work: Work, stdout: Stdio, stderr: Stdio) -> Result<Supervised> {
    let Some(program) = work.command.first().cloned() else {
        return Err(Fault::usage("a command needs a program"));
    };
    let started = Supervised::start(work, stdout, stderr).await?;
    started.map_err(|error| spawn_error(&program, &error))
}

fn spawn_error(program: &str, error: &io::Error) -> Fault {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "install it, or give its full path",
        io::ErrorKind::PermissionDenied => "make the file executable",
        _ => "try the command by hand",
    };
    Fault::missing(format!("cannot start `{program}`: {error}"), hint)
}

/// Variables that restrict a process to these GPUs. None if the launch or the inherited environment already sets one.
fn visible_devices(
    gpus: &[GpuInfo],
    launch_env: &BTreeMap<String, String>,
    inherited: impl Fn(&str) -> bool,
) -> Vec<(&'static str, String)> {
    let Some(first) = gpus.first() else { return Vec::new() };
    match telemetry::choices().any(|name| launch_env.contains_key(name) || inherited(name)) {
        true => Vec::new(),
        false => first.vendor.visible(gpus),
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
