//! The memory of a process and everything it started.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::fault::Result;
use crate::telemetry::reading::{Device, Reading, Source, Tenant};

use super::{Roots, kibibytes, machine_total};

/// Finding the processes of a tree means reading every process's `stat`, so it is done about this often.
const MEMBERS_EVERY: Duration = Duration::from_millis(100);

/// What counts as the memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// Resident memory: quick, and every shared page counts once for each process that has it.
    #[default]
    Resident,
    /// Proportional memory: shared pages are divided among those that have them. The kernel walks all pages for it, which
    /// takes milliseconds for each GiB: for slow rates only.
    Proportional,
}

/// Looks at the process `pid` and its descendants, and at whatever shares its process group. A tree that has ended holds nothing.
#[derive(Clone, Debug)]
pub struct Tree {
    pid: u32,
    measure: Measure,
    roots: Roots,
    total: u64,
    /// Shared with the looks that are made apart, which find them.
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

    /// The processes, found again when they were found too long ago.
    fn members(&self, patience: Duration) -> Vec<u32> {
        let known = |members: &Members| {
            let fresh = members.at.is_some_and(|at| at.elapsed() < patience);
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

    fn look(&self, patience: Duration) -> Reading {
        // A process may end between being found and being read: it holds nothing then.
        let tenants: Vec<Tenant> = self
            .members(patience)
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
        Ok(self.look(MEMBERS_EVERY / 2))
    }

    /// The processes are those that the looks apart found; none found for a while means that no such looks are made.
    fn quick(&mut self) -> Result<Reading> {
        Ok(self.look(3 * MEMBERS_EVERY))
    }

    fn slow(&self) -> Option<Box<dyn Source>> {
        Some(Box::new(self.clone()))
    }
}

/// A process's parent and group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kin {
    parent: u32,
    group: u32,
}

fn processes(proc: &Path) -> HashMap<u32, Kin> {
    let Ok(entries) = fs::read_dir(proc) else {
        return HashMap::new();
    };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, kin(&fs::read_to_string(entry.path().join("stat")).ok()?)?))
        })
        .collect()
}

/// `pid (name) state parent group …`: the name may hold spaces and parentheses, so it is read from its last one on.
fn kin(stat: &str) -> Option<Kin> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(1);
    Some(Kin {
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
    })
}

/// The root, its descendants, and its process group where it leads one. Ascending.
fn members(processes: &HashMap<u32, Kin>, root: u32) -> Vec<u32> {
    let belongs = |pid: u32| {
        let mut at = pid;
        // A chain longer than all processes would be a circle, which only a torn reading can show.
        for _ in 0..=processes.len() {
            if at == root {
                return true;
            }
            match processes.get(&at) {
                Some(kin) if kin.group == root => return true,
                Some(kin) => at = kin.parent,
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
    fn a_name_may_hold_anything() {
        let expected = Kin { parent: 7, group: 42 };
        assert_eq!(kin("12 (a) b (c)) S 7 42 1 0"), Some(expected));
        assert_eq!(kin("12 (x) R 7 42"), Some(expected));
        assert_eq!(kin("12 x R 7 42"), None);
    }

    #[test]
    fn descendants_and_the_group_belong_to_the_tree() {
        let kin = |parent, group| Kin { parent, group };
        let processes = HashMap::from([
            (1, kin(0, 1)),
            (10, kin(1, 10)),
            (11, kin(10, 10)),
            (12, kin(11, 12)),
            (13, kin(1, 10)),
            (20, kin(1, 20)),
            (30, kin(31, 30)),
            (31, kin(30, 31)),
        ]);
        assert_eq!(
            members(&processes, 10),
            [10, 11, 12, 13],
            "13 lost its parent, and stayed in the group"
        );
        assert_eq!(members(&processes, 99), [0_u32; 0]);
    }
}
