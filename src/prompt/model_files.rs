//! Finds a model's files in a local folder, the Hugging Face cache or the hub: its tokenizer, and the files that describe
//! its size (`config.json` and the headers of its weights).

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;

use std::path::{Path, PathBuf};

use futures_util::{StreamExt as _, stream};
use serde_json::Value;

use super::hub::{Hub, ModelId};
use super::{CHAT_TEMPLATE, CONFIG, TOKENIZER, TOKENIZER_CONFIG, python_json};
use crate::fault::{Fault, Result};
use crate::file;
use crate::memory::{Headers, ModelFiles};
use crate::outside::Bounded;

/// Lists the weight files of a model that has several.
const INDEX: &str = "model.safetensors.index.json";
/// The weight file of a model that has only one.
const SINGLE: &str = "model.safetensors";
/// Says how NVIDIA's Model Optimizer quantized the weights.
const OPTIMIZER: &str = "hf_quant_config.json";

/// Reads a model's shape. `name` is a folder with `config.json`, that file itself, or a Hugging Face model id, which is
/// looked up in the cache and then on the hub. Only the headers of weight files are read.
///
/// # Errors
///
/// `missing` with a remedy if there is no such model or it has no `config.json`; `usage` for an unreadable file or an
/// invalid name. Missing headers are only noted in the result.
pub async fn read_model(name: &str, hub: &Hub) -> Result<ModelFiles> {
    let path = Path::new(name);
    if path.is_dir() {
        return read_folder(path);
    }
    if path.is_file() && path.file_name().is_some_and(|file| file == CONFIG) {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        return read_folder(parent.unwrap_or(Path::new(".")));
    }
    if path.exists() {
        return Err(Fault::usage(format!("`{name}` is neither a folder nor a `{CONFIG}`"))
            .hint("name the folder that holds the model's `config.json`"));
    }
    let model = on_hub(name)?
        .map_err(|fault| fault.hint("a model is `org/name` or `org/name@revision`; a folder holds `config.json`"))?;
    if is_path(&model) && hub.cached(&model, CONFIG).is_none() {
        return Err(Fault::usage(format!("there is no folder `{name}`")).hint(
            "check the path; a model of the Hugging Face hub is named `org/name`, such as `openai-community/gpt2`",
        ));
    }
    read_remote(&model, hub).await
}

/// Whether the name probably means a missing folder rather than a model: it has no organisation, or its first part is a
/// local folder or a section of the hub's site.
fn is_path(model: &ModelId) -> bool {
    match model.name.split_once('/') {
        None => true,
        Some((first, _)) => Path::new(first).is_dir() || ["datasets", "models", "spaces"].contains(&first),
    }
}

/// Parses a name that is neither a file nor a folder as the id of a model on the hub, without asking the hub. The outer
/// error means that the name is a path; the inner one, that it is no valid id.
fn on_hub(name: &str) -> Result<Result<ModelId>> {
    if Path::new(name).is_absolute() || name.starts_with(['.', '~']) || name.ends_with(".json") {
        return Err(Fault::missing(
            format!("there is no `{name}`"),
            "check the path; a model of the Hugging Face hub is named `org/name`",
        ));
    }
    Ok(name.parse())
}

/// Maximum size of a file that describes a model. The index of a model of 700 billion parameters has 9 MB.
const MAX_JSON: u64 = 64 << 20;

fn json(path: &Path) -> Result<Value> {
    let bytes = file::read(path, MAX_JSON)?;
    python_json::parse(&bytes).map_err(|error| Fault::usage(format!("`{}` is not JSON: {error}", path.display())))
}

/// Adds the header of a weight file.
fn add_header(headers: &mut Headers, path: &Path) -> Result<()> {
    let io = |error| Fault::io(path, &error);
    let mut file = file::open(path)?;
    let mut start = Bounded::new(file.by_ref().take(8), 8).all().map_err(io)?;
    let named = |fault: Fault| fault.while_doing(format!("`{}`", path.display()));
    let end = Headers::end(&start).map_err(named)?;
    start.extend(Bounded::new(file.take(end - 8), end).all().map_err(io)?);
    headers.add(&start).map_err(named)
}

fn read_folder(folder: &Path) -> Result<ModelFiles> {
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
    let optimizer = folder.join(OPTIMIZER);
    if optimizer.is_file() {
        model_info.quantization = Some(json(&optimizer)?);
    }
    let index = folder.join(INDEX);
    if index.is_file() {
        let index = Index::read(&json(&index)?)?;
        model_info.indexed = index.bytes;
        let files: Vec<PathBuf> = index.files.iter().map(|file| folder.join(file)).collect();
        match files.iter().filter(|file| !file.is_file()).count() {
            0 => model_info.headers = Some(headers(&files)?),
            absent => model_info.notes.push(format!(
                "{absent} of {} weight files are not in the folder: their headers were not read",
                files.len()
            )),
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

/// Total size of the GGUF files, if they belong to one model: a single file, or the parts of one.
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

/// More files than any model has.
const MAX_FILES: usize = 1000;

struct Index {
    /// Names of the files.
    files: BTreeSet<String>,
    /// Bytes of all tensors.
    bytes: Option<u64>,
}

impl Index {
    fn read(json: &Value) -> Result<Self> {
        let unusable = |why: &str| Fault::usage(format!("`model.safetensors.index.json` {why}"));
        let map = json["weight_map"]
            .as_object()
            .ok_or_else(|| unusable("has no `weight_map`"))?;
        let files = map
            .values()
            .map(|file| file.as_str().map(str::to_owned))
            .collect::<Option<BTreeSet<String>>>()
            .ok_or_else(|| unusable("names a file that is not a string"))?;
        // The name becomes part of a path and of a URL.
        if let Some(odd) = files.iter().find(|file| !is_plain(file)) {
            let why = format!("names a file `{odd}`, which is not a plain file name");
            return Err(unusable(&why));
        }
        if files.len() > MAX_FILES {
            let why = format!("names {} files, more than any model has", files.len());
            return Err(unusable(&why));
        }
        Ok(Self {
            files,
            bytes: whole(&json["metadata"]["total_size"]),
        })
    }
}

fn is_plain(file: &str) -> bool {
    file.ends_with(".safetensors")
        && !file.starts_with('.')
        && file
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// An integer, including one written as a float.
fn whole(value: &Value) -> Option<u64> {
    let number = value.as_f64()?;
    (number.fract() == 0.0 && (0.0..9e15).contains(&number)).then_some(number as u64)
}

/// Bytes of the first request; most headers are shorter.
const FIRST_REQUEST: u64 = 256 << 10;
/// Maximum concurrent requests.
const MAX_CONCURRENT: usize = 8;

async fn read_remote(model: &ModelId, hub: &Hub) -> Result<ModelFiles> {
    let mut model_info = ModelFiles {
        config: json(&hub.file(model, CONFIG).await?)?,
        ..ModelFiles::default()
    };
    if model_info.config.get("quantization_config").is_none() {
        let optimizer = hub.optional(model, OPTIMIZER).await?;
        model_info.quantization = optimizer.map(|path| json(&path)).transpose()?;
    }
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
    let mut start = hub.start(model, file, FIRST_REQUEST).await?;
    if let Some(first) = &start {
        let end = Headers::end(first).map_err(named)?;
        if end > first.len() as u64 {
            start = hub.start(model, file, end).await?;
        }
    }
    let added = start.map(|start| headers.add(&start).map(|()| headers)).transpose();
    added.map_err(named)
}

/// The folder or file for [`super::Tokenizer::open`]. `name` is a folder with `tokenizer.json`, the file itself, or a
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
    hub.folder(&on_hub(name)??, TOKENIZER, &[TOKENIZER_CONFIG, CONFIG, CHAT_TEMPLATE])
        .await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_and_bytes_are_read() {
        let index = Index::read(&json!({
            "metadata": {"total_size": 12.0},
            "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors", "c": "model-1.safetensors"},
        }))
        .unwrap();
        assert_eq!((index.files.len(), index.bytes), (2, Some(12)));
    }

    #[test]
    fn a_file_elsewhere_is_refused() {
        for file in [
            "../x.safetensors",
            "/etc/passwd",
            "a/b.safetensors",
            "x.bin",
            ".x.safetensors",
        ] {
            let refused = Index::read(&json!({"weight_map": {"a": file}}));
            assert!(
                refused.err().unwrap().message.contains("not a plain file name"),
                "{file}"
            );
        }
        assert!(Index::read(&json!({"weight_map": {"a": 1}})).is_err());
        assert!(Index::read(&json!([])).is_err());
    }
}
