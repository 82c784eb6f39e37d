//! Checks whether an image is present, and pulls it if not, with progress and a check of disk space.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;

use super::{check_image, daemon, with_tag};
use crate::fault::{Fault, Kind, Result};
use crate::run::Run;
use crate::runtime::{disk_free, phase};

pub(super) struct Image {
    /// Reference to start it by.
    pub(super) reference: String,
    /// Registry digest, else the image id; identifies it among images of the same name.
    pub(super) digest: String,
    /// Environment: `NAME=value`.
    pub(super) env: Vec<String>,
}

/// The image; pulls it if it is not present.
pub(super) async fn ensure(docker: &Docker, image: &str, run: &Run) -> Result<Image> {
    check_image(image)?;
    let reference = with_tag(image);
    if let Some(found) = inspect(docker, &reference).await? {
        return Ok(found);
    }
    pull(docker, &reference, run).await?;
    inspect(docker, &reference).await?.ok_or_else(|| {
        Fault::new(
            Kind::Engine,
            format!("the image `{reference}` is missing although it was pulled"),
        )
    })
}

/// Whether an image is present, so that a start does not pull.
///
/// # Errors
///
/// `missing` without a Docker daemon; `usage` for an invalid image reference.
pub async fn is_present(image: &str) -> Result<bool> {
    check_image(image)?;
    let docker = super::connect().await?;
    Ok(inspect(&docker, &with_tag(image)).await?.is_some())
}

async fn inspect(docker: &Docker, reference: &str) -> Result<Option<Image>> {
    match docker.inspect_image(reference).await {
        Ok(found) => Ok(Some(Image {
            reference: reference.to_owned(),
            env: found.config.and_then(|config| config.env).unwrap_or_default(),
            digest: found
                .repo_digests
                .unwrap_or_default()
                .into_iter()
                .next()
                .or(found.id)
                .unwrap_or_default(),
        })),
        Err(error) if daemon::status(&error) == Some(404) => Ok(None),
        Err(error) => Err(daemon::explain(&error)),
    }
}

/// Less than this cannot hold even the smallest engine image (llama.cpp's CPU server, unpacked).
const MIN_FREE_BYTES: u64 = 256 << 20;
/// Progress is reported at most this often.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

async fn pull(docker: &Docker, reference: &str, run: &Run) -> Result<()> {
    let info = docker.info().await.map_err(|error| daemon::explain(&error))?;
    let root = info.docker_root_dir.unwrap_or_default();
    let disk = DiskCheck { root: &root, reference };
    disk.check(MIN_FREE_BYTES)?;
    phase(run, "pulling", reference)?;
    let options = CreateImageOptionsBuilder::default().from_image(reference).build();
    let mut answers = std::pin::pin!(docker.create_image(Some(options), None, None));
    let mut layers = Layers::default();
    let mut last_report = Instant::now();
    while let Some(answer) = answers.next().await {
        let info = answer.map_err(|error| cannot_pull(reference, &daemon::explain(&error)))?;
        layers.update(&info);
        disk.check(layers.remaining_bytes())?;
        if last_report.elapsed() >= PROGRESS_INTERVAL {
            last_report = Instant::now();
            phase(run, "pulling", &format!("{reference}: {}", layers.progress()))?;
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

    /// Bytes left to download. Unpacked they are larger, so with less free space the disk will certainly fill up.
    fn remaining_bytes(&self) -> u64 {
        self.sizes
            .values()
            .map(|(done, total)| total.saturating_sub(*done))
            .sum()
    }

    fn progress(&self) -> String {
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let total = self.sizes.values().map(|(_, total)| total).sum();
        format!("{:.2} of {:.2} GiB", gib(total - self.remaining_bytes()), gib(total))
    }
}

/// Checks free space where images are stored, if that is visible from here.
struct DiskCheck<'a> {
    root: &'a str,
    reference: &'a str,
}

impl DiskCheck<'_> {
    fn check(&self, needed: u64) -> Result<()> {
        match disk_free(Path::new(self.root)) {
            Some(free) if free < needed => Err(Fault::missing(
                format!(
                    "the disk of `{}` has {} MiB left; the image `{}` needs at least {} MiB",
                    self.root,
                    free >> 20,
                    self.reference,
                    needed >> 20
                ),
                "free disk space (`docker system df`, `docker system prune`)",
            )),
            _ => Ok(()),
        }
    }
}

/// A full disk is reported as such; any other failure as an unavailable image.
fn cannot_pull(reference: &str, cause: &Fault) -> Fault {
    if cause.kind == Kind::Missing && cause.hint.as_deref().is_some_and(|hint| hint.contains("disk space")) {
        return cause.clone().while_doing(format!("cannot pull `{reference}`"));
    }
    Fault::missing(
        format!(
            "the image `{reference}` is not present and cannot be pulled: {}",
            cause.message
        ),
        format!(
            "try `docker pull {reference}` (it uses your registry login), load it with `docker load`, or name another with `--set image=…`"
        ),
    )
}

#[cfg(test)]
mod tests {
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
