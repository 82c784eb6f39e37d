//! Finds and removes containers with our labels.

use std::collections::HashMap;

use bollard::Docker;
use bollard::query_parameters::ListContainersOptionsBuilder;

use super::{connect, fault, labels, remove};
use crate::fault::Result;

pub(in crate::runtime) struct LabelledContainer {
    pub(in crate::runtime) id: String,
    pub(in crate::runtime) name: String,
    pub(in crate::runtime) run: String,
    pub(in crate::runtime) host: String,
}

/// All containers with our labels, running or not.
pub(in crate::runtime) async fn find() -> Result<(Docker, Vec<LabelledContainer>)> {
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
        Some(LabelledContainer {
            id: container.id?,
            name: container.names?.first()?.trim_start_matches('/').to_owned(),
            run: marks.remove(labels::RUN)?,
            host: marks.remove(labels::HOST)?,
        })
    });
    let labelled = labelled.collect();
    Ok((docker, labelled))
}

pub(in crate::runtime) async fn remove(docker: &Docker, id: &str) -> Result<()> {
    remove::remove(docker, id).await
}
