//! Renders the page's template. Text from a run is stripped of secrets, then escaped.

use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value, context, escape_formatter};

use super::view::View;
use crate::fault::{Fault, Result};
use crate::report::sections::{Document, Section};
use crate::report::{SIMULATED, plot};
use crate::run::hide;

static TEMPLATES: LazyLock<std::result::Result<Environment<'static>, minijinja::Error>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_formatter(|out, state, value| match value.as_str() {
        // Secrets must be hidden before escaping, which would disguise them.
        Some(text) if !value.is_safe() => escape_formatter(out, state, &Value::from(hide(text).as_ref())),
        _ => escape_formatter(out, state, value),
    });
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_filter("prose", |text: &str| Value::from_safe_string(prose(text)));
    environment.add_template("page.html", include_str!("page.html"))?;
    Ok(environment)
});

/// The page of one run, or of several runs with their common sections first.
///
/// # Errors
///
/// `internal` if the template does not match its data.
pub fn page(stories: &[Document], together: &[Section]) -> Result<String> {
    let view = View::new(stories, together);
    let broken = |error: &minijinja::Error| Fault::internal(format!("the page cannot be made: {error:#}"));
    let environment = TEMPLATES.as_ref().map_err(broken)?;
    let template = environment.get_template("page.html").map_err(|error| broken(&error))?;
    let filled = template.render(context! {
        view => Value::from(Serde(view)),
        simulated => SIMULATED,
        style => Value::from_safe_string(include_str!("style.css").to_owned()),
        plot_style => Value::from_safe_string(plot::css()),
        script => Value::from_safe_string(include_str!("script.js").to_owned()),
        version => env!("CARGO_PKG_VERSION"),
    });
    filled
        .map(|page| page.trim_start().to_owned())
        .map_err(|error| broken(&error))
}

/// Escapes a sentence without secrets; text between backticks becomes code.
fn prose(text: &str) -> String {
    let text = hide(text);
    let parts: Vec<&str> = text.split('`').collect();
    // An unpaired last backtick stays a backtick.
    let pairs = (parts.len() - 1) / 2;
    let mut html = String::new();
    for (index, part) in parts.iter().enumerate() {
        let part = escaped(part);
        match index {
            0 => html.push_str(&part),
            index if index > 2 * pairs => {
                html.push('`');
                html.push_str(&part);
            }
            index if index % 2 == 1 => html.push_str(&format!("<code>{part}</code>")),
            _ => html.push_str(&part),
        }
    }
    html
}

fn escaped(text: &str) -> String {
    let entity = |html: String, letter: char| match letter {
        '&' => html + "&amp;",
        '<' => html + "&lt;",
        '>' => html + "&gt;",
        '"' => html + "&quot;",
        '\'' => html + "&#x27;",
        letter => {
            let mut html = html;
            html.push(letter);
            html
        }
    };
    text.chars().fold(String::new(), entity)
}

/// A name as an anchor or file name: `a-z`, `0-9`, `_` and `-`.
#[must_use]
pub fn slug(name: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() || letter == '_' {
            letter.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let slug: String = name.chars().map(plain).collect();
    let slug = slug
        .split('-')
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("-");
    if slug.is_empty() { "x".to_owned() } else { slug }
}

#[cfg(test)]
mod tests {
    use super::{prose, slug};

    #[test]
    fn code_is_marked_and_markup_is_escaped() {
        for (text, html) in [
            (
                "give `--html <FILE>` & wait",
                "give <code>--html &lt;FILE&gt;</code> &amp; wait",
            ),
            ("`a`b`c`", "<code>a</code>b<code>c</code>"),
            ("it's `one", "it&#x27;s `one"),
            ("`a` and `", "<code>a</code> and `"),
            ("", ""),
            ("at http://me:passphrase@host", "at http://***@host"),
        ] {
            assert_eq!(prose(text), html);
        }
    }

    #[test]
    fn a_name_becomes_an_anchor() {
        assert_eq!(slug("run-1 figure Längste <x>"), "run-1-figure-l-ngste-x");
        assert_eq!(slug("…"), "x");
    }
}
