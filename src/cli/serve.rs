//! What serves others until it is asked to stop. `profiler sim` serves the simulated engine: it prints its address to stdout and
//! the engine's log to stderr. `profiler engine-worker`, which people do not call, probes an engine of this machine for a run
//! on another one: lines of JSON come and go by standard input and output.

use std::io::{Write as _, stdin, stdout};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use super::program::{GRACE, Program, Status};
use crate::engine::Reply;
use crate::fault::{Fault, Result};
use crate::report::Terminal;
use crate::run::hide_json;
use crate::runtime::Services;
use crate::script;
use crate::sim::{LogSink, Options, Sim, SimHandle, Spec};
use crate::task::Tasks;

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct SimArgs {
    /// Profile of the hardware and model: a file, or the name of a shipped one
    #[arg(long, value_name = "FILE", default_value = "llama-8b-24gb-vllm")]
    profile: String,
    /// Port; 0: one chosen by the kernel
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Address to listen on; 0.0.0.0 in a container
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    #[command(flatten)]
    options: Options,
    /// Misbehave: `die_mid_stream`, `hang`, `refuse_429`, `end_early`, `two_tokens`, `clip`, `starve`,
    /// `error_then_done`, `break_off`, `end_silently`, `busy_port`, `slow_start`, `ignore_sigterm`,
    /// `exit_code`. `after:N`: the first N requests of each start succeed; `every:N`: every Nth request fails
    #[arg(long, value_name = "KIND[:N]")]
    misbehave: Vec<String>,
}

/// Serves until asked to stop, or until the simulated process ends; returns that process's exit status.
pub(super) fn sim(args: &SimArgs, program: &Program) -> Result<Status> {
    let mut spec = Spec {
        profile: args.profile.clone(),
        options: args.options.clone(),
    };
    for kind in &args.misbehave {
        spec.options.misbehave.add(kind)?;
    }
    let (profile, mut options) = spec.resolve()?;
    options.fit(&profile);
    let (stubborn, exit_code) = (options.misbehave.ignore_sigterm, options.misbehave.exit_code);
    let terminal = Terminal::detect();
    let log: LogSink = Arc::new(move |line| terminal.print_error(line));
    let address = SocketAddr::new(args.host, args.port);
    let handle = program
        .tasks
        .wait(async { Sim::start(profile, options, address, log) })?;
    program.terminal.print(&handle.url)?;
    let code = program.tasks.finish(until_end(&handle, program, stubborn));
    if exit_code.is_some() {
        // A requested exit status applies whatever ended the process.
        program.signals.clear();
    }
    u8::try_from(code).map_err(|_| Fault::usage(format!("exit status {code} is not in 0 to 255")))
}

async fn until_end(handle: &SimHandle, program: &Program, stubborn: bool) -> i32 {
    let stop = program.tasks.token();
    tokio::select! {
        exit = handle.wait_exited() => exit.code,
        () = stop.cancelled() => {
            if stubborn { handle.wait_exited().await.code } else { handle.stop(GRACE).await.code }
        }
    }
}

/// Time without a line, not even an empty one, after which the other end is gone.
const GONE: Duration = Duration::from_secs(120);

/// Answers until standard input ends, or nothing comes any more; then everything that was started is stopped.
pub(super) fn engine_worker(program: &Program) -> Result<Status> {
    let services = Arc::new(Services::default());
    program.signals.guard(&services);
    let (sender, arrived) = mpsc::channel();
    let (question, questions) = mpsc::channel();
    let thread = |error| Fault::no_thread("thread of a worker", &error);
    let (reply, replies) = mpsc::channel();
    // Neither is waited for: when the connection breaks, they may read and write for ever.
    for work in [
        Box::new(move || read(&sender)) as Box<dyn FnOnce() + Send>,
        Box::new(move || write(&replies)),
    ] {
        std::thread::Builder::new().spawn(work).map_err(thread)?;
    }
    let say = move |one: &Reply| {
        if let Ok(line) = serde_json::to_string(one) {
            // Until the end, there is somebody who writes it.
            let _ = reply.send(line);
        }
    };
    let tasks = program.tasks.clone();
    let listen = move || listen(&arrived, &question, &tasks);
    std::thread::Builder::new().spawn(listen).map_err(thread)?;
    let ended = script::serve(questions, &program.tasks, &services, say);
    program.signals.script_ended();
    program.tasks.finish(services.stop_all(GRACE))?;
    program.signals.unguard();
    ended.map(|()| 0).map_err(|diagnostic| diagnostic.fault)
}

fn read(arrived: &Sender<String>) {
    for line in stdin().lines().map_while(std::result::Result::ok) {
        if arrived.send(line).is_err() {
            return;
        }
    }
}

/// Passes questions on. When no more come, what is under way is given up.
fn listen(arrived: &Receiver<String>, question: &Sender<String>, tasks: &Tasks) {
    while let Ok(line) = arrived.recv_timeout(GONE) {
        if !line.is_empty() {
            // The last lines find nobody when a signal has ended it.
            let _ = question.send(line);
        }
    }
    tasks.interrupt();
}

/// Writes replies. Where packets are lost it may wait for ever.
fn write(replies: &Receiver<String>) {
    let mut output = stdout().lock();
    while let Ok(line) = replies.recv() {
        // That nobody reads it any more shows at standard input.
        let _ = writeln!(output, "{}", hide_json(line)).and_then(|()| output.flush());
    }
}
