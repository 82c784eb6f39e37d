//! Whether an image is here, and getting it when it is not.

use bollard::Docker;

use super::{fault, names, pull};
use crate::fault::{Fault, Kind, Result};
use crate::runtime::StartContext;

/// An image that is here.
pub(super) struct Image {
    /// The reference to start it by.
    pub(super) reference: String,
    /// The digest of its registry where it has one, else its id: what tells it from another of the same name.
    pub(super) digest: String,
    /// Its environment: `NAME=value`.
    pub(super) env: Vec<String>,
}

/// The image, pulled if it is not here.
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
            format!("the image `{reference}` was pulled and is not here"),
        )
    })
}

/// Whether an image is here, so that a start pulls nothing.
///
/// # Errors
///
/// `missing` without a Docker daemon that answers; `usage` for what is no image reference.
pub async fn is_here(image: &str) -> Result<bool> {
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
