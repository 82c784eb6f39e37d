//! Processes below another one.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::telemetry::host;

/// The running processes that descend from `root`, without `root` itself.
pub(in crate::runtime) fn below(root: u32) -> Vec<u32> {
    let mut pids = host::members(&host::processes(Path::new("/proc")), root);
    pids.retain(|pid| *pid != root);
    pids
}

/// Sends a signal to each process. Processes that have exited are ignored.
pub(in crate::runtime) fn signal(pids: &[u32], signal: Signal) {
    for &pid in pids {
        if let Ok(pid) = i32::try_from(pid) {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}
