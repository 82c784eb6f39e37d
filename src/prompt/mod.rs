//! Tokenizers, and prompts of exactly N tokens by the engine's count.
//!
//! [`locate`] finds a model's `tokenizer.json` (a folder, the Hugging Face cache, the hub), and [`Prompts`] makes
//! prompts: token ids if the engine accepts them, otherwise text that encodes to exactly N tokens. Prompts differ from
//! their first token on, so no prefix cache can hit. If the engine counts differently, [`Calibration`] learns the
//! difference. [`read_model`] reads the files that describe a model's size.

mod hub;
mod model_files;
mod prompts;
mod python_json;
mod template;
mod text;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

pub use hub::{Hub, ModelId, Secret, tell_waits};
pub use model_files::{locate, read_model};
pub use prompts::{Calibration, Content, MAX_TOKENS, Origin, PromptCache, PromptForm, PromptSpec, Prompts, is_near};
use serde::Deserialize;
use serde_json::Value;
pub use template::render_as_child;
use template::{Wrapper, in_config};

use crate::fault::{Fault, Kind, Result};
use crate::{file, outside};

/// The file of a fast tokenizer.
const TOKENIZER: &str = "tokenizer.json";
/// The file with the chat template and the names of the special tokens.
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
/// The file with the model's configuration, including its vocabulary size.
const CONFIG: &str = "config.json";
/// The separate file in which newer models keep the chat template.
const CHAT_TEMPLATE: &str = "chat_template.jinja";

/// Contents of a tokenizer's files; all but the first are optional.
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
    /// The chat template: a separate file takes precedence over `tokenizer_config.json`.
    fn chat_template(&self) -> Option<&str> {
        self.chat_template
            .as_deref()
            .or_else(|| in_config(&self.tokenizer_config))
    }
}

/// A tokenizer as engines use it: without truncation and padding, whatever its file says.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// The text around the only user message, or why it is unknown.
    user_wrapper: Result<Wrapper, String>,
    /// `config.json`, or null.
    config: Value,
}

impl Tokenizer {
    /// Loads `tokenizer.json` from a file or folder, with `tokenizer_config.json` and `config.json` next to it if they
    /// exist.
    ///
    /// # Errors
    ///
    /// `missing` if there is no such file; `usage` for an unreadable file.
    pub fn open(path: &Path) -> Result<Self> {
        let file = file(path)?;
        let bytes = optional(&file)?.unwrap_or_default();
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

    /// Loads a tokenizer from file contents.
    pub fn new(files: &Files) -> Result<Self> {
        // The library panics on some input that is not JSON.
        let text = str::from_utf8(&files.tokenizer).map_err(|error| unusable(&error))?;
        let checked: Growing = outside::json_within(text.as_bytes(), MAX_VALUES).map_err(|error| unusable(&error))?;
        let growth = growth(&checked.normalizer);
        // Before the library makes values of its own.
        drop(checked);
        if growth > MAX_GROWTH {
            return Err(unusable(&format!(
                "its normalizer makes texts over {MAX_GROWTH} times as long"
            )));
        }
        let mut inner = catch_unwind(|| tokenizers::Tokenizer::from_bytes(&files.tokenizer))
            .map_err(|_| unusable(&PANICKED))?
            .map_err(|error| unusable(&error))?;
        inner
            .with_truncation(None)
            .map_err(|error| unusable(&error))?
            .with_padding(None);
        // The library also loads some tokenizers that panic on every text, such as one whose template names no token.
        let encoded = catch_unwind(AssertUnwindSafe(|| inner.encode_fast("a", true).map(drop)));
        let _or_error = encoded.map_err(|_| unusable(&PANICKED))?;
        let user_wrapper = match files.chat_template() {
            Some(template) => Wrapper::user_message(template, &files.tokenizer_config)
                .map_err(|why| format!("the chat template cannot be used: {why}")),
            None => Err("the tokenizer's files have no chat template".to_owned()),
        };
        Ok(Self {
            inner,
            user_wrapper,
            config: files.config.clone(),
        })
    }

    /// The number of tokens in a text; `special` includes tokens that the post-processor adds.
    pub fn count(&self, text: &str, special: bool) -> Result<usize> {
        Ok(self.call(|inner| inner.encode_fast(text, special))?.len())
    }

    /// The token ids of a text.
    pub fn ids(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let encoding = self.call(|inner| inner.encode_fast(text, special))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Calls the library. It loads some damaged tokenizers and then panics when they encode a text.
    fn call<T>(&self, call: impl FnOnce(&tokenizers::Tokenizer) -> tokenizers::Result<T>) -> Result<T> {
        let failed = |error| Fault::internal(format!("the tokenizer failed to encode a text: {error}"));
        catch_unwind(AssertUnwindSafe(|| call(&self.inner)))
            .map_err(|_| unusable(&PANICKED))?
            .map_err(failed)
    }
}

/// The part of a tokenizer that can make a text longer without end.
#[derive(Deserialize)]
struct Growing {
    #[serde(default)]
    normalizer: Value,
}

/// Most bytes that the values of a tokenizer may take by [`outside::json_within`]: the library keeps more than one copy of
/// them. One of 262,144 tokens and their merges is counted as about 260 MiB.
const MAX_VALUES: usize = 384 << 20;

/// The factor by which a normalizer may lengthen a text. Llama's, which marks each space, reaches nine.
const MAX_GROWTH: f64 = 64.0;

/// The factor by which a normalizer may lengthen a text of at least a word.
fn growth(normalizer: &Value) -> f64 {
    let length = |key: &str| normalizer.pointer(key).and_then(Value::as_str).map_or(0, str::len) as f64;
    match normalizer["type"].as_str() {
        Some("Sequence") => {
            let parts = normalizer["normalizers"].as_array().into_iter().flatten();
            parts.map(growth).product()
        }
        Some("Replace") => (length("/content") / length("/pattern/String").max(1.0)).max(1.0),
        Some("Prepend") => length("/prepend").max(1.0),
        _ => 1.0,
    }
}

const PANICKED: &str = "the tokenizers library panicked";

fn unusable(error: &dyn std::fmt::Display) -> Fault {
    Fault::usage(format!("not a tokenizer that can be used: {error}"))
        .hint("`tokenizer.json` is the format of the Hugging Face tokenizers library; check that the download is whole")
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

/// Reads an optional JSON file.
fn json(path: &Path) -> Result<Value> {
    let Some(bytes) = optional(path)? else {
        return Ok(Value::Null);
    };
    outside::json(&bytes).map_err(|error| Fault::usage(format!("`{}` is not JSON: {error}", path.display())))
}

/// Maximum size of a tokenizer file. The largest one observed has 35 MB, for a vocabulary of 262,144.
const MAX_FILE: u64 = 64 << 20;

/// Reads an optional file.
fn optional(path: &Path) -> Result<Option<Vec<u8>>> {
    let read = path.exists().then(|| file::read(path, MAX_FILE)).transpose();
    read.map_err(|fault| match fault.kind {
        Kind::Limit => fault.hint("check that it is a file of a tokenizer"),
        _ => fault,
    })
}
