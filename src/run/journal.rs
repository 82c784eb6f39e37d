//! The journal: one line of JSON per event, appended as it happens.
//!
//! Events that must survive a power failure are synced before the run continues. Others reach the page cache at once,
//! which survives `kill -9`, and the disk within a second. The lock on the file is the lock on the run's folder.

use std::fs::{File, TryLockError};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::folder::{Folder, read_line};
use super::{Event, folder, secrets};
use crate::fault::{Fault, Kind, Result};

pub(super) const JOURNAL: &str = "journal.jsonl";

/// How long an event that need not be synced may stay in the page cache.
const SYNC_AFTER: Duration = Duration::from_secs(1);

/// One line. `E` is an [`Event`], or a reference to one that is written.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry<E = Event> {
    #[serde(flatten)]
    pub(super) event: E,
    /// The time, UTC.
    pub(super) time: String,
    /// The place of a checksum over this line and the one before: always the last key. Nothing writes one yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sum: Option<String>,
}

impl<'a> Entry<&'a Event> {
    fn now(event: &'a Event) -> Self {
        Self {
            event,
            time: folder::now(),
            sum: None,
        }
    }
}

/// The journal of a run under way, locked against other processes.
pub(super) struct Journal {
    file: File,
    path: PathBuf,
    /// Bytes of complete lines.
    length: u64,
    synced: Instant,
}

impl Journal {
    /// Continues the journal of an earlier execution. There may be none: in a new folder, and after a kill at the start.
    /// Passes its events to `each`, and cuts off a torn last line. Any other unreadable line is an error.
    pub(super) fn open(folder: &Folder, mut each: impl FnMut(Event)) -> Result<Self> {
        let path = folder.path().join(JOURNAL);
        let mut journal = Self::from_file(folder.append(JOURNAL.as_ref())?, &path)?;
        let extent = read_lines(&journal.file, &path, |number, entry| {
            each(entry.map_err(|error| damaged(&path, number, &error))?.event);
            Ok(())
        })?;
        journal.length = extent.complete_bytes;
        let cut = journal.file.set_len(journal.length);
        cut.map_err(|error| Fault::io(&path, &error)).map(|()| journal)
    }

    /// Whether it has no event.
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn from_file(file: File, path: &Path) -> Result<Self> {
        lock(&file, path)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            length: 0,
            synced: Instant::now(),
        })
    }

    /// Appends an event. A failed write leaves no torn line, so that earlier events stay readable.
    pub(super) fn append(&mut self, event: &Event) -> Result<()> {
        let line = serde_json::to_string(&Entry::now(event))
            .map_err(|error| Fault::internal(format!("an event that cannot be written: {error}")))?;
        let mut line = secrets::hide_json(line);
        line.push('\n');
        self.write(line.as_bytes(), event.must_sync()).map_err(|error| {
            // If truncating fails too, the next resume cuts the torn line.
            let _ = self.file.set_len(self.length);
            Fault::io(&self.path, &error)
        })
    }

    fn write(&mut self, line: &[u8], must_sync: bool) -> std::io::Result<()> {
        self.file.write_all(line)?;
        if must_sync || self.synced.elapsed() > SYNC_AFTER {
            self.file.sync_data()?;
            self.synced = Instant::now();
        }
        self.length += line.len() as u64;
        Ok(())
    }
}

/// The lock is released with the file, however the process ends.
fn lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let folder = path.parent().unwrap_or(path).display();
            Err(Fault::usage(format!("another profiler is using the run in `{folder}`"))
                .hint("wait for it to end, or stop it, and resume then"))
        }
        Err(TryLockError::Error(error)) => Err(Fault::io(path, &error)),
    }
}

/// How much of a journal can be read.
pub(super) struct Extent {
    /// Bytes up to the end of the last complete line.
    pub(super) complete_bytes: u64,
    /// Whether anything follows: a line that was being written when the process died.
    pub(super) torn: bool,
}

/// The error for a complete line that cannot be parsed.
pub(super) fn damaged(path: &Path, number: usize, error: &serde_json::Error) -> Fault {
    let message = format!("`{}`, line {number}: {error}", path.display());
    Fault::new(Kind::Io, message).hint("the file was changed or damaged; remove the line to do without what it says")
}

/// Reads every complete line, parsed or not, with its number from 1.
pub(super) fn read_lines(
    file: &File,
    path: &Path,
    mut each: impl FnMut(usize, serde_json::Result<Entry>) -> Result<()>,
) -> Result<Extent> {
    let io = |error: std::io::Error| Fault::io(path, &error);
    let mut reader = BufReader::new(file);
    reader.seek(SeekFrom::Start(0)).map_err(io)?;
    let (mut complete_bytes, mut number, mut line) = (0, 0, Vec::new());
    loop {
        line.clear();
        let length = read_line(&mut reader, &mut line).map_err(io)?;
        if line.last() != Some(&b'\n') {
            return Ok(Extent {
                complete_bytes,
                torn: length > 0,
            });
        }
        number += 1;
        let entry = serde_json::from_slice(&line);
        // After a power failure, the blocks of the last line may be missing.
        if entry.is_err() && reader.fill_buf().map_err(io)?.is_empty() {
            return Ok(Extent {
                complete_bytes,
                torn: true,
            });
        }
        complete_bytes += length as u64;
        each(number, entry)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn done(number: u64) -> Event {
        Event::Done {
            kind: "probe".into(),
            args: json!({ "input": number }),
            answer: json!({ "verdict": "ok", "ttft_ms": 1.5 }),
        }
    }

    fn reopen(folder: &Path) -> Result<(Vec<Event>, Journal)> {
        let mut events = Vec::new();
        let journal = Journal::open(&Folder::open(folder)?, |event| events.push(event))?;
        Ok((events, journal))
    }

    #[test]
    fn a_journal_cut_at_any_byte_gives_its_complete_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let mut journal = Journal::open(&Folder::open(folder.path()).unwrap(), |_| ()).unwrap();
        let written: Vec<Event> = (0..3).map(done).collect();
        written.iter().for_each(|event| journal.append(event).unwrap());
        drop(journal);
        let bytes = std::fs::read(&path).unwrap();
        for cut in 0..=bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let lines = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
            let (events, mut journal) = reopen(folder.path()).unwrap();
            assert_eq!(events, written[..lines], "cut after {cut} bytes");
            journal.append(&done(9)).unwrap();
            drop(journal);
            let (events, _) = reopen(folder.path()).unwrap();
            assert_eq!(events.last(), Some(&done(9)), "cut after {cut} bytes");
        }
    }

    #[test]
    fn a_damaged_line_in_the_middle_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let good = serde_json::to_string(&Entry::now(&done(1))).unwrap();
        std::fs::write(&path, format!("{good}\n{{\"event\":\"po\0\n{good}\n")).unwrap();
        let fault = reopen(folder.path()).err().unwrap();
        assert!(fault.message.contains("line 2"), "{fault}");
        std::fs::write(&path, format!("{good}\n\0\0\0\0\n")).unwrap();
        let (events, _) = reopen(folder.path()).unwrap();
        assert_eq!(events.len(), 1, "a last line of zeros never reached the disk");
    }

    #[test]
    fn a_line_with_a_checksum_or_an_unknown_key_is_read() {
        let event = done(1);
        let entry = Entry {
            sum: Some("0".to_owned()),
            ..Entry::now(&event)
        };
        let line = serde_json::to_string(&entry).unwrap();
        assert!(line.ends_with(r#","sum":"0"}"#), "{line}");
        let later = line.replace("\"sum\"", "\"later\"");
        for line in [line, later] {
            assert_eq!(serde_json::from_str::<Entry>(&line).unwrap().event, done(1));
        }
    }

    #[test]
    fn two_processes_cannot_lock_one_journal() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(&Folder::open(folder.path()).unwrap(), |_| ()).unwrap();
        assert_eq!(reopen(folder.path()).err().unwrap().kind, Kind::Usage);
        drop(journal);
        assert!(reopen(folder.path()).is_ok());
    }

    #[test]
    fn a_full_disk_is_a_missing_fault() {
        let Ok(full) = File::options().append(true).open("/dev/full") else {
            return;
        };
        let mut journal = Journal::from_file(full, Path::new("/dev/full")).unwrap();
        let fault = journal.append(&done(1)).unwrap_err();
        assert_eq!((fault.kind, fault.kind.exit_code()), (Kind::Missing, 3));
        assert!(fault.hint.unwrap().contains("--out"));
    }
}
