//! Containers with our label, and whose they are.

use std::collections::HashMap;

use bollard::Docker;
use bollard::query_parameters::ListContainersOptionsBuilder;

use super::{connect, fault, labels, remove};
use crate::fault::Result;

/// A container with our label.
pub(in crate::runtime) struct Labelled {
    pub(in crate::runtime) id: String,
    pub(in crate::runtime) name: String,
    pub(in crate::runtime) run: String,
    pub(in crate::runtime) host: String,
}

/// Every container that carries our label, running or not.
pub(in crate::runtime) async fn find() -> Result<(Docker, Vec<Labelled>)> {
    let docker = connect().await?;
    let filters: HashMap<&str, Vec<&str>> = [("label", vec![labels::RUN, labels::HOST])].into();
    let options = ListContainersOptionsBuilder::default()
        .all(true)
        .filters(&filters)
        .build();
    let found = docker
        .list_containers(Some(options))
        .await
        .map_err(|error| fault::explain(&error))?;
    let labelled = found.into_iter().filter_map(|container| {
        let mut marks = container.labels?;
        Some(Labelled {
            id: container.id?,
            name: container.names?.first()?.trim_start_matches('/').to_owned(),
            run: marks.remove(labels::RUN)?,
            host: marks.remove(labels::HOST)?,
        })
    });
    let labelled = labelled.collect();
    Ok((docker, labelled))
}

/// Removes one by force.
pub(in crate::runtime) async fn remove(docker: &Docker, id: &str) -> Result<()> {
    remove::remove(docker, id).await
}
