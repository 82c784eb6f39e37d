//! Docker containers. Only containers with our labels and a name of ours are stopped or removed: an image can have the
//! labels too.

mod container;
mod daemon;
mod endpoint;
mod gpus;
mod inside;
mod log;
mod network;
mod pull;
mod registry;
mod start;

use std::collections::HashMap;

use bollard::Docker;
use bollard::query_parameters::{
    ListContainersOptionsBuilder, ListNetworksOptionsBuilder, ListVolumesOptionsBuilder, RemoveVolumeOptions,
};
pub(super) use container::{Container, ContainerRegistry, remove, remove_all_blocking, remove_blocking};
use daemon::Listed;
pub use daemon::{DockerInfo, info};
pub(super) use daemon::{connect, explain};
pub(super) use endpoint::{address, usual_sockets};
pub use gpus::{GpuAccess, gpu_access};
pub(super) use inside::{Inside, Place, start as start_inside};
pub use pull::is_present;
pub(super) use start::prepare;

use super::owner;
use crate::fault::{Fault, Result};

/// Run id.
const RUN_LABEL: &str = "profiler.run";
/// Host process; see `owner::own_label`.
const HOST_LABEL: &str = "profiler.host";

/// Labels of a container of this run. The pid is also a label of its own, for people and other tools.
fn labels(run: &str) -> HashMap<String, String> {
    [
        (RUN_LABEL, run.to_owned()),
        (HOST_LABEL, owner::own_label()),
        ("profiler.pid", std::process::id().to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// The name of a container of a run, unique on this machine: `profiler-<run>-<pid>-engine-1`.
fn container_name(run: &str, pid: &str, name: &str) -> String {
    let run: String = run.chars().take(100).collect();
    let run = run.replace(
        |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')),
        "-",
    );
    format!("profiler-{run}-{pid}-{name}")
}

/// Prefix of the names of volumes that hold downloaded models.
const MODEL_VOLUME: &str = "profiler-models--";

/// The volumes that hold models downloaded by containers.
///
/// # Errors
///
/// `missing` if no Docker daemon is reachable.
pub async fn model_volumes() -> Result<Vec<String>> {
    // The daemon's filter matches anywhere in the volume's name.
    let filters: HashMap<&str, Vec<&str>> = [("name", vec![MODEL_VOLUME])].into();
    let options = ListVolumesOptionsBuilder::default().filters(&filters).build();
    let listed = connect().await?.list_volumes(Some(options)).await;
    let volumes = listed.map_err(daemon::explain)?.volumes.unwrap_or_default();
    let mut names: Vec<String> = volumes
        .into_iter()
        .map(|volume| volume.name)
        .filter(|name| name.starts_with(MODEL_VOLUME))
        .collect();
    names.sort();
    Ok(names)
}

/// Removes volumes.
///
/// # Errors
///
/// `missing` if no Docker daemon is reachable; `engine` if a container uses a volume.
pub async fn remove_model_volumes(names: &[String]) -> Result<()> {
    let docker = connect().await?;
    for name in names {
        let removed = docker.remove_volume(name, None::<RemoveVolumeOptions>).await;
        removed.map_err(daemon::explain)?;
    }
    Ok(())
}

/// Checks a container name or id.
pub(in crate::runtime) fn check_container(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(allowed) {
        return Ok(());
    }
    Err(Fault::usage(format!("`{name}` is not a valid container name")))
}

/// Checks an image reference: `ghcr.io/me/engine:1`, `engine@sha256:…`.
fn check_image(image: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ':' | '@');
    let whole = image.starts_with(|c: char| c.is_ascii_alphanumeric()) && image.chars().all(allowed);
    if whole && !image.contains("..") && !image.contains("//") {
        return Ok(());
    }
    Err(Fault::usage(format!("`{image}` is not a valid image reference")))
}

/// Adds the default tag `latest`; without a tag, a pull would fetch every tag.
fn with_tag(image: &str) -> String {
    if image.rsplit('/').next().unwrap_or(image).contains([':', '@']) {
        image.to_owned()
    } else {
        format!("{image}:latest")
    }
}

/// A container, its network, or both, with our labels.
pub(in crate::runtime) struct Labelled {
    pub(in crate::runtime) name: String,
    pub(in crate::runtime) run: String,
    pub(in crate::runtime) host: String,
}

/// All containers, running or not, and all networks with our labels and names, at the daemon with this address. Labels
/// alone do not show that a run made it: a container also has those of its image.
pub(in crate::runtime) async fn labelled(address: &str) -> Result<(Docker, Vec<Labelled>)> {
    let docker = daemon::connect_to(address).await?;
    let filters: HashMap<&str, Vec<&str>> =
        [("label", vec![RUN_LABEL, HOST_LABEL]), ("name", vec!["profiler-"])].into();
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters);
    let listed: Vec<Listed> = match docker.list_containers(Some(options.build())).await {
        Ok(listed) => listed.into_iter().map(Listed::from).collect(),
        Err(error) if daemon::is_between_states(&error) => daemon::list_in_any_state(address, &filters).await?,
        Err(error) => return Err(daemon::explain(error)),
    };
    let containers = listed
        .into_iter()
        .filter_map(|container| Some((container.names?.into_iter().next()?, container.labels?)));
    let options = ListNetworksOptionsBuilder::default().filters(&filters);
    let networks = docker
        .list_networks(Some(options.build()))
        .await
        .map_err(daemon::explain)?
        .into_iter()
        .filter_map(|network| Some((network.name?, network.labels?)));
    let mut found: Vec<Labelled> = containers
        .chain(networks)
        .filter_map(|(name, mut labels)| {
            let name = name.trim_start_matches('/').to_owned();
            let (run, host) = (labels.remove(RUN_LABEL)?, labels.remove(HOST_LABEL)?);
            let ours = container_name(&run, host.split(':').next()?, "");
            name.starts_with(&ours).then_some(Labelled { name, run, host })
        })
        .collect();
    // A container and its network have the same name.
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found.dedup_by(|one, other| one.name == other.name);
    Ok((docker, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_address_another_route() {
        for bad in ["", "../images", "a/b", "a?x=1", "a#b", "-a", "a b", "a%2f"] {
            assert!(check_container(bad).is_err(), "{bad}");
        }
        for bad in ["", "../x", "a/../b", "a?b", "/a", "a//b", "a b"] {
            assert!(check_image(bad).is_err(), "{bad}");
        }
        assert!(check_container("my-engine_1.2").is_ok());
        assert!(check_image("localhost:5000/me/engine:1.2@sha256:abc").is_ok());
    }

    #[test]
    fn the_tag_is_latest_where_none_is_written() {
        assert_eq!(with_tag("localhost:5000/engine"), "localhost:5000/engine:latest");
        assert_eq!(with_tag("engine:1"), "engine:1");
        assert_eq!(with_tag("me/engine@sha256:abc"), "me/engine@sha256:abc");
    }
}
