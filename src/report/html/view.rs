//! What the template fills in: stories with their anchors, their figures drawn, their tables as cells.

use std::collections::HashSet;

use serde::Serialize;

use super::figure::Figure;
use super::slug;
use super::table::Table;
use crate::report::Count;
use crate::report::plot::Plot;
use crate::report::story::{Fact, Part, Story};

/// A page.
#[derive(Serialize)]
pub(super) struct View {
    /// Its heading, and its title.
    pub(super) title: String,
    /// Whether anything on it was simulated.
    pub(super) simulated: bool,
    /// Whether it is of several runs.
    pub(super) several: bool,
    /// What several runs come to together.
    pub(super) together: Vec<Section>,
    /// The runs.
    pub(super) runs: Vec<RunView>,
}

/// A run.
#[derive(Serialize)]
pub(super) struct RunView {
    id: String,
    headline: String,
    run: String,
    script: String,
    status: String,
    done: bool,
    simulated: bool,
    answers: Vec<Told>,
    caveats: Vec<String>,
    missing: Vec<String>,
    facts: Vec<Told>,
    details: Vec<Table>,
    parts: Vec<Section>,
}

/// A term and what is told under it.
#[derive(Serialize)]
pub(super) struct Told {
    term: String,
    told: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    text: String,
    paste: bool,
}

/// A part.
#[derive(Serialize)]
pub(super) struct Section {
    id: String,
    title: String,
    /// Whether its heading is also the title of a figure.
    titles_figure: bool,
    paragraphs: Vec<String>,
    figures: Vec<Figure>,
    tables: Vec<Table>,
    texts: Vec<String>,
}

/// Anchors, or names of files, that are given out.
#[derive(Debug, Default)]
pub struct Anchors(HashSet<String>);

impl Anchors {
    /// One of that name that nothing else has.
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
    pub(super) fn of(stories: &[Story], together: &[Part]) -> Self {
        let mut anchors = Anchors::default();
        // What the page itself calls so.
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
            .map(|part| Section::of(part, "together", &mut anchors))
            .collect();
        let runs = stories.iter().enumerate().map(|(index, story)| {
            let room = if several {
                format!("run-{}", index + 1)
            } else {
                String::new()
            };
            RunView::of(story, &room, &mut anchors)
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
    fn of(story: &Story, room: &str, anchors: &mut Anchors) -> Self {
        Self {
            id: anchors.give(if room.is_empty() { "run" } else { room }),
            headline: story.headline.clone(),
            run: story.run.clone(),
            script: story.script.clone(),
            status: story.status.clone(),
            done: story.status == "done",
            simulated: story.simulated,
            answers: told(&story.answers),
            caveats: story.caveats.clone(),
            missing: story.missing.clone(),
            facts: told(&story.facts),
            details: story.details.iter().map(Table::of).collect(),
            parts: story
                .parts
                .iter()
                .map(|part| Section::of(part, room, anchors))
                .collect(),
        }
    }
}

/// Facts by their terms: what follows under the same term stands with it.
fn told(facts: &[Fact]) -> Vec<Told> {
    let mut all: Vec<Told> = Vec::new();
    for fact in facts {
        let line = Line {
            text: fact.text.clone(),
            paste: fact.paste,
        };
        match all.last_mut() {
            Some(last) if last.term == fact.term => last.told.push(line),
            _ => all.push(Told {
                term: fact.term.clone(),
                told: vec![line],
            }),
        }
    }
    all
}

impl Section {
    fn of(part: &Part, room: &str, anchors: &mut Anchors) -> Self {
        let id = anchors.give(&format!("{room} {}", part.name));
        let mut figure = |plot: &Plot| {
            let id = anchors.give(&format!("{room} figure {}", plot.name));
            Figure::of(plot, &id, &part.title)
        };
        let figures: Vec<Figure> = part.plots.iter().map(&mut figure).collect();
        Self {
            id,
            title: part.title.clone(),
            titles_figure: figures.iter().any(|figure| figure.titled_above),
            paragraphs: part.paragraphs.clone(),
            figures,
            tables: part.sheets.iter().map(Table::of).collect(),
            texts: part.texts.clone(),
        }
    }
}
