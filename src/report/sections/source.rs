//! The run that the sections of a page are made from.

use crate::boundary::Boundary;
use crate::fault::Result;
use crate::report::Page;
use crate::run::{Folder, RecordedBoundary, RecordedRun};

/// The page's file name, in the run's folder or, for several runs, the current one.
pub const PAGE: &str = "report.html";

/// The run that sections are made from.
pub(super) struct Source<'a> {
    pub(super) folder: Folder,
    pub(super) found: &'a RecordedRun,
    /// The page for which boundaries are drawn in characters; `None` if charts show them.
    pub(super) sketches: Option<Page>,
    /// Whether the page is for the run's own folder, so that it can link to files there.
    pub(super) in_folder: bool,
    /// In the order of creation; a fault if the journal's entry is invalid.
    pub(super) boundaries: Vec<(&'a RecordedBoundary, Result<Boundary>)>,
}

impl<'a> Source<'a> {
    pub(super) fn new(folder: Folder, found: &'a RecordedRun) -> Self {
        Self {
            folder,
            found,
            sketches: None,
            in_folder: false,
            boundaries: found.drawn().map(|one| (one, one.rebuild())).collect(),
        }
    }
}

/// The name of one of several, `load-2`, or of the only one, `load`.
pub(super) fn numbered(name: &str, number: usize, several: bool) -> String {
    if several {
        format!("{name}-{number}")
    } else {
        name.to_owned()
    }
}
