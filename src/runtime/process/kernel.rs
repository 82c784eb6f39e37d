//! Whether the kernel itself says that it killed a process for its memory: in the kernel log, or in the counter of a control group
//! that is not the whole machine's. Nothing is concluded from a signal alone.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use nix::fcntl::OFlag;

use crate::runtime::cgroup;

/// The kernel's log numbers processes as the first pid namespace does; this is that namespace (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// What the kernel has said so far, to be compared with what it says later.
#[derive(Debug)]
pub(super) struct Watch {
    // Stands behind the newest record, so that only later ones are read.
    log: Option<File>,
    pid: u32,
    group: Option<std::path::PathBuf>,
    before: u64,
}

impl Watch {
    /// Marks the moment; before the process starts, so that nothing is missed.
    pub(super) fn begin() -> Self {
        Self {
            log: kernel_log(),
            pid: 0,
            group: None,
            before: 0,
        }
    }

    /// Watches this process.
    pub(super) fn of(mut self, pid: u32) -> Self {
        self.pid = pid;
        self.group = cgroup::memory_folder(pid);
        self.before = self.group.as_deref().and_then(cgroup::oom_kills).unwrap_or_default();
        self
    }

    /// Asked after the process died of SIGKILL.
    pub(super) fn killed_for_memory(mut self) -> bool {
        let counted = self
            .group
            .as_deref()
            .and_then(cgroup::oom_kills)
            .is_some_and(|now| now > self.before);
        counted || self.log.take().is_some_and(|log| names(log, self.pid))
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

/// Each read of `/dev/kmsg` gives one record, and fails with EAGAIN after the newest one.
fn names(mut log: File, pid: u32) -> bool {
    let mut record = [0; 8 * 1024];
    while let Ok(length) = log.read(&mut record) {
        if length == 0 {
            break;
        }
        if tells_of(&String::from_utf8_lossy(&record[..length]), pid) {
            return true;
        }
    }
    false
}

/// `Memory cgroup out of memory: Killed process 12 (name) …` or `Out of memory: Killed process 12 (name) …` (mm/oom_kill.c).
fn tells_of(record: &str, pid: u32) -> bool {
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
    fn only_the_very_process_counts() {
        let record =
            "6,1234,5678,-;Memory cgroup out of memory: Killed process 1234 (server) total-vm:99kB, anon-rss:9kB";
        assert!(tells_of(record, 1234));
        assert!(!tells_of(record, 123));
        assert!(!tells_of(record, 12345));
        assert!(tells_of("3,1,1,-;Out of memory: Killed process 7 (x)", 7));
        assert!(!tells_of("6,1,1,-;a user wrote: Killed process 7 (x)", 7));
    }
}
