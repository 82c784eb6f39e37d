//! A model of the hub: small files through its cache, of weights only the first bytes.

use futures_util::StreamExt as _;
use futures_util::stream;

use super::index::Index;
use super::{CONFIG, INDEX, SINGLE, add_header, json};
use crate::fault::{Fault, Result};
use crate::memory::{Headers, Known};
use crate::prompt::{Hub, ModelId};

/// Bytes asked for at first: most headers are shorter.
const FIRST: u64 = 256 << 10;
/// Files asked for at once.
const AT_ONCE: usize = 8;

/// What the hub tells.
pub(super) async fn known(model: &ModelId, hub: &Hub) -> Result<Known> {
    let mut known = Known {
        config: json(&hub.file(model, CONFIG).await?)?,
        ..Known::default()
    };
    let files: Vec<String> = match hub.optional(model, INDEX).await? {
        None => vec![SINGLE.to_owned()],
        Some(path) => {
            let index = Index::read(&json(&path)?)?;
            known.indexed = index.bytes;
            index.files.into_iter().collect()
        }
    };
    let several = files.len() > 1;
    let reads = files.iter().map(|file| header(model, hub, file));
    let read: Vec<Result<Option<Headers>>> = stream::iter(reads).buffered(AT_ONCE).collect().await;
    match read.into_iter().collect::<Result<Option<Vec<Headers>>>>() {
        Ok(Some(each)) => {
            let tensors = each.into_iter().flat_map(|headers| headers.tensors).collect();
            known.headers = Some(Headers { tensors });
        }
        // A model of another format has no such file; one of several must be there.
        Ok(None) if several || hub.offline => {
            known.notes.push(format!(
                "the headers of the weights of `{model}` were not all to be had"
            ));
        }
        Ok(None) => {}
        Err(fault) => known.notes.push(format!(
            "the headers of the weights of `{model}` were not read: {fault}"
        )),
    }
    Ok(known)
}

/// The header of one file: the cache's where it holds the weights, else the hub's. None where there is no such file.
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
    let Some(mut start) = hub.start(model, file, FIRST).await? else {
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
