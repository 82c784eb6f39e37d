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
use std::ops::Range;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::fault::{Fault, Result};
use crate::file;
use crate::run::{EnginePhase, Event, Run, random};

/// Reports the current phase of a start to the run.
fn phase(run: &Run, phase: EnginePhase, detail: &str) -> Result<()> {
    run.note(Event::Phase {
        phase,
        detail: detail.to_owned(),
    })
}

/// Ports for engines: below those that the kernel chooses by default, and below the node ports of Kubernetes.
const PORTS: Range<u32> = 20_000..30_000;

/// The ports that the kernel chooses from: the first and the last.
fn kernels_ports() -> Option<(u32, u32)> {
    let text = file::read(Path::new("/proc/sys/net/ipv4/ip_local_port_range"), 64).ok()?;
    let text = String::from_utf8(text).ok()?;
    let mut ends = text.split_whitespace().map(|end| end.parse().ok());
    Some((ends.next()??, ends.next()??))
}

/// The requested loopback port if it is free. For 0, a free one that the kernel does not choose, if there is one: no
/// connection takes it while the engine loads, and no listener gets it right after its container ended, when podman
/// still forwards it for some tenths of a second (measured on 2026-11-30, podman 4.3.1 with netavark).
fn free_port(requested: u16) -> Result<u16> {
    // No two engines of this process get the same port, though each takes it only later; nor, most likely, those of two
    // processes.
    static TURN: LazyLock<AtomicU32> = LazyLock::new(|| AtomicU32::new(random() as u32));
    let bound = |port| {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        listener.local_addr().map(|address| address.port())
    };
    if requested == 0 {
        let (first, last) = kernels_ports().unwrap_or((1, 0));
        let ports = PORTS.map(|_| PORTS.start + TURN.fetch_add(1, Ordering::Relaxed) % (PORTS.end - PORTS.start));
        let mut ports = ports.filter(|port| !(first..=last).contains(port));
        if let Some(port) = ports.find_map(|port| bound(u16::try_from(port).ok()?).ok()) {
            return Ok(port);
        }
    }
    bound(requested).map_err(|error| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gives_the_port_of_an_engine_to_nobody_else() {
        let (first, last) = kernels_ports().unwrap();
        if first <= PORTS.start && last >= PORTS.end {
            return;
        }
        let ports = [(); 3].map(|()| free_port(0).unwrap());
        let outside = |port: &u16| !(first..=last).contains(&u32::from(*port));
        assert!(ports.iter().all(outside), "{ports:?}");
        assert!(
            ports[0] != ports[1] && ports[1] != ports[2] && ports[0] != ports[2],
            "{ports:?}"
        );
    }
}
