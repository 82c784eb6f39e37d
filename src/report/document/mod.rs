//! The blocks of a document: facts, paragraphs, lists, tables, figures. One function lays out each result as blocks;
//! `text` renders them for the terminal, `markdown` for a pull request, [`super::html`] for the page.

mod markdown;
mod text;

pub use markdown::markdown;
pub(super) use text::{ColumnFormat, is_text, table, text_table, wrapped};
pub use text::{grouped_text_table, text};

use std::borrow::Cow;

use serde::Serialize;

use super::plot::Plot;
use super::sheet::Sheet;

/// A part of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// The result in one sentence.
    Finding(String),
    /// Named facts.
    Facts(Vec<Fact>),
    /// Sentences.
    Paragraph(String),
    /// Separate sentences below a title.
    List(List),
    /// A table.
    Table(Sheet),
    /// A table with details: folded where that is possible.
    Folded(Sheet),
    /// A chart: a picture on the page, a description and a table in Markdown. Terminals leave it out.
    Figure(Box<Plot>),
    /// A drawing in characters. The page leaves it out, because it has a chart of the same data.
    Sketch(String),
    /// Text as a script wrote it.
    Text(String),
}

/// Sentences below a title.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct List {
    /// The title. Without one, the sentences are lines of their own.
    pub title: String,
    /// The sentences.
    pub items: Vec<String>,
    /// How important it is.
    pub weight: Weight,
}

/// How important a list is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// A caveat about the numbers: coloured, and a quotation in Markdown.
    Warning,
    /// As important as other text.
    #[default]
    Normal,
    /// Details: folded where that is possible.
    Detail,
}

/// A part of a document with a heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Its anchor: `a-z`, `0-9` and `-`; unique within a run.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// Its content.
    pub blocks: Vec<Block>,
}

impl Section {
    /// An empty section.
    pub fn new(name: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            blocks: Vec::new(),
        }
    }

    /// The section with further blocks: paragraphs (texts), tables ([`Sheet`]) or figures ([`Plot`]).
    pub fn with<B: Into<Block>>(mut self, blocks: impl IntoIterator<Item = B>) -> Self {
        self.blocks.extend(blocks.into_iter().map(Into::into));
        self
    }

    /// Its figures.
    pub fn plots(&self) -> Vec<&Plot> {
        self.all(|block| match block {
            Block::Figure(plot) => Some(&**plot),
            _ => None,
        })
    }

    /// Its tables.
    #[cfg(test)]
    pub(super) fn sheets(&self) -> Vec<&Sheet> {
        self.all(|block| match block {
            Block::Table(sheet) => Some(sheet),
            _ => None,
        })
    }

    /// Its paragraphs.
    #[cfg(test)]
    pub(super) fn paragraphs(&self) -> Vec<&String> {
        self.all(|block| match block {
            Block::Paragraph(text) => Some(text),
            _ => None,
        })
    }

    fn all<T>(&self, wanted: fn(&Block) -> Option<&T>) -> Vec<&T> {
        self.blocks.iter().filter_map(wanted).collect()
    }
}

impl Block {
    /// A list under a title, which may be empty; `None` without items.
    pub fn list(title: &str, items: Vec<String>, weight: Weight) -> Option<Self> {
        (!items.is_empty()).then(|| {
            Self::List(List {
                title: title.to_owned(),
                items,
                weight,
            })
        })
    }

    /// Warnings without a title; `None` if there are none.
    pub fn warnings(items: Vec<String>) -> Option<Self> {
        Self::list("", items, Weight::Warning)
    }

    /// The notice of a simulation as a block, if there is one.
    pub fn notice(notice: Option<String>) -> Option<Self> {
        Self::warnings(notice.into_iter().collect())
    }
}

impl From<String> for Block {
    fn from(text: String) -> Self {
        Self::Paragraph(text)
    }
}

impl From<Sheet> for Block {
    fn from(sheet: Sheet) -> Self {
        Self::Table(sheet)
    }
}

impl From<Plot> for Block {
    fn from(plot: Plot) -> Self {
        Self::Figure(Box::new(plot))
    }
}

/// A text as a sentence: a capital first, a full stop at the end.
pub(super) fn sentence(text: &str) -> String {
    let end = if text.ends_with(['.', '…']) { "" } else { "." };
    format!("{}{end}", capitalized(text))
}

/// Names such as `kv_cache_dtype=fp8` stay as they are.
pub(super) fn capitalized(text: &str) -> String {
    let word = text.split_whitespace().next().unwrap_or_default();
    if word.contains(['_', '=']) {
        return text.to_owned();
    }
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

/// Wider tables may be transposed.
const MAX_COLUMNS: usize = 12;

/// The table, transposed for readability if it is wide with few rows.
pub(super) fn readable(sheet: &Sheet) -> Cow<'_, Sheet> {
    if sheet.columns.len() > MAX_COLUMNS.max(sheet.rows.len()) && !sheet.rows.is_empty() {
        Cow::Owned(sheet.transposed())
    } else {
        Cow::Borrowed(sheet)
    }
}

/// A named fact.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fact {
    /// Its name: `model`.
    pub term: String,
    /// The fact.
    pub text: String,
    /// Whether it is code to paste: shown verbatim, with a copy button.
    pub paste: bool,
}

impl Fact {
    pub(crate) fn new(term: &str, text: impl Into<String>) -> Self {
        Self {
            term: term.to_owned(),
            text: text.into(),
            paste: false,
        }
    }

    pub(crate) fn code(term: &str, text: impl Into<String>) -> Self {
        Self {
            paste: true,
            ..Self::new(term, text)
        }
    }
}
