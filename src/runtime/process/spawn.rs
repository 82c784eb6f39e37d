//! Starts a native process: port, environment, log, and a task that waits for its exit.

use std::io;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::{HOST_VARIABLE, Process, RUN_VARIABLE, SERVICE_VARIABLE, oom_watch, tree, visible_devices};
use crate::fault::{Fault, Result};
use crate::runtime::lines::LineSplitter;
use crate::runtime::service::Backend;
use crate::runtime::state::Exit;
use crate::runtime::{
    Grant, Launch, ProcessIdentity, ServerLog, Service, StartContext, credentials, files, hook, identity, redact,
};
use crate::telemetry;

/// Starts the process that `launch` describes.
pub(in crate::runtime) fn start(
    launch: &Launch,
    grant: &Grant,
    name: &str,
    logs: ServerLog,
    context: &StartContext,
) -> Result<Service> {
    let launch = &hook::add_hook(launch, std::env::var("PYTHONPATH").ok(), name);
    let port = free_port(launch.port)?;
    let folder = files::temp_folder(&launch.files)?;
    let folder_path = folder.as_ref().map(|folder| folder.path().display().to_string());
    let launch = &files::with_folder(launch, folder_path.as_deref().unwrap_or_default());
    let fill = |text: &String| text.replace("{port}", &port.to_string());
    let command: Vec<String> = launch.command.iter().map(fill).collect();
    let Some((program, args)) = command.split_first() else {
        return Err(Fault::usage("`command` is empty: a native process needs a program"));
    };
    let service_id = format!("{}.{}.{name}", context.run.id(), std::process::id());
    let mut env: std::collections::BTreeMap<_, _> = launch
        .env
        .iter()
        .map(|(key, value)| (key.clone(), fill(value)))
        .collect();
    // If no GPUs are visible, there is nothing to restrict.
    let gpus = telemetry::select(&launch.gpus).unwrap_or_default();
    let inherited = |name: &str| std::env::var_os(name).is_some();
    for (name, value) in visible_devices::variables(&gpus, &env, inherited) {
        env.insert(name.to_owned(), value);
    }
    env.extend([
        (RUN_VARIABLE.to_owned(), context.run.id().to_owned()),
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
    for name in credentials::TOKEN_VARIABLES {
        child.env_remove(name);
    }
    child.envs(&env).stdin(Stdio::null()).process_group(0);
    if grant.token {
        child.envs(credentials::token_env());
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
            start: identity::start_time(pid),
        },
        env,
        exit,
        _files: folder,
        force_kill: context.services.force_kill(),
    };
    let base_url = Some(format!("http://127.0.0.1:{port}"));
    Ok(Service::new(name, base_url, logs, info, Backend::Process(process)))
}

/// The requested port, if it is free, or one chosen by the kernel.
fn free_port(requested: u16) -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", requested)).and_then(|listener| listener.local_addr());
    match listener {
        Ok(address) => Ok(address.port()),
        Err(error) => Err(Fault::missing(
            format!("port {requested} cannot be used: {error}"),
            "stop what listens there, or write `{port}` in the command and leave `port` out for a free port",
        )),
    }
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
        Ok(status) => Exit {
            code: exit_code(status),
            signal: status.signal(),
            oom_killed: status.signal() == Some(9) && oom_watch.was_oom_killed(),
            finished_at,
        },
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
