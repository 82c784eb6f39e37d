//! Docker containers. Only containers with our labels are stopped or removed.

mod container;
mod daemon;
mod inside;
mod start;

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::{
    CreateImageOptionsBuilder, ListContainersOptionsBuilder, ListNetworksOptionsBuilder, ListVolumesOptionsBuilder,
    RemoveVolumeOptions,
};
pub(super) use container::{Container, ContainerRegistry, remove, remove_all_blocking, remove_blocking};
pub use daemon::{DockerInfo, info};
pub(super) use daemon::{connect, explain};
use futures_util::StreamExt;
pub(super) use inside::{Inside, Place, start as start_inside};
pub(super) use start::{follow, prepare};

use super::owner;
use crate::fault::{Fault, Kind, Result};
use crate::fmt::GIB;
use crate::run::EnginePhase;
use crate::run::Run;
use crate::runtime::{disk_free, phase};

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

/// All containers, running or not, and all networks with our labels.
pub(in crate::runtime) async fn labelled() -> Result<(Docker, Vec<Labelled>)> {
    let docker = connect().await?;
    let filters: HashMap<&str, Vec<&str>> = [("label", vec![RUN_LABEL, HOST_LABEL])].into();
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters);
    let containers = docker
        .list_containers(Some(options.build()))
        .await
        .map_err(daemon::explain)?
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
            Some(Labelled {
                name: name.trim_start_matches('/').to_owned(),
                run: labels.remove(RUN_LABEL)?,
                host: labels.remove(HOST_LABEL)?,
            })
        })
        .collect();
    // A container and its network have the same name.
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found.dedup_by(|one, other| one.name == other.name);
    Ok((docker, found))
}

struct Image {
    /// The reference to start it by.
    reference: String,
    /// Registry digest, else the image id; identifies it among images of the same name.
    digest: String,
    /// Environment: `NAME=value`.
    env: Vec<String>,
}

/// Returns the image, and pulls it if it is not present.
async fn ensure(docker: &Docker, image: &str, run: &Run) -> Result<Image> {
    check_image(image)?;
    let reference = with_tag(image);
    if let Some(found) = inspect(docker, &reference).await? {
        return Ok(found);
    }
    pull(docker, &reference, run).await?;
    let message = || format!("the image `{reference}` is missing although it was pulled");
    let pulled = inspect(docker, &reference).await?;
    pulled.ok_or_else(|| Fault::new(Kind::Engine, message()))
}

/// Whether an image is present, so that a start does not pull.
///
/// # Errors
///
/// `missing` without a Docker daemon; `usage` for an invalid image reference.
pub async fn is_present(image: &str) -> Result<bool> {
    check_image(image)?;
    let docker = connect().await?;
    Ok(inspect(&docker, &with_tag(image)).await?.is_some())
}

async fn inspect(docker: &Docker, reference: &str) -> Result<Option<Image>> {
    match docker.inspect_image(reference).await {
        Ok(found) => {
            let digest = found.repo_digests.into_iter().flatten().next().or(found.id);
            Ok(Some(Image {
                reference: reference.to_owned(),
                env: found.config.and_then(|config| config.env).unwrap_or_default(),
                digest: digest.unwrap_or_default(),
            }))
        }
        Err(error) if daemon::status(&error) == Some(404) => Ok(None),
        Err(error) => Err(daemon::explain(error)),
    }
}

/// Less space than this cannot hold even the smallest engine image (llama.cpp's CPU server, unpacked).
const MIN_FREE_BYTES: u64 = 256 << 20;
/// Progress is reported at most this often.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

async fn pull(docker: &Docker, reference: &str, run: &Run) -> Result<()> {
    let info = docker.info().await.map_err(daemon::explain)?;
    let root = info.docker_root_dir.unwrap_or_default();
    let check = |needed: u64| match disk_free(Path::new(&root)) {
        Some(free) if free < needed => Err(Fault::missing(
            format!(
                "the disk of `{root}` has {} MiB left; the image `{reference}` needs at least {} MiB",
                free >> 20,
                needed >> 20
            ),
            "free disk space (`docker system df`, `docker system prune`)",
        )),
        _ => Ok(()),
    };
    check(MIN_FREE_BYTES)?;
    phase(run, EnginePhase::Pulling, reference)?;
    let options = CreateImageOptionsBuilder::default().from_image(reference).build();
    let mut answers = std::pin::pin!(docker.create_image(Some(options), None, None));
    let mut layers = Layers::default();
    let mut last_report = Instant::now();
    while let Some(answer) = answers.next().await {
        let info = answer.map_err(|error| cannot_pull(reference, daemon::explain(error)))?;
        layers.update(&info);
        check(layers.remaining_bytes())?;
        if last_report.elapsed() >= PROGRESS_INTERVAL {
            last_report = Instant::now();
            phase(
                run,
                EnginePhase::Pulling,
                &format!("{reference}: {}", layers.progress()),
            )?;
        }
    }
    Ok(())
}

/// Compressed bytes (downloaded, total) by layer.
#[derive(Default)]
struct Layers {
    sizes: HashMap<String, (u64, u64)>,
}

impl Layers {
    fn update(&mut self, info: &CreateImageInfo) {
        let (Some(id), Some("Downloading" | "Download complete")) = (&info.id, info.status.as_deref()) else {
            return;
        };
        let layer = self.sizes.entry(id.clone()).or_default();
        match &info.progress_detail {
            Some(detail) if detail.total.is_some() => {
                let bytes = |value: Option<i64>| u64::try_from(value.unwrap_or_default()).unwrap_or_default();
                *layer = (bytes(detail.current), bytes(detail.total));
            }
            _ => layer.0 = layer.1,
        }
    }

    /// Bytes left to download. Layers are larger when unpacked, so with less free space the disk will certainly fill
    /// up.
    fn remaining_bytes(&self) -> u64 {
        let left = |(done, total): &(u64, u64)| total.saturating_sub(*done);
        self.sizes.values().map(left).sum()
    }

    fn progress(&self) -> String {
        let gib = |bytes: u64| bytes as f64 / GIB;
        let total = self.sizes.values().map(|(_, total)| total).sum();
        format!("{:.2} of {:.2} GiB", gib(total - self.remaining_bytes()), gib(total))
    }
}

/// The fault of a failed pull: a full disk is reported as such, any other failure as an unavailable image.
fn cannot_pull(reference: &str, cause: Fault) -> Fault {
    if cause.kind == Kind::Missing && cause.hint.as_deref().is_some_and(|hint| hint.contains("disk space")) {
        return cause.while_doing(format!("cannot pull `{reference}`"));
    }
    let why = cause.message;
    Fault::missing(
        format!("the image `{reference}` is not present and cannot be pulled: {why}"),
        format!(
            "try `docker pull {reference}` (it uses your registry login), load it with `docker load`, or name another with `--image …`"
        ),
    )
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

#[cfg(test)]
mod image_tests {
    use bollard::models::ProgressDetail;

    use super::*;

    fn info(id: &str, status: &str, current: i64, total: i64) -> CreateImageInfo {
        CreateImageInfo {
            id: Some(id.into()),
            status: Some(status.into()),
            progress_detail: Some(ProgressDetail {
                current: Some(current),
                total: Some(total),
            }),
            ..CreateImageInfo::default()
        }
    }

    #[test]
    fn remaining_bytes_count_downloads_only() {
        let mut layers = Layers::default();
        layers.update(&info("a", "Downloading", 10, 100));
        layers.update(&info("b", "Downloading", 0, 50));
        layers.update(&info("b", "Extracting", 10, 900));
        assert_eq!(layers.remaining_bytes(), 140);
        layers.update(&CreateImageInfo {
            id: Some("a".into()),
            status: Some("Download complete".into()),
            ..CreateImageInfo::default()
        });
        assert_eq!(layers.remaining_bytes(), 50);
    }
}
