//! Memory control group (cgroup v1 or v2) of a process: its folder, its processes and its OOM kill counter.

use std::fs;
use std::path::{Path, PathBuf};

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
    let v1 = lines()
        .find(|(controllers, _)| controllers.split(',').any(|name| name == "memory"))
        .map(|(_, path)| ("memory", path));
    let v2 = lines()
        .find(|(controllers, _)| controllers.is_empty())
        .map(|(_, path)| ("", path));
    let (hierarchy, path) = v1.or(v2)?;
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

#[cfg(test)]
mod tests {
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
