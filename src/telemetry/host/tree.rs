//! Memory of a process and its descendants.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::fault::Result;
use crate::telemetry::reading::{Device, Reading, Source, Tenant};

use super::{Roots, kibibytes, machine_total};

/// Finding the processes of a tree requires reading every process's `stat`, so it is done only this often.
const MEMBERS_INTERVAL: Duration = Duration::from_millis(100);

/// What counts as the memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// Resident memory: fast, but a shared page counts once for each process.
    #[default]
    Resident,
    /// Proportional memory (PSS): shared pages are divided among their processes. The kernel walks all pages for it,
    /// which takes milliseconds per GiB: for low rates only.
    Proportional,
}

/// Reads the process `pid`, its descendants, and its process group. A tree that has ended has no memory.
#[derive(Clone, Debug)]
pub struct Tree {
    pid: u32,
    measure: Measure,
    roots: Roots,
    total: u64,
    /// Shared with the slow source, which refreshes it.
    members: Arc<Mutex<Members>>,
}

/// The processes of a tree, and when they were found.
#[derive(Debug, Default)]
struct Members {
    pids: Vec<u32>,
    at: Option<Instant>,
}

impl Tree {
    /// The tree below `pid`.
    #[must_use]
    pub fn new(pid: u32, measure: Measure, roots: Roots) -> Self {
        Self {
            pid,
            measure,
            total: machine_total(&roots).unwrap_or_default(),
            roots,
            members: Arc::default(),
        }
    }

    /// The processes, searched again if the list is older than `max_age`.
    fn members(&self, max_age: Duration) -> Vec<u32> {
        let known = |members: &Members| {
            let fresh = members.at.is_some_and(|at| at.elapsed() < max_age);
            fresh.then(|| members.pids.clone())
        };
        let lock = || self.members.lock().unwrap_or_else(PoisonError::into_inner);
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
        // A process may end between being found and being read: it has no memory then.
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
            activity: Vec::new(),
        }
    }

    fn used(&self, pid: u32) -> Option<u64> {
        let folder = self.roots.proc.join(pid.to_string());
        let (file, field) = match self.measure {
            Measure::Resident => ("status", "VmRSS"),
            Measure::Proportional => ("smaps_rollup", "Pss"),
        };
        kibibytes(&fs::read_to_string(folder.join(file)).ok()?, field)
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

/// Parent and process group of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessParent {
    parent: u32,
    group: u32,
}

fn processes(proc: &Path) -> HashMap<u32, ProcessParent> {
    let Ok(entries) = fs::read_dir(proc) else {
        return HashMap::new();
    };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, parse_stat(&fs::read_to_string(entry.path().join("stat")).ok()?)?))
        })
        .collect()
}

/// `pid (name) state parent group …`: the name may contain spaces and parentheses, so parse after the last one.
fn parse_stat(stat: &str) -> Option<ProcessParent> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(1);
    Some(ProcessParent {
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
    })
}

/// The root, its descendants, and its process group if it leads one. Ascending.
fn members(processes: &HashMap<u32, ProcessParent>, root: u32) -> Vec<u32> {
    let belongs = |pid: u32| {
        let mut at = pid;
        // A chain longer than all processes would be a cycle, which only an inconsistent read can show.
        for _ in 0..=processes.len() {
            if at == root {
                return true;
            }
            match processes.get(&at) {
                Some(parse_stat) if parse_stat.group == root => return true,
                Some(parse_stat) => at = parse_stat.parent,
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
mod tests {
    use super::*;

    #[test]
    fn process_name_may_contain_anything() {
        let expected = ProcessParent { parent: 7, group: 42 };
        assert_eq!(parse_stat("12 (a) b (c)) S 7 42 1 0"), Some(expected));
        assert_eq!(parse_stat("12 (x) R 7 42"), Some(expected));
        assert_eq!(parse_stat("12 x R 7 42"), None);
    }

    #[test]
    fn descendants_and_the_group_belong_to_the_tree() {
        let parse_stat = |parent, group| ProcessParent { parent, group };
        let processes = HashMap::from([
            (1, parse_stat(0, 1)),
            (10, parse_stat(1, 10)),
            (11, parse_stat(10, 10)),
            (12, parse_stat(11, 12)),
            (13, parse_stat(1, 10)),
            (20, parse_stat(1, 20)),
            (30, parse_stat(31, 30)),
            (31, parse_stat(30, 31)),
        ]);
        assert_eq!(
            members(&processes, 10),
            [10, 11, 12, 13],
            "13 lost its parent, and stayed in the group"
        );
        assert_eq!(members(&processes, 99), [0_u32; 0]);
    }
}
