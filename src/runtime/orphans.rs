//! Containers and processes left over by runs whose profiler process was killed, found by label or environment
//! variable.

use nix::sys::signal::Signal;
use serde::Serialize;

use super::RuntimeKind;
use super::docker;
use super::identity::{OwnerStatus, ProcessIdentity};
use super::process::{HOST_VARIABLE, RUN_VARIABLE, SERVICE_VARIABLE, tree};
use crate::fault::{Kind, Result};
use crate::run::Run;
use crate::warning::Warning;

/// A leftover container or process whose owner is dead or cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Orphan {
    /// `container` or `process`.
    pub kind: &'static str,
    /// Container name, or pid.
    pub name: String,
    /// Id of the run that started it.
    pub run: String,
    /// Whether the owner is certainly dead. If false, it is left alone.
    pub dead: bool,
    #[serde(skip)]
    handle: Handle,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Handle {
    Container(String),
    Process(u32, Option<u64>),
}

/// Native processes whose owner is dead or cannot be checked.
#[must_use]
pub fn processes() -> Vec<Orphan> {
    let here = ProcessIdentity::current();
    tree::pids()
        .into_iter()
        .filter(|&pid| pid != here.pid)
        .filter_map(|pid| {
            // Read before the environment, so that a reused pid is detected by its start time.
            let start = super::identity::start_time(pid);
            tree::env_variable(pid, SERVICE_VARIABLE)?;
            let dead = owner_is_dead(&tree::env_variable(pid, HOST_VARIABLE)?, &here)?;
            Some(Orphan {
                kind: "process",
                name: pid.to_string(),
                run: tree::env_variable(pid, RUN_VARIABLE)?,
                dead,
                handle: Handle::Process(pid, start),
            })
        })
        .collect()
}

/// Containers whose owner is dead or cannot be checked.
///
/// # Errors
///
/// `missing` if no Docker daemon is reachable.
pub async fn containers() -> Result<Vec<Orphan>> {
    let here = ProcessIdentity::current();
    let (_, found) = docker::labelled_containers().await?;
    Ok(found
        .into_iter()
        .filter_map(|container| {
            Some(Orphan {
                kind: "container",
                dead: owner_is_dead(&container.host, &here)?,
                name: container.name,
                run: container.run,
                handle: Handle::Container(container.id),
            })
        })
        .collect())
}

/// Kills or removes those whose owner is dead; returns their number.
pub async fn end(orphans: &[Orphan]) -> Result<usize> {
    let mut ended = 0;
    for orphan in orphans.iter().filter(|orphan| orphan.dead) {
        match &orphan.handle {
            Handle::Container(id) => {
                let docker = docker::connect().await?;
                docker::remove(&docker, id).await?;
            }
            Handle::Process(pid, start) if super::identity::start_time(*pid) == *start => {
                tree::signal(&[*pid], Signal::SIGKILL);
            }
            Handle::Process(..) => continue,
        }
        ended += 1;
    }
    Ok(ended)
}

/// Removes leftovers of dead runs before this run starts something of that kind. Emits a warning for each.
pub(super) async fn sweep(kind: RuntimeKind, run: &Run) -> Result<()> {
    let found = match kind {
        RuntimeKind::Docker => containers().await?,
        RuntimeKind::Process => processes(),
        RuntimeKind::Attach | RuntimeKind::Sim => return Ok(()),
    };
    let dead: Vec<Orphan> = found.into_iter().filter(|orphan| orphan.dead).collect();
    end(&dead).await?;
    for orphan in dead {
        let message = format!(
            "cleaned up the {} `{}` left by the dead run `{}`",
            orphan.kind, orphan.name, orphan.run
        );
        run.warn(Warning::new("cleaned_up", message))?;
    }
    Ok(())
}

/// Removes leftovers of dead runs of every kind, for a resumed run. A resumed run may start nothing, and so never
/// sweep; and a container that the daemon was still creating when its owner died appears only after the first sweep.
pub async fn sweep_all(run: &Run) -> Result<()> {
    sweep(RuntimeKind::Process, run).await?;
    match sweep(RuntimeKind::Docker, run).await {
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
