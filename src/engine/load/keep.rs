//! The raw records of a load on disk: one line a request, as it ends, so that what was measured is there whatever happens next.

use std::fs::File;
use std::io::{LineWriter, Write};
use std::path::PathBuf;

use crate::fault::{Fault, Result};
use crate::load::Record;

/// Where records are kept; nowhere in a run that leaves no folder.
pub(super) struct Keep {
    file: Option<(PathBuf, LineWriter<File>)>,
    repeat: u64,
}

impl Keep {
    /// Records of this repeat, from 1, go to the end of this file.
    pub(super) fn new(file: Option<(PathBuf, File)>, repeat: u64) -> Self {
        Self {
            file: file.map(|(path, file)| (path, LineWriter::new(file))),
            repeat,
        }
    }

    /// Keeps a request that has ended.
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

/// What the other files of a repeat are called: of load 3 `3`, of its second repeat `3-repeat-2`.
pub(super) fn stem(number: u64, repeat: u64) -> String {
    match repeat {
        1 => number.to_string(),
        _ => format!("{number}-repeat-{repeat}"),
    }
}
