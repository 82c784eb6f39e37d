//! The content of a run's page, independent of HTML: answers, caveats, facts about the run, and a section for each kind
//! of result.
//!
//! Everything is read from the run folder, which may be damaged. `Document::missing` then says what could not be shown.

mod answers;
mod boundaries;
mod breakdowns;
mod experiments;
mod facts;
mod foreign;
mod jobs;
mod loads;
mod memory;
mod serving;
mod source;
mod together;

pub use boundaries::overview;
pub use breakdowns::{breakdown, finding as breakdown_finding};
pub use experiments::{experiment, findings as experiment_findings, planned_starts};
pub use foreign::{comparison_input, imported};
pub use jobs::{job_result, jobs_text};
pub use loads::trials_sheet;
pub use memory::{memory, stages_sheet};
pub use serving::{serving_section, serving_sketch};
pub use source::PAGE;
pub use together::Together;

pub use answers::findings as run_findings;
pub(super) use answers::missing;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::document::{Block, Section, Weight, markdown};
use super::plot::{Entry, Plot, Sheet};
use super::{Fact, Page, WarningGroup, group_warnings, simulated_notice};
use crate::compare::export::stored_tables;
use crate::csv;
use crate::fault::Result;
use crate::run::{Folder, RecordedRun};
use source::Source;

/// The width and characters of boundary drawings in Markdown.
const MARKDOWN: Page = Page {
    width: 80,
    unicode: true,
    colour: false,
};

/// The content of the page of one run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Document {
    /// The run's id.
    pub run: String,
    /// The script as the user named it.
    pub script: String,
    /// The result in one line: `input=4012 output=3891 fits: …`.
    pub headline: String,
    /// The models and GPUs.
    pub subject: String,
    /// Its status: `done`, `failed: …`, `interrupted`, `out of time: …`, `not finished: …`.
    pub status: String,
    /// The notice of what was simulated, if anything was.
    pub simulated: Option<String>,
    /// The main results, most important first: largest safe lengths, why the next point fails, flags to paste.
    pub answers: Vec<Fact>,
    /// Warnings that the reader must know before trusting a number.
    pub caveats: Vec<String>,
    /// Missing or unreadable parts of the folder, and what the page leaves out because of them.
    pub missing: Vec<String>,
    /// How the run was made: model, engine, versions, GPU, driver, flags, script and hash, seed, command to reproduce
    /// it.
    pub facts: Vec<Fact>,
    /// More about how it was made, as tables: parameters, modules.
    #[serde(skip)]
    pub details: Vec<Sheet>,
    /// The results.
    #[serde(skip)]
    pub sections: Vec<Section>,
}

/// The run in `folder` as Markdown: the answer, then everything on its page, with charts as text and tables.
///
/// # Errors
///
/// `io` and `usage` if the folder holds no readable run.
pub fn run_markdown(folder: &Path) -> Result<String> {
    let folder = Folder::open(folder)?;
    let found = RecordedRun::from_folder(&folder)?;
    let mut source = Source::new(folder, &found);
    source.sketches = Some(MARKDOWN);
    let document = build(&source);
    let mut warnings = Vec::new();
    warnings.extend(document.simulated);
    if !found.done() {
        warnings.push(format!("This run did not come to its end: {}", document.status));
    }
    warnings.extend(document.missing.iter().map(|text| format!("Missing: {text}")));
    let mut subject = vec![document.script, document.subject, document.run];
    subject.retain(|text| !text.is_empty());
    let mut sections = vec![
        Section::new("", "")
            .with(Block::warnings(warnings))
            .with([subject.join(" · ")])
            .with([Block::Facts(document.answers)])
            .with(Block::list("What to know first", document.caveats, Weight::Normal)),
    ];
    sections.extend(document.sections);
    sections.push(
        Section::new("", "What was run")
            .with([Block::Facts(document.facts)])
            .with(document.details.into_iter().map(Block::Folded)),
    );
    Ok(markdown(&document.headline, &sections))
}

/// The content of the pages of several runs, and their comparison (empty for a single run).
///
/// # Errors
///
/// As [`run_markdown`].
pub fn documents(folders: &[PathBuf]) -> Result<(Vec<Document>, Together)> {
    let folders: Vec<Folder> = folders.iter().map(|path| Folder::open(path)).collect::<Result<_>>()?;
    let found: Vec<RecordedRun> = folders.iter().map(RecordedRun::from_folder).collect::<Result<_>>()?;
    let sources: Vec<Source> = folders
        .into_iter()
        .zip(&found)
        .map(|(folder, found)| Source::new(folder, found))
        .collect();
    Ok((sources.iter().map(build).collect(), together::together(&sources)))
}

/// The content of the page that lies in the run's own folder, and links to files there.
///
/// # Errors
///
/// As [`run_markdown`].
pub fn own_document(folder: &Path) -> Result<Document> {
    let folder = Folder::open(folder)?;
    let found = RecordedRun::from_folder(&folder)?;
    let mut source = Source::new(folder, &found);
    source.in_folder = true;
    Ok(build(&source))
}

/// The content of the page of one run.
#[cfg(test)]
fn document(folder: &Path) -> Result<Document> {
    Ok(documents(&[folder.to_owned()])?.0.remove(0))
}

fn build(source: &Source) -> Document {
    let found = source.found;
    let mut missing = found.missing.clone();
    // Main results first. Memory over time is in nearly every run and seldom its question.
    let builders = [
        jobs::sections,
        boundaries::sections,
        experiments::sections,
        loads::sections,
        serving::sections,
        breakdowns::sections,
        memory::sections,
        script_output,
    ];
    let warnings = group_warnings(&found.totals.warnings, &found.load_warnings());
    let mut sections: Vec<Section> = builders.iter().flat_map(|make| make(source, &mut missing)).collect();
    sections.retain(|section| !section.blocks.is_empty());
    Document {
        run: found.manifest.run.clone(),
        script: found.manifest.script.path.clone(),
        headline: answers::headline(source),
        subject: answers::subject(source),
        status: found.ended(),
        simulated: simulated_notice(found),
        answers: answers::answers(source),
        caveats: warnings.iter().map(WarningGroup::sentence).collect(),
        facts: facts::facts(source),
        details: facts::details(source, &warnings),
        missing,
        sections,
    }
}

/// Maximum number of rows shown of a stored table; its file has all.
const MAX_ROWS: usize = 200;

/// The sections. Unreadable data are reported in `missing`.
fn script_output(source: &Source, missing: &mut Vec<String>) -> Vec<Section> {
    let found = source.found;
    let mut plots = Vec::new();
    for (name, value) in &found.plots {
        match Plot::deserialize(value) {
            Ok(plot) => plots.push(plot),
            Err(error) => missing.push(format!(
                "the chart `{name}` that the script drew cannot be read: {error}"
            )),
        }
    }
    // Texts about jobs are in the section on jobs.
    let shown = found.shown.iter().filter(|_| found.jobs.is_empty());
    let texts = shown.map(|(_, text)| Block::Text(text.clone()));
    let recorded = found
        .records
        .iter()
        .map(|(name, value)| vec![name.as_str().into(), value.to_string().into()]);
    let recorded_table = (!found.records.is_empty()).then(|| Sheet::new(["name", "value"], recorded));
    let mut tables = Vec::new();
    for table in stored_tables(&source.folder, missing) {
        let file = format!("{}.csv", table.name);
        match stored_sheet(&file, &table.text) {
            Ok(sheet) => tables.push(Block::Folded(sheet)),
            Err(why) => missing.push(format!("`{file}` cannot be read: {why}")),
        }
    }
    vec![
        Section::new("drawn", "What the script shows").with(plots).with(texts),
        Section::new("records", "What the script recorded").with(recorded_table),
        Section::new("tables", "Tables that the script kept").with(tables),
    ]
}

/// A table without empty columns.
fn stored_sheet(file: &str, text: &str) -> Result<Sheet, String> {
    let (columns, rows) = csv::sheet(text)?;
    let entry = |text: &String| match text.parse::<f64>() {
        _ if matches!(text.as_str(), "" | "[]") => Entry::None,
        Ok(number) if number.is_finite() => number.into(),
        _ => text.as_str().into(),
    };
    let title = match rows.len() {
        ..=MAX_ROWS => file.to_owned(),
        all => format!("{file}, the first {MAX_ROWS} of {all} rows"),
    };
    let shown = rows.iter().take(MAX_ROWS).map(|row| row.iter().map(entry).collect());
    Ok(Sheet::new(columns, shown).filled().titled(title))
}
