//! Runs engines in Docker containers, native processes or in-process (simulated), or attaches to running ones: start,
//! stop, logs, exec, copy, exit state, and the user's permissions.
//!
//! Only this module uses Docker. Everything started is registered in [`Services`], carries the run's id as a label or
//! environment variable, and has a supervisor, so that nothing is left running after a failure, Ctrl-C, a panic or
//! SIGKILL. [`start`] and [`attach`] return a [`Service`], which is the same for every runtime. [`Permits`] is checked
//! before anything starts.

mod address;
mod attach;
mod cgroup;
mod command;
mod docker;
mod launch;
pub mod orphans;
mod output;
mod owner;
mod permits;
mod process;
mod process_tree;
mod service;
mod services;
mod state;
mod supervise;
mod supervisor;

pub use address::server_url;
pub use attach::{Target, api_key, check_reachable, container_url};
pub use command::{CommandLine, Input, Take, run_command};
pub use docker::{
    DockerInfo, GpuAccess, gpu_access, info as docker_info, is_present as image_is_present, model_volumes,
    remove_model_volumes,
};
pub use launch::{GpuRuntime, HubModel, Launch, Mount, bytes, environment, gpu_names, mounts};
pub use output::{Captured, ExecOutput, LogLine, ServerLog};
pub use permits::{Consent, Grant, Origin, Permits, Want};
pub use service::{Program, Service, placeholder_launch};
pub use services::{Services, StartContext, attach, start, start_own};
pub use state::{EndedBy, Exit, RuntimeKind, State};
pub use supervise::supervise;
pub use supervisor::Limits;

use std::net::TcpListener;

use crate::fault::{Fault, Result};
use crate::run::{EnginePhase, Event, Run};

/// Reports the current phase of a start to the run.
fn phase(run: &Run, phase: EnginePhase, detail: &str) -> Result<()> {
    run.note(Event::Phase {
        phase,
        detail: detail.to_owned(),
    })
}

/// The requested loopback port if it is free; for 0, a port chosen by the kernel.
fn free_port(requested: u16) -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", requested)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|error| {
        if requested == 0 {
            return Fault::missing(
                format!("no free port on 127.0.0.1: {error}"),
                "stop programs that hold many ports, or widen `net.ipv4.ip_local_port_range`",
            );
        }
        Fault::missing(
            format!("port {requested} cannot be used: {error}"),
            "stop what listens there, or write `{port}` in the command and leave `port` out for a free port",
        )
    })
}
