//! The memory of a cgroup, as the kernel counts it against the limit: what decides whether it kills (Linux,
//! `Documentation/admin-guide/cgroup-v2.rst`, and `cgroup-v1/memory.rst`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::fault::{Fault, Kind, Result};
use crate::telemetry::reading::{Device, Reading, Source};

use super::{Roots, machine_total};

/// Names of the files in one version of the interface.
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

/// Looks at one cgroup. What it holds includes the page cache of files that it read, which the kernel gives up before it kills.
#[derive(Clone, Debug)]
pub struct Cgroup {
    folder: PathBuf,
    files: Files,
    name: String,
    machine: u64,
}

impl Cgroup {
    /// The cgroup that the process `pid` is in.
    ///
    /// # Errors
    ///
    /// `missing` when the process has ended, or its cgroup counts no memory or cannot be seen from here.
    pub fn of_process(pid: u32, roots: &Roots) -> Result<Self> {
        let file = roots.proc.join(pid.to_string()).join("cgroup");
        let text = fs::read_to_string(&file).map_err(|_| {
            Fault::missing(
                format!("process {pid} is not there"),
                "its memory can be read only while it lives",
            )
        })?;
        let candidates = places(&text);
        candidates
            .iter()
            .find_map(|(controller, path)| Self::at(&roots.cgroup.join(controller), path, roots))
            .ok_or_else(|| {
                let paths: Vec<_> = candidates.into_iter().map(|(_, path)| path).collect();
                unseen(&paths.join("`, `"))
            })
    }

    /// The cgroup of this path below the root of the hierarchy, as `docker inspect` or systemd name it.
    ///
    /// # Errors
    ///
    /// `missing` when there is none that counts memory.
    pub fn at_path(path: &str, roots: &Roots) -> Result<Self> {
        ["", "memory"]
            .into_iter()
            .find_map(|controller| Self::at(&roots.cgroup.join(controller), path, roots))
            .ok_or_else(|| unseen(path))
    }

    /// The most it ever held, as the kernel saw it between our looks too; none where the kernel keeps no peak.
    #[must_use]
    pub fn peak(&self) -> Option<u64> {
        number(&self.folder.join(self.files.peak))
    }

    fn at(hierarchy: &Path, path: &str, roots: &Roots) -> Option<Self> {
        // A path with `..` leads out of the part of the hierarchy that this process may see.
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
        // `max`, or with version 1 a number near 2^63, means no limit but the machine's own.
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

/// Controllers' folders and paths that `/proc/PID/cgroup` names, the memory controller of version 1 first: where both
/// versions are mounted, it is the one that counts.
fn places(text: &str) -> Vec<(&'static str, String)> {
    let mut places = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        if controllers.split(',').any(|name| name == "memory") {
            places.insert(0, ("memory", path.to_owned()));
        } else if number == "0" && controllers.is_empty() {
            places.push(("", path.to_owned()));
            places.push(("unified", path.to_owned()));
        }
    }
    places
}

fn unseen(path: &str) -> Fault {
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
    fn either_version_is_found() {
        assert_eq!(
            places("0::/user.slice\n"),
            [("", "/user.slice".into()), ("unified", "/user.slice".into())]
        );
        let hybrid = "5:cpu,cpuacct:/a\n4:memory:/docker/x:y\n0::/u\n";
        assert_eq!(places(hybrid)[0], ("memory", "/docker/x:y".into()));
        assert!(places("nonsense").is_empty());
    }
}
