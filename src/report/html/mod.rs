//! Renders a report as one self-contained HTML file without network access or frameworks. Everything is readable
//! without the script, which adds tooltips, keyboard navigation, sliders and copying.
//!
//! `page.html` is the template; it includes `style.css` and `script.js`. Each figure has a wide and a narrow drawing, a
//! description in words, a table, and data for the script.
//!
//! The data are rows of numbers and texts. Equal rows and equal texts are stored once. The HTML has the first rows of a
//! long table; the script adds the rest from the data.

use std::collections::{HashMap, HashSet};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value, context, escape_formatter};
use serde_json::{Value as Json, json};

use crate::fault::{Fault, Result};
use crate::fmt::{escape_html, json_number, slug};
use crate::report::document::{Block, Section, is_text, readable};
use crate::report::plot::{Drawing, Entry, Plot, Sheet, Width, panel, svg};
use crate::report::sections::{Document, Together};
use crate::report::sheet::{digits, entry_text};
use crate::report::terminal::shown;
use crate::report::{SIMULATED, plot};
use crate::run::hide_json;

/// The page of one run, or of several runs with their common sections first.
///
/// # Errors
///
/// `internal` if the template does not match its data.
pub fn page(documents: &[Document], together: &Together) -> Result<String> {
    let filled = filled(context! {
        view => view(documents, together),
        style => Value::from_safe_string(include_str!("style.css").to_owned()),
        plot_style => Value::from_safe_string(plot::css()),
        script => Value::from_safe_string(include_str!("script.js").to_owned()),
        version => env!("CARGO_PKG_VERSION"),
    });
    filled.map_err(|error| Fault::internal(format!("the page cannot be made: {error:#}")))
}

fn filled(content: Value) -> std::result::Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_formatter(|out, state, value| match value.as_str() {
        // Secrets are hidden before escaping, which would disguise them; control characters mean nothing on a page.
        Some(text) if !value.is_safe() => escape_formatter(out, state, &Value::from(shown(text, false).as_ref())),
        _ => escape_formatter(out, state, value),
    });
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_filter("prose", |text: &str| Value::from_safe_string(prose(text)));
    let page = environment.render_str(include_str!("page.html"), content)?;
    Ok(page.trim_start().to_owned())
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
        let (slug, mut number) = (slug(name), 1);
        let mut id = slug.clone();
        while !self.0.insert(id.clone()) {
            number += 1;
            id = format!("{slug}-{number}");
        }
        id
    }
}

/// The data of the template: the runs, preceded by the sections that compare several of them.
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
    let simulated = first.map(|first| {
        if notices.all(|other| other == first) {
            first
        } else {
            SIMULATED
        }
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
                // The page has a chart instead.
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

/// The data of the template for a chart in a section with this heading.
fn figure(plot: &Plot, id: &str, heading: &str) -> Value {
    let slider = plot.slider.as_deref().filter(|_| plot.panels.len() > 1);
    let named = Plot {
        name: id.to_owned(),
        ..plot.clone()
    };
    let (views, frames) = views(&named, slider.is_some());
    context! {
        id,
        title => plot.title.as_str(),
        // If so, the title is only for screen readers.
        titled_above => plot.title == heading,
        alt => plot.alt.as_str(),
        caption => plot.caption.as_str(),
        slider,
        panels => plot.panels.iter().map(|panel| Value::from(panel.title.as_str())).collect::<Vec<_>>(),
        views,
        table => (!plot.sheet.columns.is_empty()).then(|| table(&plot.sheet, false)),
        data => Value::from_safe_string(data(plot, &frames)),
    }
}

/// Drawings of the whole figure and, with `each`, of every single panel; and the panel positions in each drawing, for
/// the script.
fn views(plot: &Plot, each: bool) -> (Vec<Value>, Vec<Json>) {
    let whole = plot.panels.first().map(|_| None);
    let panels = (0..plot.panels.len()).filter(|_| each).map(Some);
    let view = |at: Option<usize>| {
        let drawn = |width: Width| match at {
            Some(index) => panel(plot, index, width),
            None => svg(plot, width),
        };
        let (wide, narrow) = (drawn(Width::Wide), drawn(Width::Narrow));
        let place = |drawing: &Drawing| json!({ "size": drawing.size, "frames": drawing.frames });
        let panels: Vec<usize> = at.map_or_else(|| (0..plot.panels.len()).collect(), |index| vec![index]);
        let frames = json!({ "panels": panels, "wide": place(&wide), "narrow": place(&narrow) });
        (
            context! { panel => at, wide => safe_svg(&wide.svg), narrow => safe_svg(&narrow.svg) },
            frames,
        )
    };
    whole.into_iter().chain(panels).map(view).unzip()
}

/// The drawing is escaped already; secrets are hidden here.
fn safe_svg(svg: &str) -> Value {
    Value::from_safe_string(shown(svg, false).into_owned())
}

/// The JSON data for the script: the distinct `rows` of the tooltips and the table, with texts as indices into the
/// distinct `words`; the `panels` with their points; the row indices of the `table`; and the panel positions of each
/// view.
fn data(plot: &Plot, frames: &[Json]) -> String {
    let (mut rows, mut words) = (Distinct::default(), Distinct::default());
    let mut row = |entries: &Vec<Entry>| {
        let entry = |entry: &Entry| match entry {
            Entry::Number(value) => number(*value),
            Entry::Text(text) => json!([words.number(text.as_str().into())]),
            Entry::None => Json::Null,
        };
        rows.number(entries.iter().map(entry).collect())
    };
    let panels: Vec<Json> = plot
        .panels
        .iter()
        .map(|panel| {
            let points = panel
                .spots
                .spots
                .iter()
                .map(|spot| ([number(spot.at.0), number(spot.at.1)], row(&spot.entries)));
            let (at, rows): (Vec<[Json; 2]>, Vec<usize>) = points.unzip();
            json!({ "title": panel.title, "names": panel.spots.columns, "at": at, "rows": rows })
        })
        .collect();
    let sheet = readable(&plot.sheet);
    let long = sheet.rows.len() > MAX_COMPLETE;
    let table: Vec<usize> = sheet.rows.iter().filter(|_| long).map(row).collect();
    let data = json!({ "panels": panels, "views": frames, "table": table, "rows": rows.all, "words": words.all });
    // `<` is the only character that could end the script element.
    shown(&hide_json(data.to_string()), false).replace('<', "\\u003c")
}

/// Numbers distinct values in the order of their first use.
#[derive(Default)]
struct Distinct {
    all: Vec<Json>,
    numbers: HashMap<String, usize>,
}

impl Distinct {
    fn number(&mut self, value: Json) -> usize {
        *self.numbers.entry(value.to_string()).or_insert_with(|| {
            self.all.push(value);
            self.all.len() - 1
        })
    }
}

/// A JSON number, integers without a decimal point; null for NaN and infinities.
fn number(value: f64) -> Json {
    json_number(digits(value))
}

/// Tables up to this length are complete without the script.
const MAX_COMPLETE: usize = 200;

/// Rows of a longer table in the HTML.
const FIRST_ROWS: usize = 50;

/// The data of the template for a table. Unless `complete`, a long table has only its first rows, and the script adds
/// the rest.
fn table(sheet: &Sheet, complete: bool) -> Value {
    let sheet = readable(sheet);
    let rest = !complete && sheet.rows.len() > MAX_COMPLETE;
    let most = if rest { FIRST_ROWS } else { sheet.rows.len() };
    let column = |(at, name): (usize, &String)| {
        let entries: Vec<String> = sheet
            .rows
            .iter()
            .take(MAX_COMPLETE)
            .filter_map(|row| row.get(at))
            .map(entry_text)
            .collect();
        // Numbers are aligned right.
        context! { name => name.as_str(), numbers => !is_text(entries.iter().map(String::as_str)) }
    };
    let row = |(at, row): (usize, &Vec<Entry>)| {
        let link = sheet.links.get(at).cloned().flatten();
        context! { link, cells => row.iter().map(cell).collect::<Vec<_>>() }
    };
    let rows = sheet.rows.iter().take(most).enumerate();
    context! {
        title => sheet.title.as_str(),
        columns => sheet.columns.iter().enumerate().map(column).collect::<Vec<_>>(),
        rows => rows.map(row).collect::<Vec<_>>(),
        all => sheet.rows.len(),
        rest,
    }
}

/// The text of a cell. Leading blanks indent sub-components, and HTML would drop them.
fn cell(entry: &Entry) -> String {
    let text = entry_text(entry);
    let words = text.trim_start_matches(' ');
    format!("{}{words}", "\u{a0}".repeat(text.len() - words.len()))
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

#[cfg(test)]
mod figure_tests {
    use super::*;

    #[test]
    fn a_wide_table_with_few_rows_is_transposed() {
        let sheet = |columns: usize, rows: usize| Sheet {
            title: String::new(),
            columns: (0..columns).map(|at| format!("figure {at}")).collect(),
            rows: (0..rows)
                .map(|row| (0..columns).map(|at| Entry::from((10 * row + at) as f64)).collect())
                .collect(),
            ..Sheet::default()
        };
        let size = |table: &Json| ["columns", "rows"].map(|part| table[part].as_array().unwrap().len());
        let turned = json!(table(&sheet(20, 3), false));
        assert_eq!(size(&turned), [4, 19]);
        assert_eq!(turned["columns"][0]["numbers"], false);
        assert_eq!(turned["columns"][3]["numbers"], true);
        assert_eq!(turned["rows"][0]["cells"], json!(["figure 1", "1", "11", "21"]));
        for (columns, rows) in [(20, 20), (8, 2), (20, 0)] {
            assert_eq!(size(&json!(table(&sheet(columns, rows), true))), [columns, rows]);
        }
    }
}
