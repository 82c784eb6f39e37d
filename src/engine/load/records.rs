//! Writes a load's records to disk, one JSON line per finished request, so that nothing is lost in a crash.

use std::fs::File;
use std::io::{LineWriter, Write};
use std::path::PathBuf;

use crate::fault::{Fault, Result};
use crate::load::Record;

/// Writes nothing in a run without a folder.
pub(super) struct RecordWriter {
    file: Option<(PathBuf, LineWriter<File>)>,
    repeat: u64,
}

impl RecordWriter {
    /// Appends the records of this repeat, counted from 1.
    pub(super) fn new(file: Option<(PathBuf, File)>, repeat: u64) -> Self {
        Self {
            file: file.map(|(path, file)| (path, LineWriter::new(file))),
            repeat,
        }
    }

    pub(super) fn write(&mut self, record: &Record, warmup: bool) -> Result<()> {
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        let mut record = record.clone();
        record.warmup = warmup;
        let line = record.to_line(self.repeat)?;
        writeln!(file, "{line}").map_err(|error| Fault::io(path, &error))
    }
}

/// Base name of a repeat's files: `3` for load 3, `3-repeat-2` for its second repeat.
pub(super) fn file_stem(number: u64, repeat: u64) -> String {
    match repeat {
        1 => number.to_string(),
        _ => format!("{number}-repeat-{repeat}"),
    }
}
