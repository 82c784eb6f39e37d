//! Removing containers of ours, with the anonymous volumes that they made.

use bollard::Docker;
use bollard::query_parameters::RemoveContainerOptionsBuilder;

use super::{connect, fault};
use crate::fault::Result;

/// Removes a container by force. One that is gone, or going, is no failure.
pub(super) async fn remove(docker: &Docker, id: &str) -> Result<()> {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    match docker.remove_container(id, Some(options)).await {
        Ok(()) => Ok(()),
        Err(error) if matches!(fault::status(&error), Some(404 | 409)) => Ok(()),
        Err(error) => Err(fault::explain(&error)),
    }
}

/// The last resort: with a runtime and a connection of its own, as the program's may be gone. Nobody is left to tell of a failure;
/// the labels let the next start find what remains.
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
