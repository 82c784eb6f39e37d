//! The text that an engine adds around a prompt: special tokens, and the model's chat template.
//!
//! Chat templates are Jinja for Python's implementation. A template is rendered once, with a single user message, to
//! find the text before and after the message. Engines may add more than the template, such as a default system
//! message. In that case their count decides, see [`super::Calibration`].
//!
//! A template is a program that comes with a model, and one line can request all memory: `{{ s ~ s }}` in a loop. The
//! interpreter limits steps, not bytes. Templates are therefore rendered in a child process, whose memory the kernel
//! limits.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use jiff::fmt::strtime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, context};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::fault::Fault;
use crate::outside::Bounded;
use crate::own_program;

/// A marker that no template contains or changes.
const MESSAGE: &str = "zqmessagezq";
/// Step limit for a template, which is untrusted code and may loop forever.
const FUEL: u64 = 1_000_000;
/// Maximum length of a rendered template.
const LONGEST: usize = 1 << 20;
/// Limits of the child: bytes of data, and seconds of CPU time.
const MEMORY: u64 = 192 << 20;
const SECONDS: u64 = 5;

/// The command of the child.
const CHILD: &str = "render-chat-template";

/// Runs the command `render-chat-template`: renders the template on standard input, which comes with its
/// `tokenizer_config.json`, within the limits.
///
/// # Errors
///
/// `usage` if it was not started by this program.
pub fn render_as_child() -> Result<(), Fault> {
    answer_parent().map_err(|error| Fault::usage(format!("`{CHILD}` is for this program's own use: {error}")))
}

fn answer_parent() -> std::io::Result<()> {
    for (resource, most) in [
        (Resource::RLIMIT_DATA, MEMORY),
        (Resource::RLIMIT_CPU, SECONDS),
        (Resource::RLIMIT_CORE, 0),
    ] {
        setrlimit(resource, most, most)?;
    }
    let (template, config): (String, Value) = serde_json::from_reader(std::io::stdin().lock())?;
    let rendered = render(&template, &config).map_err(|error| explain(&error));
    std::io::stdout().write_all(&serde_json::to_vec(&rendered)?)
}

/// Renders a template in a child.
fn render_in_child(program: &Path, template: &str, config: &Value) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("it cannot be rendered in a process of its own: {error}");
    let mut child = Command::new(program)
        .arg(CHILD)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    // The child reads everything before it writes. One that died is reported by its status.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = serde_json::to_writer(&mut stdin, &(template, config));
    }
    let answer = child
        .stdout
        .take()
        .map(|stdout| Bounded::new(stdout, 8 * LONGEST as u64).all());
    let answer = answer.transpose().map_err(failed)?.unwrap_or_default();
    let status = child.wait().map_err(failed)?;
    let ended_by = |signals: [Signal; 2]| signals.iter().any(|signal| status.signal() == Some(*signal as i32));
    if ended_by([Signal::SIGXCPU, Signal::SIGKILL]) {
        return Err(format!("it takes more than {SECONDS} s to render"));
    }
    if ended_by([Signal::SIGABRT, Signal::SIGSEGV]) {
        return Err(format!("it takes more than {} MiB to render", MEMORY >> 20));
    }
    serde_json::from_slice(&answer).unwrap_or_else(|_| Err(format!("its process ended with {status}")))
}

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
        let rendered = match own_program::get() {
            Some(program) => render_in_child(program, template, config)?,
            // In a test of this module only the number of steps is limited.
            None => render(template, config).map_err(|error| explain(&error))?,
        };
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
pub(super) fn in_config(config: &Value) -> Option<&str> {
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
    let date = jiff::civil::date(2024, 7, 26).at(12, 0, 0, 0);
    // Lenient: a code that it does not know stays as it is.
    let lenient = strtime::Config::new().lenient(true);
    let shown = strtime::BrokenDownTime::from(date).to_string_with_config(&lenient, format);
    shown.unwrap_or_else(|_| format.to_owned())
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
    fn what_is_unknown_of_a_date_stays_as_it_is() {
        assert_eq!(fixed_date("%d %b %Y"), "26 Jul 2024");
        assert_eq!(fixed_date("%Y-%m-%d %Z"), "2024-07-26 %Z");
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
        assert_eq!(in_config(&json!({ "chat_template": "a" })), Some("a"));
        let named = json!({ "chat_template": [{ "name": "tool_use", "template": "t" }, { "name": "default", "template": "d" }] });
        assert_eq!(in_config(&named), Some("d"));
        assert_eq!(in_config(&Value::Null), None);
    }
}
