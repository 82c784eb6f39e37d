//! Finds the files that describe a model's size: its `config.json`, and the headers of its weights if available.

mod folder;
mod index;
mod remote;

use std::fs;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::hub::{Hub, ModelId};
use super::tokenizer::CONFIG;
use crate::fault::{Fault, Result};
use crate::memory::{Headers, ModelFiles};

/// Lists the weight files of a model that has several.
const INDEX: &str = "model.safetensors.index.json";
/// The weight file of a model that has only one.
const SINGLE: &str = "model.safetensors";

/// Reads a model's shape. `name` is a folder with `config.json`, that file itself, or a Hugging Face model id, which is
/// looked up in the cache and then on the hub. Of weights only the headers are read.
///
/// # Errors
///
/// `missing` with a remedy if there is no such model or it has no `config.json`; `usage` for an unreadable file or an
/// invalid name. Missing headers are only noted in the result.
pub async fn read_model(name: &str, hub: &Hub) -> Result<ModelFiles> {
    let path = Path::new(name);
    if path.is_dir() {
        return folder::read_model(path);
    }
    if path.is_file() && path.file_name().is_some_and(|file| file == CONFIG) {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        return folder::read_model(parent.unwrap_or(Path::new(".")));
    }
    if path.exists() {
        return Err(Fault::usage(format!("`{name}` is neither a folder nor a `{CONFIG}`"))
            .hint("name the folder that holds the model's `config.json`"));
    }
    if path.is_absolute() || name.starts_with(['.', '~']) || name.ends_with(".json") {
        return Err(Fault::missing(
            format!("there is no `{name}`"),
            "check the path; a model of the Hugging Face hub is named `org/name`",
        ));
    }
    let model: ModelId = name.parse().map_err(|fault: Fault| {
        fault.hint("a model is `org/name` or `org/name@revision`; a folder holds `config.json`")
    })?;
    remote::read_model(&model, hub).await
}

fn json(path: &Path) -> Result<Value> {
    let bytes = fs::read(path).map_err(|error| Fault::io(path, &error))?;
    serde_json::from_slice(&bytes).map_err(|error| Fault::usage(format!("`{}` is not JSON: {error}", path.display())))
}

/// Adds the header of a weight file.
fn add_header(headers: &mut Headers, path: &Path) -> Result<()> {
    let io = |error| Fault::io(path, &error);
    let mut file = fs::File::open(path).map_err(io)?;
    let mut start = Vec::new();
    file.by_ref().take(8).read_to_end(&mut start).map_err(io)?;
    let named = |fault: Fault| fault.while_doing(format!("`{}`", path.display()));
    let end = Headers::end(&start).map_err(named)?;
    file.take(end - 8).read_to_end(&mut start).map_err(io)?;
    headers.add(&start).map_err(named)
}
