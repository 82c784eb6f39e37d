//! The input history: `profiler/history` in the state directory (`$XDG_STATE_HOME`).

use std::path::PathBuf;

use rustyline::Editor;
use rustyline::history::FileHistory;

use crate::fault::{Fault, Result};
use crate::script::repl::LineHelper;

/// Maximum number of inputs.
pub(super) const LENGTH: usize = 10_000;

/// The history file; `None` error a home directory.
pub(super) struct HistoryFile(Option<PathBuf>);

impl HistoryFile {
    /// Opens the file and loads it into the editor. An unusable file is returned as a fault, to be shown as a
    /// warning.
    pub(super) fn open(editor: &mut Editor<LineHelper, FileHistory>) -> (Self, Option<Fault>) {
        let Some(folder) = dirs::state_dir().map(|state| state.join("profiler")) else {
            return (Self(None), None);
        };
        let file = folder.join("history");
        let opened = std::fs::create_dir_all(&folder)
            .map_err(|error| Fault::io(&folder, &error))
            .and_then(|()| match file.exists() {
                true => editor
                    .load_history(&file)
                    .map_err(|error| Fault::usage(format!("`{}`: {error}", file.display()))),
                false => Ok(()),
            });
        match opened {
            Ok(()) => (Self(Some(file)), None),
            Err(fault) => (Self(None), Some(fault.while_doing("no history"))),
        }
    }

    /// Saves an input immediately, as the session may be killed.
    pub(super) fn add(&self, editor: &mut Editor<LineHelper, FileHistory>, input: &str) -> Result<()> {
        let added = editor.add_history_entry(input).and_then(|_| match &self.0 {
            Some(file) => editor.append_history(file),
            None => Ok(()),
        });
        added.map_err(|error| Fault::usage(format!("cannot keep the history: {error}")))
    }
}
