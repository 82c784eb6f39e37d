//! What a report tells of a run, before it is a page: the answers first, then what must be known to trust them, what was run, and a part for each
//! thing that was measured. Made from the run's folder alone, whole or broken: what is missing is said, and the rest is told.

mod answers;
mod boundaries;
mod breakdowns;
mod components;
mod drawn;
mod evidence;
mod experiments;
mod facts;
mod loads;
mod memory;
mod neighbour;
mod repeat;
mod together;

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::plot::{Plot, Sheet};
use super::{Alike, alike};
use crate::boundary::Boundary;
use crate::fault::Result;
use crate::run::{Folder, Found};

/// What a report tells of one run.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// The run's id.
    pub run: String,
    /// The script as the user named it.
    pub script: String,
    /// What was found, in one line: `input=4012 output=3891 fits: …`.
    pub headline: String,
    /// How it ended: `done`, `failed: …`, `interrupted`, `not finished: …`.
    pub status: String,
    /// Whether anything in it was simulated.
    pub simulated: bool,
    /// What was found, the most wanted first: the largest safe lengths, why the neighbour fails, the flags to paste.
    pub answers: Vec<Fact>,
    /// Warnings and caveats: what the reader must know before believing a figure.
    pub caveats: Vec<String>,
    /// What the folder lacks, each with what is therefore not told.
    pub missing: Vec<String>,
    /// What was run: model, engine, versions, GPU, driver, flags, script with its hash, seed, the command that repeats it.
    pub facts: Vec<Fact>,
    /// The rest of what was run, as tables: parameters, modules.
    pub details: Vec<Sheet>,
    /// What was measured.
    pub parts: Vec<Part>,
}

/// Something named.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Its name: `model`.
    pub term: String,
    /// What it is.
    pub text: String,
    /// Whether it is to be pasted: shown as typed, with a button that copies it.
    pub paste: bool,
}

impl Fact {
    /// Something told.
    fn told(term: &str, text: impl Into<String>) -> Self {
        Self {
            term: term.to_owned(),
            text: text.into(),
            paste: false,
        }
    }

    /// Something to be pasted.
    fn typed(term: &str, text: impl Into<String>) -> Self {
        Self {
            paste: true,
            ..Self::told(term, text)
        }
    }
}

/// A part of a report.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Its anchor: `a-z`, `0-9` and `-`; unique within the report of a run.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// What it says in sentences.
    pub paragraphs: Vec<String>,
    /// Its pictures.
    pub plots: Vec<Plot>,
    /// Its tables, beyond those of the pictures.
    pub sheets: Vec<Sheet>,
    /// Texts that are shown as they were drawn for a terminal.
    pub texts: Vec<String>,
}

/// What the parts are made of.
struct Source<'a> {
    /// The run's folder.
    folder: Folder,
    /// What was read of it.
    found: &'a Found,
    boundaries: OnceCell<Vec<Rebuilt<'a>>>,
}

/// A boundary of the run, with its points.
struct Rebuilt<'a> {
    /// The boundary; the fault where the journal's is none.
    rebuilt: Result<Boundary>,
    /// What `report(map)` gave, if it was called.
    report: Option<&'a Value>,
}

impl<'a> Source<'a> {
    fn new(folder: Folder, found: &'a Found) -> Self {
        Self {
            folder,
            found,
            boundaries: OnceCell::new(),
        }
    }

    /// The boundaries of the run in the order in which the script made them; made when first asked for.
    fn boundaries(&self) -> &[Rebuilt<'a>] {
        self.boundaries.get_or_init(|| {
            let described = self
                .found
                .boundaries
                .iter()
                .filter(|boundary| !boundary.described.is_null());
            let rebuilt = described.map(|boundary| Rebuilt {
                rebuilt: boundary.rebuild(),
                report: boundary.report.as_ref(),
            });
            rebuilt.collect()
        })
    }
}

/// Tells what the folder of a run holds.
///
/// # Errors
///
/// `io` and `usage` where nothing of a run can be read at all.
pub fn tell(folder: &Path) -> Result<Story> {
    let folder = Folder::open(folder)?;
    let found = Found::of(&folder)?;
    Ok(story(&Source::new(folder, &found)))
}

/// Tells what the folders of several runs hold, and what the runs have in common: nothing for fewer than two.
///
/// # Errors
///
/// As [`tell`].
pub fn tell_all(folders: &[PathBuf]) -> Result<(Vec<Story>, Vec<Part>)> {
    let folders: Vec<Folder> = folders.iter().map(|path| Folder::open(path)).collect::<Result<_>>()?;
    let found: Vec<Found> = folders.iter().map(Found::of).collect::<Result<_>>()?;
    let sources: Vec<Source> = folders
        .into_iter()
        .zip(&found)
        .map(|(folder, found)| Source::new(folder, found))
        .collect();
    Ok((sources.iter().map(story).collect(), together::together(&sources)))
}

fn story(source: &Source) -> Story {
    let found = source.found;
    let mut missing = found.missing.clone();
    // What scripts are run to find comes first; memory over time is in nearly every run, and seldom its question.
    let makers = [
        boundaries::parts,
        experiments::parts,
        loads::parts,
        breakdowns::parts,
        memory::parts,
        drawn::parts,
    ];
    let warnings = alike(found.warnings(), &found.load_warnings());
    let parts = makers.iter().flat_map(|make| make(source, &mut missing)).collect();
    Story {
        run: found.manifest.run.clone(),
        script: found.manifest.script.path.clone(),
        headline: answers::headline(source),
        status: found.ended(),
        simulated: found.manifest.simulated,
        answers: answers::answers(source),
        caveats: warnings.iter().map(Alike::sentence).collect(),
        facts: facts::facts(source),
        details: facts::details(source, &warnings),
        missing,
        parts,
    }
}
