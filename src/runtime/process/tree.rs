//! The processes of one server: by its group, by its descendants, and by the mark in their environment, which also those carry
//! that left the group and lost their parent.

use std::collections::HashSet;
use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::SERVICE;
use crate::runtime::identity;

struct Seen {
    pid: u32,
    parent: u32,
    group: u32,
}

/// The process that a server began with.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) struct Root {
    pub(in crate::runtime) pid: u32,
    pub(in crate::runtime) start: Option<u64>,
}

/// The living processes that carry the mark, are in the group of the root, or descend from one of these: the root first, where it lives.
/// Never this process.
pub(in crate::runtime) fn members(mark: &str, root: Root) -> Vec<u32> {
    let all = living();
    let wanted = format!("{SERVICE}={mark}");
    // A number that somebody else has by now names a group of theirs.
    let ours = identity::start_time(root.pid).is_none_or(|start| Some(start) == root.start);
    let grouped = |seen: &Seen| ours && (seen.pid == root.pid || seen.group == root.pid);
    let mut found: HashSet<u32> = all
        .iter()
        .filter(|seen| grouped(seen) || carries(seen.pid, &wanted))
        .map(|seen| seen.pid)
        .collect();
    // Descendants of descendants: until a pass finds none.
    loop {
        let before = found.len();
        let children = all.iter().filter(|seen| found.contains(&seen.parent));
        let children: Vec<u32> = children.map(|seen| seen.pid).collect();
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

/// Sends a signal to each; one that is gone already is no failure.
pub(in crate::runtime) fn signal(pids: &[u32], signal: Signal) {
    for &pid in pids {
        if let Ok(pid) = i32::try_from(pid) {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

/// The value of a variable in the environment that a process was started with.
pub(in crate::runtime) fn variable(pid: u32, name: &str) -> Option<String> {
    let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environ
        .split(|&byte| byte == 0)
        .filter_map(|entry| std::str::from_utf8(entry).ok()?.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.to_owned())
}

/// The words that a process was called with.
pub(in crate::runtime) fn command(pid: u32) -> Option<Vec<String>> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = words.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// The numbers of all living processes.
pub(in crate::runtime) fn all() -> Vec<u32> {
    living().into_iter().map(|seen| seen.pid).collect()
}

fn carries(pid: u32, wanted: &str) -> bool {
    let wanted = wanted.as_bytes();
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|&byte| byte == 0).any(|entry| entry == wanted))
}

fn living() -> Vec<Seen> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| seen(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}

fn seen(pid: u32) -> Option<Seen> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    // A zombie is dead: only its parent can remove it.
    (!matches!(fields.next()?, "Z" | "X")).then_some(())?;
    Some(Seen {
        pid,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
    })
}
