//! Memory of a cgroup, as the kernel counts it against the limit; this decides whether the OOM killer acts (Linux,
//! `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/memory.rst`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::fault::{Fault, Kind, Result};
use crate::telemetry::reading::{Device, Reading, Source};

use super::{Roots, machine_total};

/// File names of one version of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Files {
    current: &'static str,
    peak: &'static str,
    limit: &'static str,
}

const V2: Files = Files {
    current: "memory.current",
    peak: "memory.peak",
    limit: "memory.max",
};
const V1: Files = Files {
    current: "memory.usage_in_bytes",
    peak: "memory.max_usage_in_bytes",
    limit: "memory.limit_in_bytes",
};

/// Reads one cgroup. Its memory includes the page cache of files it has read, which the kernel reclaims before it
/// kills.
#[derive(Clone, Debug)]
pub struct Cgroup {
    folder: PathBuf,
    files: Files,
    name: String,
    machine: u64,
}

impl Cgroup {
    /// The cgroup of the process `pid`.
    ///
    /// # Errors
    ///
    /// `missing` if the process has ended, or its cgroup has no memory accounting or is not visible from here.
    pub fn of_process(pid: u32, roots: &Roots) -> Result<Self> {
        let file = roots.proc.join(pid.to_string()).join("cgroup");
        let text = fs::read_to_string(&file).map_err(|_| {
            Fault::missing(
                format!("process {pid} does not exist"),
                "its memory can be read only while it lives",
            )
        })?;
        let candidates = candidates_in(&text);
        candidates
            .iter()
            .find_map(|(controller, path)| Self::at(&roots.cgroup.join(controller), path, roots))
            .ok_or_else(|| {
                let paths: Vec<_> = candidates.into_iter().map(|(_, path)| path).collect();
                not_visible(&paths.join("`, `"))
            })
    }

    /// The cgroup of this path below the root of the hierarchy, as `docker inspect` or systemd report it.
    ///
    /// # Errors
    ///
    /// `missing` if there is none with memory accounting.
    pub fn at_path(path: &str, roots: &Roots) -> Result<Self> {
        ["", "memory"]
            .into_iter()
            .find_map(|controller| Self::at(&roots.cgroup.join(controller), path, roots))
            .ok_or_else(|| not_visible(path))
    }

    /// The peak as recorded by the kernel, including between samples; `None` if the kernel records no peak.
    #[must_use]
    pub fn peak(&self) -> Option<u64> {
        number(&self.folder.join(self.files.peak))
    }

    fn at(hierarchy: &Path, path: &str, roots: &Roots) -> Option<Self> {
        // A path with `..` is outside the part of the hierarchy visible to this process.
        if path.split('/').any(|part| part == "..") {
            return None;
        }
        let folder = hierarchy.join(path.trim_start_matches('/'));
        let files = [V2, V1]
            .into_iter()
            .find(|files| folder.join(files.current).is_file())?;
        Some(Self {
            folder,
            files,
            name: path.to_owned(),
            machine: machine_total(roots).unwrap_or_default(),
        })
    }
}

impl Source for Cgroup {
    fn name(&self) -> &'static str {
        "host"
    }

    fn read(&mut self) -> Result<Reading> {
        let used = number(&self.folder.join(self.files.current))
            .ok_or_else(|| Fault::new(Kind::Io, format!("cgroup `{}` is gone", self.name)))?;
        // `max`, or a number near 2^63 in version 1, means no limit other than the machine's memory.
        let limit = number(&self.folder.join(self.files.limit)).unwrap_or(u64::MAX);
        Ok(Reading {
            devices: vec![Device {
                id: self.name.clone(),
                name: "host memory of a cgroup".to_owned(),
                used,
                total: limit.min(self.machine),
            }],
            tenants: Vec::new(),
            activity: Vec::new(),
        })
    }
}

/// Controller folders and paths from `/proc/PID/cgroup`, version 1's memory controller first: if both versions are
/// mounted, it does the accounting.
fn candidates_in(text: &str) -> Vec<(&'static str, String)> {
    let mut candidates_in = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        if controllers.split(',').any(|name| name == "memory") {
            candidates_in.insert(0, ("memory", path.to_owned()));
        } else if number == "0" && controllers.is_empty() {
            candidates_in.push(("", path.to_owned()));
            candidates_in.push(("unified", path.to_owned()));
        }
    }
    candidates_in
}

fn not_visible(path: &str) -> Fault {
    Fault::missing(
        format!("the memory of cgroup `{path}` cannot be seen from here"),
        "run on the host itself rather than within a container, with the memory controller enabled",
    )
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_both_cgroup_versions() {
        assert_eq!(
            candidates_in("0::/user.slice\n"),
            [("", "/user.slice".into()), ("unified", "/user.slice".into())]
        );
        let hybrid = "5:cpu,cpuacct:/a\n4:memory:/docker/x:y\n0::/u\n";
        assert_eq!(candidates_in(hybrid)[0], ("memory", "/docker/x:y".into()));
        assert!(candidates_in("nonsense").is_empty());
    }
}
