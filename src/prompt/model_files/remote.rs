//! Reads a model on the hub: small files through its cache, and the first bytes of weights.

use futures_util::StreamExt as _;
use futures_util::stream;

use super::index::Index;
use super::{CONFIG, INDEX, SINGLE, add_header, json};
use crate::fault::{Fault, Result};
use crate::memory::{Headers, ModelFiles};
use crate::prompt::{Hub, ModelId};

/// Bytes of the first request; most headers are shorter.
const FIRST_REQUEST: u64 = 256 << 10;
/// Maximum concurrent requests.
const MAX_CONCURRENT: usize = 8;

pub(super) async fn read_model(model: &ModelId, hub: &Hub) -> Result<ModelFiles> {
    let mut model_info = ModelFiles {
        config: json(&hub.file(model, CONFIG).await?)?,
        ..ModelFiles::default()
    };
    let files: Vec<String> = match hub.optional(model, INDEX).await? {
        None => vec![SINGLE.to_owned()],
        Some(path) => {
            let index = Index::read(&json(&path)?)?;
            model_info.indexed = index.bytes;
            index.files.into_iter().collect()
        }
    };
    let several = files.len() > 1;
    let reads = files.iter().map(|file| header(model, hub, file));
    let read: Vec<Result<Option<Headers>>> = stream::iter(reads).buffered(MAX_CONCURRENT).collect().await;
    match read.into_iter().collect::<Result<Option<Vec<Headers>>>>() {
        Ok(Some(each)) => {
            let tensors = each.into_iter().flat_map(|headers| headers.tensors).collect();
            model_info.headers = Some(Headers { tensors });
        }
        // A model in another format lacks this file; one of several files must exist.
        Ok(None) if several || hub.offline => {
            model_info
                .notes
                .push(format!("some weight headers of `{model}` are not available"));
        }
        Ok(None) => {}
        Err(fault) => model_info
            .notes
            .push(format!("the weight headers of `{model}` were not read: {fault}")),
    }
    Ok(model_info)
}

/// The header of one file, from the cache or the hub; `None` if there is no such file.
async fn header(model: &ModelId, hub: &Hub, file: &str) -> Result<Option<Headers>> {
    let mut headers = Headers::default();
    if let Some(path) = hub.cached(model, file) {
        add_header(&mut headers, &path)?;
        return Ok(Some(headers));
    }
    if hub.offline {
        return Ok(None);
    }
    let named = |fault: Fault| fault.while_doing(format!("`{file}`"));
    let Some(mut start) = hub.start(model, file, FIRST_REQUEST).await? else {
        return Ok(None);
    };
    let end = Headers::end(&start).map_err(named)?;
    if end > start.len() as u64 {
        let Some(longer) = hub.start(model, file, end).await? else {
            return Ok(None);
        };
        start = longer;
    }
    headers.add(&start).map_err(named)?;
    Ok(Some(headers))
}
