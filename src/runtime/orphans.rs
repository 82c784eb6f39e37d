//! What runs of this program left when their host was killed: containers by their labels, processes by their environment.

use nix::sys::signal::Signal;
use serde::Serialize;

use super::RuntimeKind;
use super::docker;
use super::identity::{Identity, Owner};
use super::process::{HOST, RUN, SERVICE, tree};
use crate::fault::{Kind, Result};
use crate::run::Run;

/// Something with our mark whose host is dead, or out of sight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Orphan {
    /// `container` or `process`.
    pub kind: &'static str,
    /// The container's name, or the process's number.
    pub name: String,
    /// The run that it belongs to.
    pub run: String,
    /// False where it cannot be told from here whether its host lives: it is left alone.
    pub dead: bool,
    #[serde(skip)]
    handle: Handle,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Handle {
    Container(String),
    Process(u32, Option<u64>),
}

/// Native processes whose host is dead or out of sight.
#[must_use]
pub fn processes() -> Vec<Orphan> {
    let here = Identity::own();
    tree::all()
        .into_iter()
        .filter(|&pid| pid != here.pid)
        .filter_map(|pid| {
            // Read before the environment: a number reused in between has another start.
            let start = super::identity::start_time(pid);
            tree::variable(pid, SERVICE)?;
            let dead = is_dead(&tree::variable(pid, HOST)?, &here)?;
            Some(Orphan {
                kind: "process",
                name: pid.to_string(),
                run: tree::variable(pid, RUN)?,
                dead,
                handle: Handle::Process(pid, start),
            })
        })
        .collect()
}

/// Containers whose host is dead or out of sight.
///
/// # Errors
///
/// `missing` when no Docker daemon can be asked.
pub async fn containers() -> Result<Vec<Orphan>> {
    let here = Identity::own();
    let (_, found) = docker::find_orphans().await?;
    Ok(found
        .into_iter()
        .filter_map(|container| {
            Some(Orphan {
                kind: "container",
                dead: is_dead(&container.host, &here)?,
                name: container.name,
                run: container.run,
                handle: Handle::Container(container.id),
            })
        })
        .collect())
}

/// Ends those whose host is dead, and gives their number.
pub async fn end(orphans: &[Orphan]) -> Result<usize> {
    let mut ended = 0;
    for orphan in orphans.iter().filter(|orphan| orphan.dead) {
        match &orphan.handle {
            Handle::Container(id) => {
                let docker = docker::connect().await?;
                docker::remove_orphan(&docker, id).await?;
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

/// Ends what dead runs left, before this run starts anything of that kind; a warning tells of it.
pub(super) async fn sweep(kind: RuntimeKind, run: &Run) -> Result<()> {
    let found = match kind {
        RuntimeKind::Docker => containers().await?,
        RuntimeKind::Process => processes(),
        RuntimeKind::Attach | RuntimeKind::Sim => return Ok(()),
    };
    let dead: Vec<Orphan> = found.into_iter().filter(|orphan| orphan.dead).collect();
    end(&dead).await?;
    for orphan in dead {
        run.warn(format!(
            "ended the {} `{}`, which the dead run `{}` had left",
            orphan.kind, orphan.name, orphan.run
        ))?;
    }
    Ok(())
}

/// Ends what dead runs left, of every kind: for a run that was taken up again. It may start nothing, so that no start looks for that;
/// and a container that the daemon was still creating when its host died is there only after the first start has looked.
pub async fn sweep_all(run: &Run) -> Result<()> {
    sweep(RuntimeKind::Process, run).await?;
    match sweep(RuntimeKind::Docker, run).await {
        // Without a daemon there is no container that could be ended.
        Err(fault) if fault.kind == Kind::Missing => Ok(()),
        swept => swept,
    }
}

/// None for what a live run uses. A mark that cannot be read is somebody else's.
fn is_dead(mark: &str, here: &Identity) -> Option<bool> {
    match Identity::parse(mark)?.owner(here) {
        Owner::Alive => None,
        Owner::Dead => Some(true),
        Owner::Elsewhere => Some(false),
    }
}
