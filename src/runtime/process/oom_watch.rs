//! Detects whether the kernel OOM-killed a process: from the kernel log, or from the counter of its own cgroup. A
//! signal alone is no proof.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use nix::fcntl::OFlag;

use crate::runtime::cgroup;

/// The kernel log uses pids of the initial pid namespace; this is its name (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// State of kernel log and OOM counter before the process ends.
#[derive(Debug)]
pub(in crate::runtime) struct OomWatch {
    // Positioned after the newest record, so that only later ones are read.
    log: Option<File>,
    pid: u32,
    group: Option<std::path::PathBuf>,
    before: u64,
}

impl OomWatch {
    /// Call before the process starts, so that nothing is missed.
    pub(in crate::runtime) fn new() -> Self {
        Self {
            log: kernel_log(),
            pid: 0,
            group: None,
            before: 0,
        }
    }

    pub(in crate::runtime) fn watch(mut self, pid: u32) -> Self {
        self.pid = pid;
        self.group = cgroup::memory_folder(pid);
        self.before = self.group.as_deref().and_then(cgroup::oom_kills).unwrap_or_default();
        self
    }

    /// To be called after the process died of SIGKILL.
    pub(in crate::runtime) fn was_oom_killed(mut self) -> bool {
        let counter_rose = self
            .group
            .as_deref()
            .and_then(cgroup::oom_kills)
            .is_some_and(|now| now > self.before);
        counter_rose || self.log.take().is_some_and(|log| log_mentions(log, self.pid))
    }
}

fn kernel_log() -> Option<File> {
    let first = fs::read_link("/proc/self/ns/pid").ok()?;
    (first.to_str() == Some(FIRST_NAMESPACE)).then_some(())?;
    let mut options = File::options();
    let mut log = options
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open("/dev/kmsg")
        .ok()?;
    log.seek(SeekFrom::End(0)).ok()?;
    Some(log)
}

/// Each read of `/dev/kmsg` returns one record; it fails with EAGAIN after the newest one.
fn log_mentions(mut log: File, pid: u32) -> bool {
    let mut record = [0; 8 * 1024];
    while let Ok(length) = log.read(&mut record) {
        if length == 0 {
            break;
        }
        if is_oom_kill_of(&String::from_utf8_lossy(&record[..length]), pid) {
            return true;
        }
    }
    false
}

/// `Memory cgroup out of memory: Killed process 12 (name) …` or `Out of memory: Killed process 12 (name) …`
/// (mm/oom_kill.c).
fn is_oom_kill_of(record: &str, pid: u32) -> bool {
    let message = record.split_once(';').map_or(record, |(_, message)| message);
    message
        .split_once("ut of memory: Killed process ")
        .and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next())
        .is_some_and(|number| number == pid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_given_process_counts() {
        let record =
            "6,1234,5678,-;Memory cgroup out of memory: Killed process 1234 (server) total-vm:99kB, anon-rss:9kB";
        assert!(is_oom_kill_of(record, 1234));
        assert!(!is_oom_kill_of(record, 123));
        assert!(!is_oom_kill_of(record, 12345));
        assert!(is_oom_kill_of("3,1,1,-;Out of memory: Killed process 7 (x)", 7));
        assert!(!is_oom_kill_of("6,1,1,-;a user wrote: Killed process 7 (x)", 7));
    }
}
