//! The raw records of a load on disk: one line a request, as it ends, so that what was measured is there whatever happens next.

use std::fs::File;
use std::io::{LineWriter, Write};
use std::path::{Path, PathBuf};

use crate::fault::{Fault, Result};
use crate::load::Record;

/// Where records are kept; nowhere in a run that leaves no folder.
pub(super) struct Keep {
    file: Option<(PathBuf, LineWriter<File>)>,
    repeat: u64,
}

impl Keep {
    /// Records of this repeat, from 1, go to the end of this file.
    ///
    /// # Errors
    ///
    /// `io` when it cannot be made.
    pub(super) fn open(path: Option<&Path>, repeat: u64) -> Result<Self> {
        let file = path.map(|path| {
            let file = File::options().create(true).append(true).open(path);
            let file = file.map_err(|error| Fault::io(path, &error))?;
            Ok((path.to_owned(), LineWriter::new(file)))
        });
        Ok(Self {
            file: file.transpose()?,
            repeat,
        })
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
