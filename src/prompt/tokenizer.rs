//! A loaded `tokenizer.json`, and what the files beside it say of the model.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::fault::{Fault, Kind, Result};

use super::chat::{self, Around};

/// The file that every fast tokenizer is kept in.
pub(super) const TOKENIZER: &str = "tokenizer.json";
/// The chat template and the names of the special tokens.
pub(super) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
/// The model's shape: how many ids it knows.
pub(super) const CONFIG: &str = "config.json";
/// Newer models keep the chat template in a file of its own.
pub(super) const CHAT_TEMPLATE: &str = "chat_template.jinja";

/// What the files of a tokenizer hold; of all but the first, nothing where there is none.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// `tokenizer.json`.
    pub tokenizer: Vec<u8>,
    /// `tokenizer_config.json`.
    pub tokenizer_config: Value,
    /// `config.json`.
    pub config: Value,
    /// `chat_template.jinja`.
    pub chat_template: Option<String>,
}

impl Files {
    /// The chat template: a file of its own goes before what `tokenizer_config.json` has.
    fn chat_template(&self) -> Option<&str> {
        self.chat_template
            .as_deref()
            .or_else(|| chat::template(&self.tokenizer_config))
    }
}

/// A tokenizer as the engines use it: without truncation or padding, whatever its file says.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    around_message: Result<Around, String>,
    config: Value,
}

impl Tokenizer {
    /// Loads `tokenizer.json` from a file, or from a folder; `tokenizer_config.json` and `config.json` beside it are used where they are.
    ///
    /// # Errors
    ///
    /// `missing` when there is no such file; `usage` when a file cannot be understood.
    pub fn open(path: &Path) -> Result<Self> {
        let file = file(path)?;
        let bytes = fs::read(&file).map_err(|error| Fault::io(&file, &error))?;
        let folder = file.parent().unwrap_or(Path::new(""));
        Self::new(&Files {
            tokenizer: bytes,
            tokenizer_config: json(&folder.join(TOKENIZER_CONFIG))?,
            config: json(&folder.join(CONFIG))?,
            chat_template: optional(&folder.join(CHAT_TEMPLATE))?
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        })
        .map_err(|fault| fault.while_doing(format!("`{}`", file.display())))
    }

    /// The tokenizer of these files.
    pub fn new(files: &Files) -> Result<Self> {
        let unusable = |error| {
            Fault::usage(format!("not a tokenizer that can be used: {error}"))
                .hint("`tokenizer.json` is the format of the Hugging Face tokenizers library; check that the download is whole")
        };
        let mut inner = tokenizers::Tokenizer::from_bytes(&files.tokenizer).map_err(unusable)?;
        inner.with_truncation(None).map_err(unusable)?.with_padding(None);
        let around_message = match files.chat_template() {
            Some(template) => Around::user_message(template, &files.tokenizer_config)
                .map_err(|why| format!("the chat template cannot be used: {why}")),
            None => Err("the tokenizer's files have no chat template".to_owned()),
        };
        Ok(Self {
            inner,
            around_message,
            config: files.config.clone(),
        })
    }

    /// How many tokens a text becomes; with `special`, what the post-processor adds counts.
    pub fn count(&self, text: &str, special: bool) -> Result<usize> {
        let encoding = self
            .inner
            .encode_fast(text, special)
            .map_err(|error| not_encodable(&error))?;
        Ok(encoding.len())
    }

    /// The ids that a text becomes.
    pub fn ids(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let encoding = self
            .inner
            .encode_fast(text, special)
            .map_err(|error| not_encodable(&error))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The library's own tokenizer.
    pub(super) fn inner(&self) -> &tokenizers::Tokenizer {
        &self.inner
    }

    /// `config.json`, or null.
    pub(super) fn config(&self) -> &Value {
        &self.config
    }

    /// What stands around the only message of a user, or why that is unknown.
    pub(super) fn user_message(&self) -> Result<Around, String> {
        self.around_message.clone()
    }
}

/// An error of the library while encoding, or a panic that it turned into one.
pub(super) fn not_encodable(error: &tokenizers::Error) -> Fault {
    Fault::new(
        Kind::Internal,
        format!("the tokenizer cannot encode its own text: {error}"),
    )
}

fn file(path: &Path) -> Result<PathBuf> {
    let file = if path.is_dir() {
        path.join(TOKENIZER)
    } else {
        path.to_owned()
    };
    if file.is_file() {
        return Ok(file);
    }
    Err(Fault::missing(
        format!("no tokenizer at `{}`", file.display()),
        "give a folder with `tokenizer.json`, the file itself, or a model id of the Hugging Face hub as `tokenizer`",
    ))
}

/// A JSON file that need not be there.
fn json(path: &Path) -> Result<Value> {
    let Some(bytes) = optional(path)? else {
        return Ok(Value::Null);
    };
    serde_json::from_slice(&bytes).map_err(|error| Fault::usage(format!("`{}` is not JSON: {error}", path.display())))
}

/// A file that need not be there.
fn optional(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Fault::io(path, &error)),
    }
}
