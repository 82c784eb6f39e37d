//! Finds the processes of one server: by process group, by descent, and by an environment variable, which also finds
//! processes that left the group and lost their parent.

use std::collections::HashSet;
use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::SERVICE_VARIABLE;
use crate::runtime::orphans;

struct Stat {
    pid: u32,
    parent: u32,
    group: u32,
}

/// First process of a server.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) struct Root {
    pub(in crate::runtime) pid: u32,
    pub(in crate::runtime) start: Option<u64>,
}

/// Running processes that have the service id, are in the root's group, or descend from one of these. The root comes
/// first if it is alive. Never includes this process.
pub(in crate::runtime) fn members(service_id: &str, root: Root) -> Vec<u32> {
    let all = list();
    let wanted = format!("{SERVICE_VARIABLE}={service_id}");
    // A reused pid would name somebody else's group.
    let ours = orphans::start_time(root.pid).is_none_or(|start| Some(start) == root.start);
    let grouped = |stat: &Stat| ours && (stat.pid == root.pid || stat.group == root.pid);
    let mut found: HashSet<u32> = all
        .iter()
        .filter(|stat| grouped(stat) || has_entry(stat.pid, &wanted))
        .map(|stat| stat.pid)
        .collect();
    // Add descendants until nothing changes.
    loop {
        let before = found.len();
        let children = all.iter().filter(|stat| found.contains(&stat.parent));
        let children: Vec<u32> = children.map(|stat| stat.pid).collect();
        found.extend(children);
        if found.len() == before {
            break;
        }
    }
    found.remove(&std::process::id());
    let mut found: Vec<u32> = found.into_iter().collect();
    found.sort_unstable_by_key(|&pid| (pid != root.pid, pid));
    found
}

/// Sends a signal to each; processes that have exited are ignored.
pub(in crate::runtime) fn signal(pids: &[u32], signal: Signal) {
    for &pid in pids {
        if let Ok(pid) = i32::try_from(pid) {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

/// A variable of the environment that a process was started with.
pub(in crate::runtime) fn env_variable(pid: u32, name: &str) -> Option<String> {
    let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environ
        .split(|&byte| byte == 0)
        .filter_map(|entry| std::str::from_utf8(entry).ok()?.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.to_owned())
}

pub(in crate::runtime) fn command_line(pid: u32) -> Option<Vec<String>> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = words.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// Pids of all running processes.
pub(in crate::runtime) fn pids() -> Vec<u32> {
    list().into_iter().map(|stat| stat.pid).collect()
}

fn has_entry(pid: u32, wanted: &str) -> bool {
    let wanted = wanted.as_bytes();
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|&byte| byte == 0).any(|entry| entry == wanted))
}

fn list() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    // Zombies count as dead; only their parent can remove them.
    (!matches!(fields.next()?, "Z" | "X")).then_some(())?;
    Some(Stat {
        pid,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
    })
}
