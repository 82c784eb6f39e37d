//! `profiler sim` serves the simulated engine until it gets a signal. It prints its address to stdout and the engine's
//! log to stderr.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::program::{GRACE, Program, Status};
use crate::fault::{Fault, Result};
use crate::report::Terminal;
use crate::sim::{LogSink, Options, Sim, SimHandle, Spec};

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

/// Serves until a signal arrives, or until the simulated process ends; returns that process's exit status.
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
        // A requested exit status applies, whatever ended the process.
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
