//! Loads a `tokenizer.json` with the model files in the same folder, and finds the text that an engine adds around a
//! prompt: special tokens and the model's chat template.
//!
//! Chat templates are Jinja for Python's implementation. A template is rendered once, with a single user message, to
//! find the text before and after the message. Engines may add more than the template (a default system message); then
//! their count decides, see [`super::Calibration`].

use std::fs;
use std::path::{Path, PathBuf};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, context};
use serde_json::Value;

use crate::fault::{Fault, Kind, Result};

/// Contains a fast tokenizer.
pub(super) const TOKENIZER: &str = "tokenizer.json";
/// The chat template and the names of the special tokens.
pub(super) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
/// The model's configuration, including its vocabulary size.
pub(super) const CONFIG: &str = "config.json";
/// Newer models keep the chat template in a separate file.
pub(super) const CHAT_TEMPLATE: &str = "chat_template.jinja";

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
            .or_else(|| template(&self.tokenizer_config))
    }
}

/// A tokenizer as engines use it: without truncation and padding, whatever its file says.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    user_wrapper: Result<Wrapper, String>,
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

    /// Loads a tokenizer from file contents.
    pub fn new(files: &Files) -> Result<Self> {
        let unusable = |error| {
            Fault::usage(format!("not a tokenizer that can be used: {error}"))
                .hint("`tokenizer.json` is the format of the Hugging Face tokenizers library; check that the download is whole")
        };
        let mut inner = tokenizers::Tokenizer::from_bytes(&files.tokenizer).map_err(unusable)?;
        inner.with_truncation(None).map_err(unusable)?.with_padding(None);
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

    /// The number of tokens in a text; `special` includes those that the post-processor adds.
    pub fn count(&self, text: &str, special: bool) -> Result<usize> {
        let encoding = self
            .inner
            .encode_fast(text, special)
            .map_err(|error| encoding_error(&error))?;
        Ok(encoding.len())
    }

    /// The token ids of a text.
    pub fn ids(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let encoding = self
            .inner
            .encode_fast(text, special)
            .map_err(|error| encoding_error(&error))?;
        Ok(encoding.get_ids().to_vec())
    }

    pub(super) fn inner(&self) -> &tokenizers::Tokenizer {
        &self.inner
    }

    /// `config.json`, or null.
    pub(super) fn config(&self) -> &Value {
        &self.config
    }

    /// The text around the only user message, or why it is unknown.
    pub(super) fn user_message(&self) -> Result<Wrapper, String> {
        self.user_wrapper.clone()
    }
}

/// The error if the library cannot encode a text, or panicked.
pub(super) fn encoding_error(error: &tokenizers::Error) -> Fault {
    Fault::new(
        Kind::Internal,
        format!("the tokenizer failed to encode a text: {error}"),
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

/// Reads an optional JSON file.
fn json(path: &Path) -> Result<Value> {
    let Some(bytes) = optional(path)? else {
        return Ok(Value::Null);
    };
    serde_json::from_slice(&bytes).map_err(|error| Fault::usage(format!("`{}` is not JSON: {error}", path.display())))
}

/// Reads an optional file.
fn optional(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Fault::io(path, &error)),
    }
}

/// A marker that no template contains or changes.
const MESSAGE: &str = "zqmessagezq";
/// Step limit for a template, which is untrusted code and may loop forever.
const FUEL: u64 = 1_000_000;
/// Maximum length of a rendered template.
const LONGEST: usize = 1 << 20;

/// The text around a prompt when the engine encodes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wrapper {
    pub(super) prefix: String,
    pub(super) suffix: String,
    /// Whether the post-processor adds special tokens; a chat template contains its own.
    pub(super) special: bool,
}

impl Wrapper {
    /// A prompt without a chat template.
    pub(super) fn plain() -> Self {
        Self {
            special: true,
            ..Self::default()
        }
    }

    /// The text around the only user message in this template. `config` is `tokenizer_config.json`, which names the
    /// special tokens. The error says why the template is unusable.
    pub(super) fn user_message(template: &str, config: &Value) -> Result<Self, String> {
        let rendered = render(template, config).map_err(|error| explain(&error))?;
        let mut parts = rendered.split(MESSAGE);
        match (parts.next(), parts.next(), parts.next()) {
            (Some(prefix), Some(suffix), None) => Ok(Self {
                prefix: prefix.to_owned(),
                suffix: suffix.to_owned(),
                special: false,
            }),
            (_, None, _) => Err("it leaves the message out, or changes it".to_owned()),
            _ => Err("it repeats the message".to_owned()),
        }
    }

    /// The full text as the engine encodes it.
    pub(super) fn wrap(&self, text: &str) -> String {
        [&self.prefix, text, &self.suffix].concat()
    }
}

/// The template in `tokenizer_config.json`: a text, or the one named `default` in a list.
pub(super) fn template(config: &Value) -> Option<&str> {
    match &config["chat_template"] {
        Value::String(text) => Some(text),
        Value::Array(named) => named.iter().find(|one| one["name"] == "default")?["template"].as_str(),
        _ => None,
    }
}

/// Renders like the transformers library: blocks trimmed, loop controls, and its two functions.
fn render(template: &str, config: &Value) -> Result<String, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_fuel(Some(FUEL));
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |text: String| -> Result<minijinja::Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, text))
    });
    environment.add_function("strftime_now", |format: &str, _: Kwargs| fixed_date(format));

    let special = |name: &str| match &config[name] {
        Value::String(text) => Some(text.clone()),
        Value::Object(token) => token.get("content").and_then(Value::as_str).map(str::to_owned),
        _ => None,
    };
    let rendered = environment.render_str(
        template,
        context! {
            messages => [context! { role => "user", content => MESSAGE }],
            add_generation_prompt => true,
            bos_token => special("bos_token").unwrap_or_default(),
            eos_token => special("eos_token").unwrap_or_default(),
            unk_token => special("unk_token").unwrap_or_default(),
            pad_token => special("pad_token").unwrap_or_default(),
            tools => (),
            documents => (),
        },
    )?;
    if rendered.len() > LONGEST {
        return Err(Error::new(ErrorKind::InvalidOperation, "its result is too long"));
    }
    Ok(rendered)
}

/// A fixed date in this format. Any date will do, since all have the same length.
fn fixed_date(format: &str) -> String {
    let parts = [
        ("%d", "26"),
        ("%m", "07"),
        ("%Y", "2024"),
        ("%y", "24"),
        ("%b", "Jul"),
        ("%B", "July"),
        ("%a", "Fri"),
        ("%A", "Friday"),
        ("%H", "12"),
        ("%M", "00"),
        ("%S", "00"),
    ];
    parts
        .iter()
        .fold(format.to_owned(), |text, (code, value)| text.replace(code, value))
}

fn explain(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrapper(template: &str) -> Result<Wrapper, String> {
        let config = json!({ "bos_token": "<s>", "eos_token": { "content": "</s>" } });
        Wrapper::user_message(template, &config)
    }

    #[test]
    fn the_text_around_the_message_is_found() {
        let template = "{{ bos_token }}{% for m in messages %}{{ m['role'] }}: {{ m['content'].strip() }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}{{ eos_token }}";
        let wrapper = wrapper(template).unwrap();
        assert_eq!(
            (wrapper.prefix.as_str(), wrapper.suffix.as_str()),
            ("<s>user: ", "\nassistant:</s>")
        );
        assert!(!wrapper.special);
        assert_eq!(wrapper.wrap("x"), "<s>user: x\nassistant:</s>");
    }

    #[test]
    fn real_templates_can_be_rendered() {
        for template in [
            "{% set ns = namespace(found=false) %}{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.content | trim }}{% endfor %}",
            "{%- if not date_string is defined %}{%- set date_string = strftime_now('%d %b %Y') %}{%- endif %}{{ date_string }}{{ messages[0]['content'] }}",
            "{% if messages[0]['role'] == 'system' %}{% set messages = messages[1:] %}{% endif %}{{ messages[-1].content }}",
            "{% macro show(m) %}{{ m.content }}{% endmacro %}{{ show(messages[0]) }}{{ tools | tojson }}",
            "{% if messages | length > 1 %}{{ raise_exception('one only') }}{% endif %}{{ messages[0].content.split('</think>')[-1].lstrip('\n') }}",
            "{% if tools is not none and tools | length > 0 %}x{% endif %}{{ messages[0].content }}",
        ] {
            assert!(wrapper(template).is_ok(), "{template}: {:?}", wrapper(template));
        }
    }

    #[test]
    fn templates_that_cannot_be_used_say_why() {
        for (template, why) in [
            ("{% if", "syntax"),
            ("{{ raise_exception('no users') }}", "no users"),
            ("nothing", "leaves the message out"),
            ("{{ messages[0].content | upper }}", "changes it"),
            ("{{ messages[0].content }}{{ messages[0].content }}", "repeats"),
            (
                "{% for a in range(9999) %}{% for b in range(9999) %}{{ b }}{% endfor %}{% endfor %}",
                "fuel",
            ),
        ] {
            let reason = wrapper(template).unwrap_err();
            assert!(reason.contains(why), "{template}: {reason}");
        }
    }

    #[test]
    fn the_default_template_is_found() {
        assert_eq!(template(&json!({ "chat_template": "a" })), Some("a"));
        let named = json!({ "chat_template": [{ "name": "tool_use", "template": "t" }, { "name": "default", "template": "d" }] });
        assert_eq!(template(&named), Some("d"));
        assert_eq!(template(&Value::Null), None);
    }
}
