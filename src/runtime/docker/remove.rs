//! Removes our containers with their anonymous volumes.

use bollard::Docker;
use bollard::query_parameters::RemoveContainerOptionsBuilder;

use super::{connect, fault};
use crate::fault::Result;

/// Removes a container by force. One that is already gone is not an error.
pub(super) async fn remove(docker: &Docker, id: &str) -> Result<()> {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    match docker.remove_container(id, Some(options)).await {
        Ok(()) => Ok(()),
        Err(error) if matches!(fault::status(&error), Some(404 | 409)) => Ok(()),
        Err(error) => Err(fault::explain(&error)),
    }
}

/// Last resort, with its own async runtime and connection, as the program's may be gone. Failures are ignored; the
/// next start finds what remains by its labels.
pub(in crate::runtime) fn remove_blocking(ids: &[String]) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    runtime.block_on(async {
        if let Ok(docker) = connect().await {
            for id in ids {
                let _ = remove(&docker, id).await;
            }
        }
    });
}
