//! What an engine puts around a text: special tokens, and the model's chat template.
//!
//! Chat templates are Jinja, written for Python's implementation. One is rendered a single time, with one user message, to see
//! what stands before and after the message. Engines may do more than the template says (a default system message): then
//! their own count decides, see [`super::Calibration`].

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, Value, context};
use serde_json::Value as Json;

/// A message that no template contains or changes.
const MESSAGE: &str = "zqmessagezq";
/// Steps that a template may take: a template is a stranger's code, and may loop for ever.
const FUEL: u64 = 1_000_000;
/// A longer result is not a chat template's.
const LONGEST: usize = 1 << 20;

/// What stands around a text when the engine encodes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Around {
    /// Text before.
    pub(super) before: String,
    /// Text after.
    pub(super) after: String,
    /// Whether the post-processor adds its special tokens too: a chat template writes its own.
    pub(super) special: bool,
}

impl Around {
    /// A text of its own.
    pub(super) fn nothing() -> Self {
        Self {
            special: true,
            ..Self::default()
        }
    }

    /// The content of the only user message of this template; `config` is `tokenizer_config.json`, which names the special tokens.
    /// The error says why the template cannot be used.
    pub(super) fn user_message(template: &str, config: &Json) -> Result<Self, String> {
        let rendered = render(template, config).map_err(|error| explain(&error))?;
        let mut parts = rendered.split(MESSAGE);
        match (parts.next(), parts.next(), parts.next()) {
            (Some(before), Some(after), None) => Ok(Self {
                before: before.to_owned(),
                after: after.to_owned(),
                special: false,
            }),
            (_, None, _) => Err("it leaves the message out, or changes it".to_owned()),
            _ => Err("it repeats the message".to_owned()),
        }
    }

    /// The text as the engine encodes it.
    pub(super) fn of(&self, text: &str) -> String {
        [&self.before, text, &self.after].concat()
    }
}

/// The template of `tokenizer_config.json`: one text, or several by name, of which `default` is meant.
pub(super) fn template(config: &Json) -> Option<&str> {
    match &config["chat_template"] {
        Json::String(text) => Some(text),
        Json::Array(named) => named.iter().find(|one| one["name"] == "default")?["template"].as_str(),
        _ => None,
    }
}

/// Renders as the transformers library does: blocks trimmed, loop controls, and its own two functions.
fn render(template: &str, config: &Json) -> Result<String, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_fuel(Some(FUEL));
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |text: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, text))
    });
    environment.add_function("strftime_now", |format: &str, _: Kwargs| some_day(format));

    let special = |name: &str| match &config[name] {
        Json::String(text) => Some(text.clone()),
        Json::Object(token) => token.get("content").and_then(Json::as_str).map(str::to_owned),
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

/// A day in the format asked for. Any day will do, as all have the same length, and this room has no clock.
fn some_day(format: &str) -> String {
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

    fn around(template: &str) -> Result<Around, String> {
        let config = json!({ "bos_token": "<s>", "eos_token": { "content": "</s>" } });
        Around::user_message(template, &config)
    }

    #[test]
    fn what_stands_around_the_message_is_seen() {
        let template = "{{ bos_token }}{% for m in messages %}{{ m['role'] }}: {{ m['content'].strip() }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}{{ eos_token }}";
        let around = around(template).unwrap();
        assert_eq!(
            (around.before.as_str(), around.after.as_str()),
            ("<s>user: ", "\nassistant:</s>")
        );
        assert!(!around.special);
        assert_eq!(around.of("x"), "<s>user: x\nassistant:</s>");
    }

    #[test]
    fn what_templates_in_the_wild_use_is_there() {
        for template in [
            "{% set ns = namespace(found=false) %}{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.content | trim }}{% endfor %}",
            "{%- if not date_string is defined %}{%- set date_string = strftime_now('%d %b %Y') %}{%- endif %}{{ date_string }}{{ messages[0]['content'] }}",
            "{% if messages[0]['role'] == 'system' %}{% set messages = messages[1:] %}{% endif %}{{ messages[-1].content }}",
            "{% macro show(m) %}{{ m.content }}{% endmacro %}{{ show(messages[0]) }}{{ tools | tojson }}",
            "{% if messages | length > 1 %}{{ raise_exception('one only') }}{% endif %}{{ messages[0].content.split('</think>')[-1].lstrip('\n') }}",
            "{% if tools is not none and tools | length > 0 %}x{% endif %}{{ messages[0].content }}",
        ] {
            assert!(around(template).is_ok(), "{template}: {:?}", around(template));
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
            let reason = around(template).unwrap_err();
            assert!(reason.contains(why), "{template}: {reason}");
        }
    }

    #[test]
    fn the_default_template_is_found() {
        assert_eq!(template(&json!({ "chat_template": "a" })), Some("a"));
        let named = json!({ "chat_template": [{ "name": "tool_use", "template": "t" }, { "name": "default", "template": "d" }] });
        assert_eq!(template(&named), Some("d"));
        assert_eq!(template(&Json::Null), None);
    }
}
