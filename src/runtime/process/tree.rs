//! The processes below another one, and what is known of a process.

use std::collections::HashSet;
use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The running processes that descend from `root`, without itself.
pub(in crate::runtime) fn below(root: u32) -> Vec<u32> {
    let all = list();
    let mut found = HashSet::from([root]);
    // Add children until nothing changes.
    loop {
        let before = found.len();
        let children = all.iter().filter(|(_, parent)| found.contains(parent));
        let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
        found.extend(children);
        if found.len() == before {
            break;
        }
    }
    found.remove(&root);
    found.into_iter().collect()
}

/// Sends a signal to each; processes that have exited are ignored.
pub(in crate::runtime) fn signal(pids: &[u32], signal: Signal) {
    for &pid in pids {
        if let Ok(pid) = i32::try_from(pid) {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

pub(in crate::runtime) fn command_line(pid: u32) -> Option<Vec<String>> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = words.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// Pid and parent of all running processes.
fn list() -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}

fn stat(pid: u32) -> Option<(u32, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    // Zombies count as dead; only their parent can remove them.
    (!matches!(fields.next()?, "Z" | "X")).then_some(())?;
    Some((pid, fields.next()?.parse().ok()?))
}
