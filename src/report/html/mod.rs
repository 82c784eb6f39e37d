//! Renders a report as one self-contained HTML file without network access or frameworks. Everything is readable
//! without the script, which adds tooltips, keyboard navigation, sliders and copying.
//!
//! `page.html` is the template; it includes `style.css` and `script.js`. `figure` renders a figure with its data for
//! the script, and tables.

mod figure;

use std::collections::HashSet;
use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value, context, escape_formatter};

use crate::fault::{Fault, Result};
use crate::fmt::{escape_html, slug};
use crate::report::document::{Block, Section};
use crate::report::sections::{Document, Together};
use crate::report::terminal::shown;
use crate::report::{SIMULATED, plot};
use figure::{figure, table};

static TEMPLATES: LazyLock<std::result::Result<Environment<'static>, minijinja::Error>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_formatter(|out, state, value| match value.as_str() {
        // Secrets are hidden before escaping, which would disguise them; control characters mean nothing on a page.
        Some(text) if !value.is_safe() => escape_formatter(out, state, &Value::from(shown(text, false).as_ref())),
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
pub fn page(documents: &[Document], together: &Together) -> Result<String> {
    let broken = |error: &minijinja::Error| Fault::internal(format!("the page cannot be made: {error:#}"));
    let environment = TEMPLATES.as_ref().map_err(broken)?;
    let template = environment.get_template("page.html").map_err(|error| broken(&error))?;
    let filled = template.render(context! {
        view => view(documents, together),
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
    let text = escape_html(&shown(text, false));
    let marks = text.matches('`').count();
    let tag = |at: usize| match at % 2 {
        _ if at == 0 => "",
        // An unpaired last backtick stays a backtick.
        1 if at == marks => "`",
        1 => "<code>",
        _ => "</code>",
    };
    let parts = text.split('`').enumerate();
    parts.map(|(at, part)| format!("{}{part}", tag(at))).collect()
}

/// Hands out unique anchors and file names.
#[derive(Debug, Default)]
pub struct Anchors(HashSet<String>);

impl Anchors {
    /// A unique slug for the name.
    pub fn give(&mut self, name: &str) -> String {
        let slug = slug(name);
        let numbered = (2..).map(|number| format!("{slug}-{number}"));
        let free = std::iter::once(slug.clone())
            .chain(numbered)
            .find(|id| !self.0.contains(id));
        let id = free.unwrap_or(slug);
        self.0.insert(id.clone());
        id
    }
}

/// What the template shows: the runs, and before them what several have in common.
fn view(documents: &[Document], together: &Together) -> Value {
    let mut anchors = Anchors::default();
    // Anchors of the page itself.
    for own in ["main", "top", "together", "contents"] {
        let _ = anchors.give(own);
    }
    let several = documents.len() != 1;
    let title = match documents {
        [only] => only.headline.as_str(),
        _ => together.headline.as_str(),
    };
    let common = section_views(&together.sections, "together", &mut anchors);
    let run = |(index, document): (usize, &Document)| {
        let number = index + 1;
        let prefix = if several {
            format!("run-{number}")
        } else {
            String::new()
        };
        context! {
            id => anchors.give(if several { &prefix } else { "run" }),
            // Its name among several runs.
            name => together.names.get(index).map(|name| format!("[{number}] {name}")),
            done => document.status == "done",
            details => document.details.iter().map(|sheet| table(sheet, true)).collect::<Vec<_>>(),
            parts => section_views(&document.sections, &prefix, &mut anchors),
            ..Serde(document)
        }
    };
    let runs: Vec<Value> = documents.iter().enumerate().map(run).collect();
    let mut notices = documents.iter().filter_map(|document| document.simulated.as_deref());
    let first = notices.next();
    let simulated = first.map(|first| match notices.all(|other| other == first) {
        true => first,
        false => SIMULATED,
    });
    context! { title, simulated, several, together => common, runs }
}

fn section_views(sections: &[Section], prefix: &str, anchors: &mut Anchors) -> Vec<Value> {
    let view = |section: &Section| {
        let id = anchors.give(&format!("{prefix} {}", section.name));
        let view = |block: &Block| {
            Some(match block {
                Block::Finding(text) | Block::Paragraph(text) => context! { paragraph => text.as_str() },
                Block::Facts(facts) => context! { facts => Serde(facts) },
                Block::List(list) => context! { list => Serde(list) },
                Block::Table(sheet) => context! { table => table(sheet, true) },
                Block::Folded(sheet) => context! { folded => table(sheet, true) },
                Block::Figure(plot) => {
                    let id = anchors.give(&format!("{prefix} figure {}", plot.name));
                    context! { figure => figure(plot, &id, &section.title) }
                }
                Block::Text(text) => context! { text => text.as_str() },
                // The page has a chart of the same.
                Block::Sketch(_) => return None,
            })
        };
        let blocks: Vec<Value> = section.blocks.iter().filter_map(view).collect();
        // Whether the heading is also the title of a figure.
        let titles_figure = section.plots().iter().any(|plot| plot.title == section.title);
        context! { id, title => section.title.as_str(), titles_figure, blocks }
    };
    sections.iter().map(view).collect()
}

#[cfg(test)]
mod tests {
    use super::prose;

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
}
