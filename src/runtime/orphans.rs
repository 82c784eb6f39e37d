//! Containers left over by runs whose profiler process and its supervisor were killed, found by the label that names
//! their owner.

use serde::Serialize;

use super::docker;
use super::owner::{own_label, owner_is_dead, start_time};
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
    let here = own_label();
    let (_, found) = docker::labelled(&docker::address()?).await?;
    Ok(found
        .into_iter()
        .filter_map(|found| {
            Some(Orphan {
                dead: owner_is_dead(&found.host, &here, start_time)?,
                name: found.name,
                run: found.run,
            })
        })
        .collect())
}

/// Removes the orphans whose owner is dead.
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

/// Removes leftovers of dead runs when a run is resumed. A resumed run may start nothing and would then never sweep.
/// Also, a container that the daemon was still creating when its owner died appears only after the first sweep.
pub async fn sweep_resumed(run: &Run) -> Result<()> {
    match sweep(run).await {
        // Without a daemon there are no containers.
        Err(fault) if fault.kind == Kind::Missing => Ok(()),
        swept => swept,
    }
}
