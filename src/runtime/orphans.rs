//! Containers left over by runs whose profiler process and its supervisor were killed, found by a label that names the
//! owner: the profiler process that started them.
//!
//! A pid may be reused, so the owner is compared together with start time, boot, machine and pid namespace.

use std::fs;

use serde::Serialize;

use super::docker;
use crate::fault::{Kind, Result};
use crate::run::Run;
use crate::warning::Warning;

/// A leftover container, with its network, whose owner is dead or cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Orphan {
    /// Name of the container.
    pub name: String,
    /// Id of the run that started it.
    pub run: String,
    /// Whether the owner is certainly dead. If false, it is left alone.
    pub dead: bool,
}

/// Containers whose owner is dead or cannot be checked.
///
/// # Errors
///
/// `missing` if no Docker daemon is reachable.
pub async fn containers() -> Result<Vec<Orphan>> {
    let here = ProcessIdentity::current();
    let (_, found) = docker::labelled().await?;
    Ok(found
        .into_iter()
        .filter_map(|found| {
            Some(Orphan {
                dead: owner_is_dead(&found.host, &here)?,
                name: found.name,
                run: found.run,
            })
        })
        .collect())
}

/// Removes those whose owner is dead.
pub async fn end(orphans: &[Orphan]) -> Result<()> {
    for orphan in orphans.iter().filter(|orphan| orphan.dead) {
        docker::remove(&docker::connect().await?, &orphan.name).await?;
    }
    Ok(())
}

/// Removes leftovers of dead runs before this run starts a container. Emits a warning for each.
pub(super) async fn sweep(run: &Run) -> Result<()> {
    let mut dead = containers().await?;
    dead.retain(|orphan| orphan.dead);
    end(&dead).await?;
    for orphan in dead {
        let message = format!(
            "cleaned up the container `{}` left by the dead run `{}`",
            orphan.name, orphan.run
        );
        run.warn(Warning::new("cleaned_up", message))?;
    }
    Ok(())
}

/// Removes leftovers of dead runs, for a resumed run. A resumed run may start nothing, and so never sweep; and a
/// container that the daemon was still creating when its owner died appears only after the first sweep.
pub async fn sweep_resumed(run: &Run) -> Result<()> {
    match sweep(run).await {
        // No daemon, no containers.
        Err(fault) if fault.kind == Kind::Missing => Ok(()),
        swept => swept,
    }
}

/// None if the owner is alive, or if the label cannot be parsed (then it is not ours).
fn owner_is_dead(encoded: &str, here: &ProcessIdentity) -> Option<bool> {
    match ProcessIdentity::parse(encoded)?.owner_status(here) {
        OwnerStatus::Alive => None,
        OwnerStatus::Dead => Some(true),
        OwnerStatus::Unknown => Some(false),
    }
}

/// A process, unique on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessIdentity {
    pub(super) pid: u32,
    /// Clock ticks from boot to process start (`/proc/PID/stat`, field 22).
    pub(super) start_time: u64,
    pub(super) boot_id: String,
    /// `/etc/machine-id`; empty if there is none.
    pub(super) machine_id: String,
    /// Pid namespace, as in `/proc/self/ns/pid`.
    pub(super) namespace: String,
}

/// State of the process that owns a container or process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerStatus {
    Alive,
    Dead,
    /// Its pids mean nothing here (another machine or pid namespace), so it must be left alone.
    Unknown,
}

impl ProcessIdentity {
    pub(super) fn current() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            start_time: start_time(pid).unwrap_or_default(),
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            machine_id: read("/etc/machine-id"),
            namespace: fs::read_link("/proc/self/ns/pid")
                .map(|link| link.to_string_lossy().into_owned())
                .unwrap_or_default(),
        }
    }

    /// Encodes as `PID:START:BOOT:MACHINE:NAMESPACE`.
    pub(super) fn encode(&self) -> String {
        let namespace: String = self.namespace.chars().filter(char::is_ascii_digit).collect();
        let Self {
            pid,
            start_time,
            boot_id,
            machine_id,
            ..
        } = self;
        format!("{pid}:{start_time}:{boot_id}:{machine_id}:{namespace}")
    }

    /// Parses the result of [`encode`](Self::encode).
    pub(super) fn parse(encoded: &str) -> Option<Self> {
        let mut parts = encoded.split(':');
        let identity = Self {
            pid: parts.next()?.parse().ok()?,
            start_time: parts.next()?.parse().ok()?,
            boot_id: parts.next()?.to_owned(),
            machine_id: parts.next()?.to_owned(),
            namespace: format!("pid:[{}]", parts.next()?),
        };
        parts.next().is_none().then_some(identity)
    }

    /// Whether this process is alive, as seen from `here`.
    pub(super) fn owner_status(&self, here: &Self) -> OwnerStatus {
        self.owner_status_with(here, start_time)
    }

    fn owner_status_with(&self, here: &Self, start_time: impl Fn(u32) -> Option<u64>) -> OwnerStatus {
        if self.machine_id != here.machine_id {
            // A daemon shared between machines: the other machine cleans up its own.
            return OwnerStatus::Unknown;
        }
        if self.boot_id != here.boot_id {
            return OwnerStatus::Dead;
        }
        if self.namespace != here.namespace {
            return OwnerStatus::Unknown;
        }
        if start_time(self.pid) == Some(self.start_time) {
            OwnerStatus::Alive
        } else {
            OwnerStatus::Dead
        }
    }
}

/// Start time in clock ticks since boot. None if there is no such process, or only a zombie.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything, even `)`, so fields are counted from the last one.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then(|| fields.nth(18)?.parse().ok())?
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_identity() -> ProcessIdentity {
        ProcessIdentity {
            pid: 7,
            start_time: 100,
            boot_id: "b".into(),
            machine_id: "m".into(),
            namespace: "pid:[1]".into(),
        }
    }

    #[test]
    fn encoding_round_trips() {
        assert_eq!(
            ProcessIdentity::parse(&ProcessIdentity::current().encode()),
            Some(ProcessIdentity::current())
        );
        assert_eq!(ProcessIdentity::parse("7:x"), None);
    }

    #[test]
    fn this_process_is_alive() {
        assert_eq!(
            ProcessIdentity::current().owner_status(&ProcessIdentity::current()),
            OwnerStatus::Alive
        );
    }

    #[test]
    fn only_the_same_start_on_the_same_boot_is_alive() {
        let here = sample_identity();
        let alive = |_| Some(100);
        assert_eq!(sample_identity().owner_status_with(&here, alive), OwnerStatus::Alive);
        assert_eq!(
            sample_identity().owner_status_with(&here, |_| Some(101)),
            OwnerStatus::Dead,
            "reused number"
        );
        assert_eq!(sample_identity().owner_status_with(&here, |_| None), OwnerStatus::Dead);
        let rebooted = ProcessIdentity {
            boot_id: "c".into(),
            ..sample_identity()
        };
        assert_eq!(rebooted.owner_status_with(&here, alive), OwnerStatus::Dead);
    }

    #[test]
    fn owners_on_other_machines_or_namespaces_are_unknown() {
        let here = sample_identity();
        let contained = ProcessIdentity {
            namespace: "pid:[2]".into(),
            ..sample_identity()
        };
        assert_eq!(contained.owner_status_with(&here, |_| None), OwnerStatus::Unknown);
        let foreign = ProcessIdentity {
            machine_id: "n".into(),
            boot_id: "c".into(),
            ..sample_identity()
        };
        assert_eq!(foreign.owner_status_with(&here, |_| None), OwnerStatus::Unknown);
    }
}
