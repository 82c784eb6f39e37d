//! The template's data: runs and sections with their anchors, rendered figures, and tables.

use std::collections::HashSet;

use serde::Serialize;

use super::figure::Figure;
use super::slug;
use super::table::Table;
use crate::report::Count;
use crate::report::plot::Plot;
use crate::report::sections::{self, Document, Fact};

#[derive(Serialize)]
pub(super) struct View {
    /// The title and main heading.
    pub(super) title: String,
    /// Whether anything was simulated.
    pub(super) simulated: bool,
    /// Whether the page shows several runs.
    pub(super) several: bool,
    /// Common sections of several runs.
    pub(super) together: Vec<Section>,
    pub(super) runs: Vec<RunView>,
}

#[derive(Serialize)]
pub(super) struct RunView {
    id: String,
    headline: String,
    run: String,
    script: String,
    status: String,
    done: bool,
    simulated: bool,
    answers: Vec<FactView>,
    caveats: Vec<String>,
    missing: Vec<String>,
    facts: Vec<FactView>,
    details: Vec<Table>,
    parts: Vec<Section>,
}

/// A term and its values.
#[derive(Serialize)]
pub(super) struct FactView {
    term: String,
    lines: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    text: String,
    paste: bool,
}

#[derive(Serialize)]
pub(super) struct Section {
    id: String,
    title: String,
    /// Whether the heading is also the title of a figure.
    titles_figure: bool,
    paragraphs: Vec<String>,
    figures: Vec<Figure>,
    tables: Vec<Table>,
    texts: Vec<String>,
}

/// Hands out unique anchors and file names.
#[derive(Debug, Default)]
pub struct Anchors(HashSet<String>);

impl Anchors {
    /// A unique slug for the name.
    #[must_use]
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

impl View {
    pub(super) fn new(stories: &[Document], together: &[sections::Section]) -> Self {
        let mut anchors = Anchors::default();
        // Anchors of the page itself.
        for own in ["main", "top", "together", "contents"] {
            let _ = anchors.give(own);
        }
        let several = stories.len() != 1;
        let title = match stories {
            [only] => only.headline.clone(),
            stories => format!("{} side by side", Count(stories.len(), "run")),
        };
        let together = together
            .iter()
            .map(|part| Section::new(part, "together", &mut anchors))
            .collect();
        let runs = stories.iter().enumerate().map(|(index, story)| {
            let prefix = if several {
                format!("run-{}", index + 1)
            } else {
                String::new()
            };
            RunView::new(story, &prefix, &mut anchors)
        });
        Self {
            title,
            simulated: stories.iter().any(|story| story.simulated),
            several,
            together,
            runs: runs.collect(),
        }
    }
}

impl RunView {
    fn new(story: &Document, prefix: &str, anchors: &mut Anchors) -> Self {
        Self {
            id: anchors.give(if prefix.is_empty() { "run" } else { prefix }),
            headline: story.headline.clone(),
            run: story.run.clone(),
            script: story.script.clone(),
            status: story.status.clone(),
            done: story.status == "done",
            simulated: story.simulated,
            answers: grouped(&story.answers),
            caveats: story.caveats.clone(),
            missing: story.missing.clone(),
            facts: grouped(&story.facts),
            details: story.details.iter().map(Table::complete).collect(),
            parts: story
                .sections
                .iter()
                .map(|part| Section::new(part, prefix, anchors))
                .collect(),
        }
    }
}

/// Groups consecutive facts with the same term.
fn grouped(facts: &[Fact]) -> Vec<FactView> {
    let mut all: Vec<FactView> = Vec::new();
    for fact in facts {
        let line = Line {
            text: fact.text.clone(),
            paste: fact.paste,
        };
        match all.last_mut() {
            Some(last) if last.term == fact.term => last.lines.push(line),
            _ => all.push(FactView {
                term: fact.term.clone(),
                lines: vec![line],
            }),
        }
    }
    all
}

impl Section {
    fn new(part: &sections::Section, prefix: &str, anchors: &mut Anchors) -> Self {
        let id = anchors.give(&format!("{prefix} {}", part.name));
        let mut figure = |plot: &Plot| {
            let id = anchors.give(&format!("{prefix} figure {}", plot.name));
            Figure::new(plot, &id, &part.title)
        };
        let figures: Vec<Figure> = part.plots.iter().map(&mut figure).collect();
        Self {
            id,
            title: part.title.clone(),
            titles_figure: figures.iter().any(|figure| figure.titled_above),
            paragraphs: part.paragraphs.clone(),
            figures,
            tables: part.sheets.iter().map(Table::complete).collect(),
            texts: part.texts.clone(),
        }
    }
}
