//! Processes below another one.

use std::fs;
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

/// The running processes in the pid namespace whose first process is `first`. Empty if that is another process, as where
/// `first` is a pid of another machine, or if we are in that namespace too.
pub(in crate::runtime) fn in_namespace_of(first: u32) -> Vec<u32> {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let status = fs::read_to_string(format!("/proc/{first}/status")).unwrap_or_default();
    let is_first = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))
        .is_some_and(|pids| pids.split_ascii_whitespace().next_back() == Some("1"));
    let wanted = namespace(&first.to_string());
    if !is_first || wanted.is_none() || wanted == namespace("self") {
        return Vec::new();
    }
    let pids = host::processes(Path::new("/proc")).into_keys();
    let mut pids: Vec<u32> = pids.filter(|pid| namespace(&pid.to_string()) == wanted).collect();
    pids.sort_unstable();
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
