//! Checks whether an image is present, and pulls it if not.

use bollard::Docker;

use super::{fault, names, pull};
use crate::fault::{Fault, Kind, Result};
use crate::runtime::StartContext;

pub(super) struct Image {
    /// Reference to start it by.
    pub(super) reference: String,
    /// Registry digest, else the image id; identifies it among images of the same name.
    pub(super) digest: String,
    /// Environment: `NAME=value`.
    pub(super) env: Vec<String>,
}

/// The image; pulls it if it is not present.
pub(super) async fn ensure(docker: &Docker, image: &str, context: &StartContext) -> Result<Image> {
    names::check_image(image)?;
    let reference = names::with_tag(image);
    if let Some(found) = inspect(docker, &reference).await? {
        return Ok(found);
    }
    pull::pull(docker, &reference, context).await?;
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
    names::check_image(image)?;
    let docker = super::connect().await?;
    Ok(inspect(&docker, &names::with_tag(image)).await?.is_some())
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
        Err(error) if fault::status(&error) == Some(404) => Ok(None),
        Err(error) => Err(fault::explain(&error)),
    }
}
