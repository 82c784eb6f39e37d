//! A file of a run that is written: [`world`](crate::world) hears of each change before it is made.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Deref;
use std::path::PathBuf;

use crate::world::{Change, change};

/// An open file, with the path under which it was opened.
#[derive(Debug)]
pub struct WrittenFile {
    file: File,
    path: PathBuf,
}

impl WrittenFile {
    pub(super) fn new(file: File, path: PathBuf) -> Self {
        Self { file, path }
    }

    pub(super) fn set_len(&self, length: u64) -> io::Result<()> {
        change(Change::Cut(&self.path, length))?;
        self.file.set_len(length)
    }

    pub(super) fn sync_data(&self) -> io::Result<()> {
        change(Change::Sync(&self.path))?;
        self.file.sync_data()
    }

    pub(super) fn sync_all(&self) -> io::Result<()> {
        change(Change::Sync(&self.path))?;
        self.file.sync_all()
    }
}

/// To read it, lock it, and ask about it.
impl Deref for WrittenFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Write for WrittenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        change(Change::Write(&self.path, bytes))?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
