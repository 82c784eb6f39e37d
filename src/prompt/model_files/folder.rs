//! Reads a model in a local folder.

use std::fs;
use std::path::{Path, PathBuf};

use super::index::Index;
use super::{CONFIG, INDEX, SINGLE, add_header, json};
use crate::fault::{Fault, Result};
use crate::memory::{Headers, ModelFiles};

pub(super) fn read_model(folder: &Path) -> Result<ModelFiles> {
    let config = folder.join(CONFIG);
    if !config.is_file() {
        return Err(Fault::missing(
            format!("the folder `{}` has no `{CONFIG}`", folder.display()),
            "name a folder that holds the model's `config.json`, or a model of the Hugging Face hub",
        ));
    }
    let mut model_info = ModelFiles {
        config: json(&config)?,
        ..ModelFiles::default()
    };
    let index = folder.join(INDEX);
    if index.is_file() {
        let index = Index::read(&json(&index)?)?;
        model_info.indexed = index.bytes;
        let (there, absent): (Vec<_>, Vec<_>) = index.files.iter().partition(|file| folder.join(file).is_file());
        if absent.is_empty() {
            model_info.headers = Some(headers(
                &there.iter().map(|file| folder.join(file)).collect::<Vec<_>>(),
            )?);
        } else {
            model_info.notes.push(format!(
                "{} of {} weight files are not in the folder: their headers were not read",
                absent.len(),
                index.files.len()
            ));
        }
    } else if folder.join(SINGLE).is_file() {
        model_info.headers = Some(headers(&[folder.join(SINGLE)])?);
    } else {
        gguf(folder, &mut model_info)?;
    }
    Ok(model_info)
}

fn headers(files: &[PathBuf]) -> Result<Headers> {
    let mut headers = Headers::default();
    for file in files {
        add_header(&mut headers, file)?;
    }
    Ok(headers)
}

/// Total size of the GGUF files, if they belong to one model: one file, or the parts of one.
fn gguf(folder: &Path, model_info: &mut ModelFiles) -> Result<()> {
    let io = |error| Fault::io(folder, &error);
    let mut sizes = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".gguf") {
            // Cached files are links.
            let size = fs::metadata(entry.path())
                .map_err(|error| Fault::io(&entry.path(), &error))?
                .len();
            sizes.push((name, size));
        }
    }
    let parts = sizes.iter().all(|(name, _)| name.contains("-of-"));
    match sizes.len() {
        0 => {}
        many if many == 1 || parts => model_info.gguf = Some(sizes.iter().map(|(_, size)| size).sum()),
        many => model_info.notes.push(format!(
            "the folder holds {many} GGUF files of different models: their sizes were not used"
        )),
    }
    Ok(())
}
