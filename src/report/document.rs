//! What results are laid out as before they are rendered: facts. The page renders them too.

use console::{Style, measure_text_width};

use super::Page;
use crate::fmt::wrap;

/// A named fact.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Its name: `model`.
    pub term: String,
    /// The fact.
    pub text: String,
    /// Whether it is code to paste: shown verbatim, with a copy button.
    pub paste: bool,
}

impl Fact {
    pub(super) fn new(term: &str, text: impl Into<String>) -> Self {
        Self {
            term: term.to_owned(),
            text: text.into(),
            paste: false,
        }
    }

    pub(super) fn code(term: &str, text: impl Into<String>) -> Self {
        Self {
            paste: true,
            ..Self::new(term, text)
        }
    }
}

/// Facts for the terminal: the terms in a column of their own, the texts wrapped beside it. Code is never wrapped.
#[must_use]
pub(super) fn facts_text(facts: &[Fact], page: Page) -> String {
    let indent = facts
        .iter()
        .map(|fact| measure_text_width(&fact.term))
        .max()
        .unwrap_or(0)
        + 2;
    let room = page.width.saturating_sub(indent).max(20);
    let mut lines = Vec::new();
    let mut last = "";
    for fact in facts {
        let term = if fact.term == last { "" } else { &fact.term };
        last = &fact.term;
        let texts = match fact.paste {
            true => vec![fact.text.clone()],
            false => wrap(&fact.text, room, 0).lines().map(str::to_owned).collect(),
        };
        for (index, text) in texts.into_iter().enumerate() {
            let term = if index == 0 { term } else { "" };
            let blanks = " ".repeat(indent - measure_text_width(term));
            let text = if fact.paste {
                page.paint(&text, Style::new().bold())
            } else {
                text
            };
            lines.push(format!("{}{blanks}{text}", page.paint(term, Style::new().dim())));
        }
    }
    lines.join("\n")
}
