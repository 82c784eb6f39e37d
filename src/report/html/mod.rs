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
use serde::Serialize;

use crate::fault::{Fault, Result};
use crate::fmt::{escape_html, slug};
use crate::report::document::{Block, List, Section};
use crate::report::sections::{Document, Together};
use crate::report::terminal::shown;
use crate::report::{Fact, SIMULATED, plot};
use figure::{Figure, Table};

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
    let view = View::new(documents, together);
    let broken = |error: &minijinja::Error| Fault::internal(format!("the page cannot be made: {error:#}"));
    let environment = TEMPLATES.as_ref().map_err(broken)?;
    let template = environment.get_template("page.html").map_err(|error| broken(&error))?;
    let filled = template.render(context! {
        view => Value::from(Serde(view)),
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
    let text = shown(text, false);
    let parts: Vec<&str> = text.split('`').collect();
    // An unpaired last backtick stays a backtick.
    let pairs = (parts.len() - 1) / 2;
    let mut html = String::new();
    for (index, part) in parts.iter().enumerate() {
        let part = escape_html(part);
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

#[derive(Serialize)]
struct View<'a> {
    /// The title and main heading.
    title: String,
    /// The notice of what was simulated, if anything was.
    simulated: Option<String>,
    /// Whether the page shows several runs.
    several: bool,
    /// Common sections of several runs.
    together: Vec<SectionView<'a>>,
    runs: Vec<RunView<'a>>,
}

#[derive(Serialize)]
struct RunView<'a> {
    id: String,
    /// Its name among several runs.
    name: String,
    done: bool,
    #[serde(flatten)]
    document: &'a Document,
    details: Vec<Table>,
    parts: Vec<SectionView<'a>>,
}

#[derive(Serialize)]
struct SectionView<'a> {
    id: String,
    title: &'a str,
    /// Whether the heading is also the title of a figure.
    titles_figure: bool,
    blocks: Vec<BlockView<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum BlockView<'a> {
    Facts(&'a [Fact]),
    Paragraph(&'a str),
    List(&'a List),
    Table(Table),
    Folded(Table),
    Figure(Box<Figure>),
    Text(&'a str),
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

impl<'a> View<'a> {
    fn new(documents: &'a [Document], together: &'a Together) -> Self {
        let mut anchors = Anchors::default();
        // Anchors of the page itself.
        for own in ["main", "top", "together", "contents"] {
            let _ = anchors.give(own);
        }
        let several = documents.len() != 1;
        let title = match documents {
            [only] => only.headline.clone(),
            _ => together.headline.clone(),
        };
        let names = together.names.iter().cloned();
        let mut names = names.enumerate().map(|(index, name)| format!("[{}] {name}", index + 1));
        let together = together
            .sections
            .iter()
            .map(|part| SectionView::new(part, "together", &mut anchors))
            .collect();
        let runs = documents.iter().enumerate().map(|(index, document)| {
            let prefix = if several {
                format!("run-{}", index + 1)
            } else {
                String::new()
            };
            RunView::new(document, names.next().unwrap_or_default(), &prefix, &mut anchors)
        });
        let mut notices = documents.iter().filter_map(|document| document.simulated.as_deref());
        let first = notices.next();
        let simulated = first.map(|first| {
            if notices.all(|other| other == first) {
                first
            } else {
                SIMULATED
            }
        });
        Self {
            title,
            simulated: simulated.map(str::to_owned),
            several,
            together,
            runs: runs.collect(),
        }
    }
}

impl<'a> RunView<'a> {
    fn new(document: &'a Document, name: String, prefix: &str, anchors: &mut Anchors) -> Self {
        Self {
            name,
            id: anchors.give(if prefix.is_empty() { "run" } else { prefix }),
            done: document.status == "done",
            details: document.details.iter().map(Table::complete).collect(),
            parts: document
                .sections
                .iter()
                .map(|part| SectionView::new(part, prefix, anchors))
                .collect(),
            document,
        }
    }
}

impl<'a> SectionView<'a> {
    fn new(section: &'a Section, prefix: &str, anchors: &mut Anchors) -> Self {
        let id = anchors.give(&format!("{prefix} {}", section.name));
        let mut titles_figure = false;
        let mut view = |block: &'a Block| {
            Some(match block {
                Block::Finding(text) | Block::Paragraph(text) => BlockView::Paragraph(text),
                Block::Facts(facts) => BlockView::Facts(facts),
                Block::List(list) => BlockView::List(list),
                Block::Table(sheet) => BlockView::Table(Table::complete(sheet)),
                Block::Folded(sheet) => BlockView::Folded(Table::complete(sheet)),
                Block::Figure(plot) => {
                    let id = anchors.give(&format!("{prefix} figure {}", plot.name));
                    let figure = Figure::new(plot, &id, &section.title);
                    titles_figure |= figure.titled_above;
                    BlockView::Figure(Box::new(figure))
                }
                Block::Text(text) => BlockView::Text(text),
                // The page has a chart of the same.
                Block::Sketch(_) => return None,
            })
        };
        Self {
            blocks: section.blocks.iter().filter_map(&mut view).collect(),
            title: &section.title,
            id,
            titles_figure,
        }
    }
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
