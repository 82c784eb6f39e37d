//! Host memory of a process tree or a cgroup, for engines without a GPU.
//!
//! A cgroup's memory is the amount that the kernel counts against its limit, which decides whether the OOM killer acts
//! (Linux, `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/memory.rst`).

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Device, Reading, Source, Tenant};
use crate::fault::{Fault, Kind, Result};
use crate::task::lock;

/// Roots of the kernel's file systems; different folders in tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys/fs/cgroup`.
    pub cgroup: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            cgroup: "/sys/fs/cgroup".into(),
        }
    }
}

/// Total memory of the machine in bytes, from `/proc/meminfo`.
fn machine_total(roots: &Roots) -> Option<u64> {
    let text = std::fs::read_to_string(roots.proc.join("meminfo")).ok()?;
    kibibytes(&text, "MemTotal")
}

/// A field of a `/proc` file with lines like `MemTotal:  16384 kB`, in bytes.
fn kibibytes(text: &str, field: &str) -> Option<u64> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let number: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1024)
}

/// The files with the memory in use and with its limit, in both versions of the interface.
const FILES: [(&str, &str); 2] = [
    ("memory.current", "memory.max"),
    ("memory.usage_in_bytes", "memory.limit_in_bytes"),
];

/// Reads one cgroup. Its memory includes the page cache of files it has read. The kernel reclaims this cache before it
/// kills.
#[derive(Clone, Debug)]
pub struct Cgroup {
    folder: PathBuf,
    files: (&'static str, &'static str),
    name: String,
    machine: u64,
}

impl Cgroup {
    /// The cgroup of this folder; `None` if it has no memory accounting, or cannot be seen from here.
    pub fn at(folder: &Path, roots: &Roots) -> Option<Self> {
        let files = FILES.into_iter().find(|(used, _)| folder.join(used).is_file())?;
        let below = folder.strip_prefix(&roots.cgroup).ok()?;
        // Version 1 has a hierarchy for each controller.
        let path = below.strip_prefix("memory").unwrap_or(below);
        Some(Self {
            folder: folder.to_owned(),
            files,
            name: format!("/{}", path.display()),
            machine: machine_total(roots).unwrap_or_default(),
        })
    }
}

impl Source for Cgroup {
    fn name(&self) -> &'static str {
        "host"
    }

    fn read(&mut self) -> Result<Reading> {
        let used = number(&self.folder.join(self.files.0))
            .ok_or_else(|| Fault::new(Kind::Io, format!("cgroup `{}` is gone", self.name)))?;
        // `max`, or a number near 2^63 in version 1, means no limit other than the machine's memory.
        let limit = number(&self.folder.join(self.files.1)).unwrap_or(u64::MAX);
        Ok(Reading {
            devices: vec![Device {
                id: self.name.clone(),
                name: "host memory of a cgroup".to_owned(),
                used,
                total: limit.min(self.machine),
            }],
            ..Reading::default()
        })
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Finding the processes of a tree requires reading every process's `stat`, so it is done only once per this interval.
const MEMBERS_INTERVAL: Duration = Duration::from_millis(100);

/// Reads the resident memory of the process `pid`, its descendants, and its process group. A shared page counts once
/// per process. A tree that has ended has no memory.
#[derive(Clone, Debug)]
pub struct Tree {
    pid: u32,
    roots: Roots,
    total: u64,
    /// Shared with the slow source, which refreshes it.
    members: Arc<Mutex<Members>>,
}

/// The processes of a tree, and the time when they were found.
#[derive(Debug, Default)]
struct Members {
    pids: Vec<u32>,
    at: Option<Instant>,
}

impl Tree {
    /// The tree below `pid`.
    pub fn new(pid: u32, roots: Roots) -> Self {
        Self {
            pid,
            total: machine_total(&roots).unwrap_or_default(),
            roots,
            members: Arc::default(),
        }
    }

    /// The processes, found again if the list is older than `max_age`.
    fn members(&self, max_age: Duration) -> Vec<u32> {
        let known = |members: &Members| {
            let fresh = members.at.is_some_and(|at| at.elapsed() < max_age);
            fresh.then(|| members.pids.clone())
        };
        let lock = || lock(&self.members);
        let found = known(&lock());
        found.unwrap_or_else(|| {
            let pids = members(&processes(&self.roots.proc), self.pid);
            *lock() = Members {
                pids: pids.clone(),
                at: Some(Instant::now()),
            };
            pids
        })
    }

    fn read_tree(&self, max_age: Duration) -> Reading {
        // A process that ends between being found and being read has no memory.
        let tenants: Vec<Tenant> = self
            .members(max_age)
            .into_iter()
            .filter_map(|pid| {
                Some(Tenant {
                    pid,
                    device: "host".to_owned(),
                    used: Some(self.used(pid)?),
                })
            })
            .collect();
        Reading {
            devices: vec![Device {
                id: "host".to_owned(),
                name: "host memory".to_owned(),
                used: tenants.iter().filter_map(|tenant| tenant.used).sum(),
                total: self.total,
            }],
            tenants,
            ..Reading::default()
        }
    }

    fn used(&self, pid: u32) -> Option<u64> {
        let status = self.roots.proc.join(pid.to_string()).join("status");
        kibibytes(&fs::read_to_string(status).ok()?, "VmRSS")
    }
}

impl Source for Tree {
    fn name(&self) -> &'static str {
        "host"
    }

    fn read(&mut self) -> Result<Reading> {
        Ok(self.read_tree(MEMBERS_INTERVAL / 2))
    }

    /// Uses the processes found by the slow source. An old list means that there is no slow source.
    fn read_memory(&mut self) -> Result<Reading> {
        Ok(self.read_tree(3 * MEMBERS_INTERVAL))
    }

    fn slow_source(&self) -> Option<Box<dyn Source>> {
        Some(Box::new(self.clone()))
    }
}

/// The kernel's data about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    parent: u32,
    /// Process group.
    group: u32,
    /// Its start, in clock ticks since boot.
    pub(crate) start: u64,
}

/// The kernel's data about a process; `None` if it has exited.
pub(crate) fn process_stat(proc: &Path, pid: u32) -> Option<ProcessStat> {
    parse_stat(&fs::read_to_string(proc.join(format!("{pid}/stat"))).ok()?)
}

/// All running processes.
pub(crate) fn processes(proc: &Path) -> HashMap<u32, ProcessStat> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, process_stat(proc, pid)?))).collect()
}

/// Parses `pid (name) state parent group …`, where the start is field 22. The name may contain spaces and parentheses,
/// so parsing begins after the last one. Zombies count as exited; only their parent can remove them.
fn parse_stat(stat: &str) -> Option<ProcessStat> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(ProcessStat {
        parent: fields
            .get(1)
            .filter(|_| !matches!(fields[0], "Z" | "X"))?
            .parse()
            .ok()?,
        group: fields.get(2)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

/// The root, its descendants, and its process group if it leads one. Ascending.
pub(crate) fn members(processes: &HashMap<u32, ProcessStat>, root: u32) -> Vec<u32> {
    let belongs = |pid: u32| {
        let mut at = pid;
        // A chain longer than the number of processes would be a cycle, which can only come from an inconsistent read.
        for _ in 0..=processes.len() {
            if at == root {
                return true;
            }
            match processes.get(&at) {
                Some(stat) if stat.group == root => return true,
                Some(stat) => at = stat.parent,
                None => return false,
            }
        }
        false
    };
    let mut members: Vec<u32> = processes.keys().copied().filter(|&pid| belongs(pid)).collect();
    members.sort_unstable();
    members
}

#[cfg(test)]
mod host_tests {
    use super::*;

    #[test]
    fn field_names_match_exactly() {
        let text = "MemTotalX:  1 kB\nMemTotal:       3 kB\nPss:  9 kB\n";
        assert_eq!(kibibytes(text, "MemTotal"), Some(3072));
        assert_eq!(kibibytes(text, "MemFree"), None);
        assert_eq!(kibibytes("Pss: many kB", "Pss"), None);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(machine_total(&Roots::default()).unwrap() > 1 << 26);
    }
}

#[cfg(test)]
mod tree_tests {
    use super::*;

    #[test]
    fn process_name_may_contain_anything() {
        let (parent, group, start) = (7, 42, 99);
        let rest = format!("7 42 {} 99 0", "1 ".repeat(16).trim_end());
        let expected = Some(ProcessStat { parent, group, start });
        assert_eq!(parse_stat(&format!("12 (a) b (c)) S {rest}")), expected);
        assert_eq!(parse_stat(&format!("12 (x) R {rest}")), expected);
        assert_eq!(parse_stat(&format!("12 x R {rest}")), None);
        assert_eq!(parse_stat(&format!("12 (x) Z {rest}")), None);
    }

    #[test]
    fn descendants_and_the_group_belong_to_the_tree() {
        let start = 0;
        let stat = |parent, group| ProcessStat { parent, group, start };
        let processes = HashMap::from([
            (1, stat(0, 1)),
            (10, stat(1, 10)),
            (11, stat(10, 10)),
            (12, stat(11, 12)),
            (13, stat(1, 10)),
            (20, stat(1, 20)),
            (30, stat(31, 30)),
            (31, stat(30, 31)),
        ]);
        assert_eq!(
            members(&processes, 10),
            [10, 11, 12, 13],
            "13 lost its parent, and stayed in the group"
        );
        assert_eq!(members(&processes, 99), [0_u32; 0]);
    }
}
