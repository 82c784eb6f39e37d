//! The hidden command `supervise`: the process that `supervisor.rs` starts. It is a child subreaper and so becomes the
//! parent of orphaned processes; daemonized processes therefore stay below it.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{dup2_stderr, dup2_stdout};

use super::cgroup::{OomWatch, kernel_log};
use super::state::{EndedBy, Exit};
use super::supervisor::{DONE, Order, Report, Work, as_pid};
use super::{docker, process_tree};
use crate::fault::{Fault, Result};

/// How often the processes below are killed until none is left.
const KILL_INTERVAL: Duration = Duration::from_millis(10);

/// Runs the hidden command `supervise`.
///
/// # Errors
///
/// `usage` if it was not started by this program.
pub fn supervise() -> Result<()> {
    let ordered = || {
        let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let mut lines = BufReader::new(socket.try_clone()?).lines();
        let order = lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
        io::Result::Ok((serde_json::from_str(&order)?, socket, lines))
    };
    let (order, socket, mut lines) =
        ordered().map_err(|error| Fault::usage(format!("`supervise` is for this program's own use: {error}")))?;
    // So that `killall profiler` does not hit it.
    let _ = prctl::set_name(c"supervisor");
    match order {
        Order::Command(work) => supervise_command(&work, &socket, lines),
        Order::Containers(run, host, address) => {
            let _ = SigSet::all().thread_block();
            if !lines.any(|line| line.is_ok_and(|line| line.as_bytes() == DONE.trim_ascii_end())) {
                docker::remove_all_blocking(&run, &host, &address);
            }
            Ok(())
        }
    }
}

#[expect(clippy::exit, reason = "it waits for processes that are to go on")]
fn supervise_command(
    work: &Work,
    mut socket: &UnixStream,
    lines: impl Iterator<Item = io::Result<String>> + Send + 'static,
) -> Result<()> {
    let mut report = |report: &Report| {
        // If nobody reads the report, the input ends as well, which is handled below.
        let _ = writeln!(socket, "{}", serde_json::json!(report));
    };
    let failed = |error: Errno| Fault::internal(format!("cannot supervise: {error}"));
    prctl::set_child_subreaper(true).map_err(failed)?;
    let null = File::options().write(true).open("/dev/null");
    let null = null.map_err(|error| Fault::internal(format!("/dev/null: {error}")))?;
    let (program, args) = work.command.split_first().ok_or_else(|| Fault::usage("no command"))?;
    let mut command = Command::new(program);
    command.args(args).envs(&work.env).process_group(0);
    for name in &work.without {
        command.env_remove(name);
    }
    if let Some(folder) = &work.current {
        command.current_dir(folder);
    }
    command.stdin(match &work.stdin {
        _ if work.holds_stdin => Stdio::piped(),
        Some(file) => File::open(file)
            .map_err(|error| Fault::internal(format!("the input of a command: {error}")))?
            .into(),
        None => Stdio::null(),
    });
    for (resource, most) in [
        (Resource::RLIMIT_DATA, work.limits.memory),
        (Resource::RLIMIT_FSIZE, work.limits.file),
    ] {
        // The command inherits the limits of this process.
        if let Some(most) = most {
            let (_, hard) = getrlimit(resource).map_err(failed)?;
            setrlimit(resource, most.min(hard), most.min(hard)).map_err(failed)?;
        }
    }
    let log = kernel_log();
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let number = error.raw_os_error().unwrap_or(Errno::EINVAL as i32);
            report(&Report::NotStarted(number));
            return Ok(());
        }
    };
    let pid = as_pid(child.id());
    let mut oom_watch = Some(OomWatch::new(log, child.id()));
    // The output ends when the last process below has closed it.
    dup2_stdout(&null).and_then(|()| dup2_stderr(&null)).map_err(failed)?;
    let _ = SigSet::all().thread_block();
    report(&Report::Started(child.id()));
    std::thread::spawn(move || {
        let mut lines = lines.map_while(io::Result::ok);
        if lines.any(|line| line.as_bytes() == DONE.trim_ascii_end()) {
            std::process::exit(0);
        }
        loop {
            process_tree::signal(&process_tree::below(std::process::id()), Signal::SIGKILL);
            std::thread::sleep(KILL_INTERVAL);
        }
    });
    loop {
        let exit = match waitpid(None, None) {
            Ok(WaitStatus::Exited(ended, code)) if ended == pid => Exit {
                code: Some(code.into()),
                ..Exit::default()
            },
            Ok(WaitStatus::Signaled(ended, signal, _)) if ended == pid => {
                let signal = signal as i32;
                let oom_killed = signal == 9 && oom_watch.take().is_some_and(OomWatch::was_oom_killed);
                Exit {
                    code: Some(i64::from(128 + signal)),
                    signal: Some(signal),
                    oom_killed,
                    ended_by: (!oom_killed && matches!(signal, 9 | 15)).then_some(EndedBy::Process(signal)),
                    ..Exit::default()
                }
            }
            // No process is left below.
            Err(Errno::ECHILD) => break,
            Ok(_) | Err(_) => continue,
        };
        report(&Report::Exited(Exit {
            finished_at: Some(jiff::Timestamp::now().to_string()),
            ..exit
        }));
    }
    if let Some(folder) = &work.folder {
        let _ = fs::remove_dir_all(folder);
    }
    Ok(())
}
