//! Finds the tokenizer that a model or tokenizer option names.

use std::path::{Path, PathBuf};

use crate::fault::{Fault, Result};

use super::hub::{Hub, ModelId};
use super::tokenizer::{CHAT_TEMPLATE, CONFIG, TOKENIZER, TOKENIZER_CONFIG};

/// The folder or file for [`super::Prompts::open`]. `name` is a folder with `tokenizer.json`, the file itself, or a
/// Hugging Face model id, which is looked up in the cache or downloaded.
///
/// # Errors
///
/// `missing` with a remedy if there is no tokenizer; `usage` for an invalid name.
pub async fn locate(name: &str, hub: &Hub) -> Result<PathBuf> {
    let path = Path::new(name);
    if path.join(TOKENIZER).is_file() || path.is_file() {
        return Ok(path.to_owned());
    }
    if path.is_dir() {
        return Err(Fault::missing(
            format!("the folder `{name}` has no `{TOKENIZER}`"),
            "name the tokenizer with `tokenizer`: a folder with that file, or a model of the Hugging Face hub",
        ));
    }
    let looks_like_a_path = path.is_absolute() || name.starts_with(['.', '~']) || name.ends_with(".json");
    if looks_like_a_path {
        return Err(Fault::missing(
            format!("there is no `{name}`"),
            "check the path; a model of the Hugging Face hub is named `org/name`",
        ));
    }
    let model: ModelId = name.parse()?;
    hub.folder(&model, TOKENIZER, &[TOKENIZER_CONFIG, CONFIG, CHAT_TEMPLATE])
        .await
}
