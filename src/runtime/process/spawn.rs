//! Starting a native process: its port, its environment, its log, and a task that waits for its end.

use std::io;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::{HOST, Process, RUN, SERVICE, kernel, tree, visible};
use crate::fault::{Fault, Result};
use crate::runtime::lines::Lines;
use crate::runtime::service::Body;
use crate::runtime::state::Exit;
use crate::runtime::{
    Grant, Identity, Launch, LogBook, Service, StartContext, credentials, files, hook, identity, redact,
};
use crate::telemetry;

/// Starts the process that `launch` describes; it is entered among the services before this returns.
pub(in crate::runtime) fn start(
    launch: &Launch,
    grant: &Grant,
    name: &str,
    logs: LogBook,
    context: &StartContext,
) -> Result<Service> {
    let launch = &hook::hooked(launch, std::env::var("PYTHONPATH").ok(), name);
    let port = free_port(launch.port)?;
    let folder = files::folder(&launch.files)?;
    let place = folder.as_ref().map(|folder| folder.path().display().to_string());
    let launch = &files::placed(launch, place.as_deref().unwrap_or_default());
    let fill = |text: &String| text.replace("{port}", &port.to_string());
    let command: Vec<String> = launch.command.iter().map(fill).collect();
    let Some((program, args)) = command.split_first() else {
        return Err(Fault::usage("`command` is empty: a native process needs a program"));
    };
    let mark = format!("{}.{}.{name}", context.run.id(), std::process::id());
    let mut env: std::collections::BTreeMap<_, _> = launch
        .env
        .iter()
        .map(|(key, value)| (key.clone(), fill(value)))
        .collect();
    // Where the machine shows none of them, there is nothing to narrow.
    let gpus = telemetry::select(&launch.gpus).unwrap_or_default();
    let inherited = |name: &str| std::env::var_os(name).is_some();
    for (name, value) in visible::variables(&gpus, &env, inherited) {
        env.insert(name.to_owned(), value);
    }
    env.extend([
        (RUN.to_owned(), context.run.id().to_owned()),
        (HOST.to_owned(), Identity::own().mark()),
        (SERVICE.to_owned(), mark.clone()),
    ]);
    let info = json!({
        "runtime": "process",
        "command": redact::words(&command),
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
        child.envs(credentials::token_environment());
    }
    // One pipe for both streams keeps their order.
    let (reader, writer) = io::pipe().map_err(|error| no_pipe(&error))?;
    child
        .stderr(writer.try_clone().map_err(|error| no_pipe(&error))?)
        .stdout(writer);
    let watched = kernel::Watch::begin();
    let child = child.spawn().map_err(|error| cannot_spawn(program, &error))?;
    let pid = child.id().unwrap_or_default();
    let reader = pipe::Receiver::from_owned_fd(reader.into()).map_err(|error| no_pipe(&error))?;
    tokio::spawn(follow(reader, logs.clone()));
    let (sender, exit) = watch::channel(None);
    tokio::spawn(wait(child, watched.of(pid), sender));
    let process = Process {
        mark,
        root: tree::Root {
            pid,
            start: identity::start_time(pid),
        },
        env,
        exit,
        _files: folder,
        hurry: context.services.hurry(),
    };
    let base_url = Some(format!("http://127.0.0.1:{port}"));
    Ok(Service::new(name, base_url, logs, info, Body::Process(process)))
}

/// The port asked for, if it is free, or one chosen by the kernel.
fn free_port(wanted: u16) -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", wanted)).and_then(|listener| listener.local_addr());
    match listener {
        Ok(address) => Ok(address.port()),
        Err(error) => Err(Fault::missing(
            format!("port {wanted} of this machine cannot be used: {error}"),
            "end what listens there, or write `{port}` in the command and leave `port` out: the kernel then chooses a free one",
        )),
    }
}

async fn follow(mut reader: pipe::Receiver, logs: LogBook) {
    let mut lines = Lines::default();
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
    lines.rest().into_iter().for_each(|line| logs.push(line));
    logs.end();
}

async fn wait(mut child: Child, watched: kernel::Watch, sender: watch::Sender<Option<Exit>>) {
    let status = child.wait().await;
    let finished_at = Some(jiff::Timestamp::now().to_string());
    let exit = match status {
        Ok(status) => Exit {
            code: code(status),
            signal: status.signal(),
            oom_killed: status.signal() == Some(9) && watched.killed_for_memory(),
            finished_at,
        },
        Err(_) => Exit {
            finished_at,
            ..Exit::default()
        },
    };
    sender.send_replace(Some(exit));
}

pub(super) fn code(status: ExitStatus) -> Option<i64> {
    let after_signal = status.signal().map(|signal| 128 + signal);
    status.code().or(after_signal).map(i64::from)
}

pub(super) fn no_pipe(error: &io::Error) -> Fault {
    Fault::new(crate::fault::Kind::Io, format!("no pipe for the log: {error}"))
}

pub(super) fn cannot_spawn(program: &str, error: &io::Error) -> Fault {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "install it, or give its full path",
        io::ErrorKind::PermissionDenied => "make the file executable",
        _ => "try the command by hand",
    };
    Fault::missing(format!("`{program}` cannot be started: {error}"), hint)
}
