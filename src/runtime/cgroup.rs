//! Memory control group (cgroup v1 or v2) of a process: its folder, its processes and its OOM kill counter; and whether
//! the kernel OOM-killed a process, from the kernel log or that counter. A signal alone is no proof.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

const MOUNT: &str = "/sys/fs/cgroup";

/// Folder with the memory files of the cgroup of `pid`. None for the root group, which covers the whole machine.
pub(super) fn memory_folder(pid: u32) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let folder = folder(&text)?;
    folder.is_dir().then_some(folder)
}

/// Lines are `ID:CONTROLLERS:PATH`. Version 2 has one line with ID 0 and no controllers. Hybrid hosts have both.
fn folder(text: &str) -> Option<PathBuf> {
    let lines = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let of = |hierarchy| {
        let path = lines().find(|(controllers, _)| controllers.split(',').any(|name| name == hierarchy));
        path.map(|(_, path)| (hierarchy, path))
    };
    let (hierarchy, path) = of("memory").or_else(|| of(""))?;
    let inner = path.trim_start_matches('/');
    // `..` means that the group lies outside the visible part of the tree.
    (!inner.is_empty() && !inner.starts_with("..")).then(|| Path::new(MOUNT).join(hierarchy).join(inner))
}

/// OOM kills in this group so far: `oom_kill N` in `memory.events` (v2) or `memory.oom_control` (v1).
pub(super) fn oom_kills(folder: &Path) -> Option<u64> {
    let text = fs::read_to_string(folder.join("memory.events"))
        .or_else(|_| fs::read_to_string(folder.join("memory.oom_control")))
        .ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// Processes of the group and its subgroups.
pub(super) fn processes(folder: &Path) -> Vec<u32> {
    let own = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<u32> = own.lines().filter_map(|line| line.parse().ok()).collect();
    for inner in fs::read_dir(folder).into_iter().flatten().flatten() {
        if inner.file_type().is_ok_and(|kind| kind.is_dir()) {
            pids.extend(processes(&inner.path()));
        }
    }
    pids
}

/// The kernel log uses pids of the initial pid namespace; this is its name (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// State of kernel log and OOM counter before a process ends.
pub(in crate::runtime) struct OomWatch {
    // Positioned after the newest record, so that only later ones are read.
    log: Option<File>,
    pid: u32,
    group: Option<PathBuf>,
    before: Option<u64>,
}

impl OomWatch {
    /// `log` is the [`kernel_log`] from before the start of the process.
    pub(in crate::runtime) fn new(log: Option<File>, pid: u32) -> Self {
        let group = memory_folder(pid);
        let before = group.as_deref().and_then(oom_kills);
        Self {
            log,
            pid,
            group,
            before,
        }
    }

    /// To be called after the process died of SIGKILL.
    pub(in crate::runtime) fn was_oom_killed(self) -> bool {
        let now = self.group.as_deref().and_then(oom_kills);
        let is_logged = |log| log_has(log, |record| is_oom_kill_of(record, self.pid));
        now.unwrap_or_default() > self.before.unwrap_or_default() || self.log.is_some_and(is_logged)
    }
}

/// Whether the kernel log, as far back as it goes, has an OOM kill in a container's group.
pub(in crate::runtime) fn was_container_oom_killed(id: &str) -> bool {
    open_kernel_log().is_some_and(|log| log_has(log, |record| is_oom_kill_in(record, id)))
}

fn open_kernel_log() -> Option<File> {
    let flags = (OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    File::options().read(true).custom_flags(flags).open("/dev/kmsg").ok()
}

/// The kernel log, positioned at its end; `None` if its pids are not those of this pid namespace.
pub(in crate::runtime) fn kernel_log() -> Option<File> {
    let first = fs::read_link("/proc/self/ns/pid").ok()?;
    (first.to_str() == Some(FIRST_NAMESPACE)).then_some(())?;
    let mut log = open_kernel_log()?;
    log.seek(SeekFrom::End(0)).ok()?;
    Some(log)
}

/// Each read of `/dev/kmsg` returns one record. It fails with EAGAIN after the newest one, and with EPIPE if records
/// were overwritten before they were read.
fn log_has(mut log: File, is_it: impl Fn(&str) -> bool) -> bool {
    let mut record = [0; 8 * 1024];
    loop {
        match log.read(&mut record) {
            Ok(length) if length > 0 => {
                if is_it(&String::from_utf8_lossy(&record[..length])) {
                    return true;
                }
            }
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            _ => return false,
        }
    }
}

fn message(record: &str) -> &str {
    record.split_once(';').map_or(record, |(_, message)| message)
}

/// `oom-kill:constraint=…,task_memcg=/docker/ID,task=python3,…`, or another path with the id (mm/oom_kill.c).
fn is_oom_kill_in(record: &str, id: &str) -> bool {
    let facts = message(record).strip_prefix("oom-kill:").unwrap_or_default();
    facts
        .split(',')
        .any(|fact| fact.starts_with("task_memcg=") && fact.contains(id))
}

/// `Memory cgroup out of memory: Killed process 12 (name) …` or `Out of memory: Killed process 12 (name) …`
/// (mm/oom_kill.c).
fn is_oom_kill_of(record: &str, pid: u32) -> bool {
    message(record)
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

    #[test]
    fn only_the_given_container_counts() {
        let record = "6,2231,6773257873,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=2b7abe,mems_allowed=0,oom_memcg=/slice,\
                      task_memcg=/slice/docker-2b7abe.scope,task=server,pid=21024,uid=0";
        assert!(is_oom_kill_in(record, "2b7abe"));
        assert!(!is_oom_kill_in(record, "b32a1d"));
        assert!(!is_oom_kill_in(
            &record.replace("docker-2b7abe", "docker-b32a1d"),
            "2b7abe"
        ));
        assert!(!is_oom_kill_in(
            &record.replace("oom-kill:", "a user wrote: "),
            "2b7abe"
        ));
    }
}

#[cfg(test)]
mod cgroup_tests {
    use super::*;

    #[test]
    fn the_memory_hierarchy_is_found_in_every_version() {
        let v1 = "11:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n";
        assert_eq!(folder(v1), Some("/sys/fs/cgroup/memory/docker/abc".into()));
        assert_eq!(
            folder("0::/system.slice/docker-abc.scope\n"),
            Some("/sys/fs/cgroup/system.slice/docker-abc.scope".into())
        );
        assert_eq!(folder("0::/\n"), None);
        assert_eq!(folder("0::/../other\n"), None);
    }

    #[test]
    fn kills_are_counted_in_either_file() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(oom_kills(folder.path()), None);
        fs::write(
            folder.path().join("memory.oom_control"),
            "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        )
        .unwrap();
        assert_eq!(oom_kills(folder.path()), Some(3));
        fs::write(
            folder.path().join("memory.events"),
            "low 0\noom 5\noom_kill 4\noom_group_kill 0\n",
        )
        .unwrap();
        assert_eq!(oom_kills(folder.path()), Some(4));
    }
}
