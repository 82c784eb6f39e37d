//! The journal: one line of JSON per event, appended as it happens.
//!
//! Each line ends with `sum`, a checksum over it and all lines before it, so a change to any line is noticed. It
//! detects damage, not forgery: an attacker can write new checksums.
//!
//! Events that must survive a power failure are synced before the run continues. Others reach the page cache at once,
//! which survives `kill -9`, and the disk within a second. The lock on the file is the lock on the run's folder.

use std::borrow::Cow;
use std::fs::{File, TryLockError};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::disk::WrittenFile;
use super::folder::{self, Folder, read_line};
use super::reference::Waiting;
use super::secrets;
use super::{Event, engine_number};
use crate::fault::{Fault, Kind, Result};
use crate::outside;

pub(crate) const JOURNAL: &str = "journal.jsonl";

/// How long an event that need not be synced may stay in the page cache.
const SYNC_AFTER: Duration = Duration::from_secs(1);

/// Where a resume puts the lines that it does not trust.
const DAMAGED: &str = "journal.damaged.jsonl";

/// One line without its checksum. `E` is an [`Event`], or a reference to one that is written.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry<E = Event> {
    #[serde(flatten)]
    pub(super) event: E,
    /// Which of several engines it is about, from 1; `None` if there is only one engine, or for other events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) engine: Option<u64>,
    /// The time, UTC.
    pub(super) time: String,
}

impl<'a> Entry<&'a Event> {
    fn now(event: &'a Event) -> Self {
        Self {
            event,
            engine: engine_number(),
            time: folder::now(),
        }
    }
}

/// The checksum over all lines up to one: SHA-256 of the previous checksum and the line without its own checksum.
#[derive(Clone, Default)]
struct Chain(Vec<u8>);

/// The text around the 16 hexadecimal digits of a checksum, at the end of a line.
const SUM: &str = r#","sum":""#;
const END: &str = r#""}"#;
const DIGITS: usize = 16;

impl Chain {
    /// Adds a line without its checksum, and returns the checksum.
    fn add(&mut self, line: &[u8]) -> String {
        let hash = Sha256::new().chain_update(&self.0).chain_update(line);
        self.0 = hash.finalize().to_vec();
        self.0[..DIGITS / 2].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Splits a line into the part covered by its checksum, and the checksum if it has one.
fn without_sum(line: &[u8]) -> (Cow<'_, [u8]>, Option<&[u8]>) {
    let parts = line.strip_suffix(END.as_bytes()).and_then(|line| {
        let (line, sum) = line.split_at_checked(line.len().checked_sub(DIGITS)?)?;
        Some((line.strip_suffix(SUM.as_bytes())?, sum))
    });
    match parts {
        Some((line, sum)) => ([line, b"}"].concat().into(), Some(sum)),
        None => (line.into(), None),
    }
}

/// The journal of a run under way, locked against other processes.
pub(super) struct Journal {
    file: WrittenFile,
    path: PathBuf,
    /// Bytes of complete lines.
    length: u64,
    chain: Chain,
    waiting: Waiting,
    synced: Instant,
}

impl Journal {
    /// Continues the journal of an earlier execution. It may not exist: in a new folder, or after a kill at the start.
    /// Passes its events to `each`, cuts off a torn last line, and sets aside untrusted lines. Any other unreadable
    /// line is an error. Also returns a note about the lines set aside.
    pub(super) fn open(folder: &Folder, mut each: impl FnMut(Option<u64>, Event)) -> Result<(Self, Option<String>)> {
        let path = folder.path().join(JOURNAL);
        let file = folder.append(JOURNAL.as_ref())?;
        lock(&file, &path)?;
        let extent = read_lines(&file, &path, |number, entry| {
            let entry = entry.map_err(|error| damaged(&path, number, &error))?;
            each(entry.engine, entry.event);
            Ok(())
        })?;
        let mut note = None;
        if let Some(distrust) = &extent.distrust {
            let name = folder.free_name(DAMAGED.as_ref())?;
            let moved = copy_rest(&file, extent.bytes, folder.append(&name)?);
            moved.map_err(|error| Fault::io(&folder.path().join(&name), &error))?;
            note = Some(format!(
                "journal.jsonl: {distrust}; they were moved to {}",
                name.display()
            ));
        }
        file.set_len(extent.bytes).map_err(|error| Fault::io(&path, &error))?;
        let journal = Self {
            file,
            path,
            length: extent.bytes,
            chain: extent.chain,
            waiting: extent.waiting,
            synced: Instant::now(),
        };
        Ok((journal, note))
    }

    /// Whether the journal has no events.
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends an event, if `may_write` allows a line of its length. A failed write leaves no torn line, so earlier
    /// events stay readable.
    pub(super) fn append(&mut self, event: &Event, may_write: impl FnOnce(usize) -> Result<()>) -> Result<()> {
        let shortened = self.shortened(event);
        let line = serde_json::to_string(&Entry::now(shortened.as_ref().unwrap_or(event)))
            .map_err(|error| Fault::internal(format!("an event that cannot be written: {error}")))?;
        let mut line = secrets::hide_json(line);
        let mut chain = self.chain.clone();
        let sum = chain.add(line.as_bytes());
        line.pop();
        line.extend([SUM, &sum, END, "\n"]);
        may_write(line.len())?;
        if let Ok(data) = self.file.metadata() {
            if data.len() > self.length {
                // Locks do not work between some machines, so two runs may have the journal open.
                let message = format!("another process writes to `{}`", self.path.display());
                return Err(Fault::new(Kind::Io, message).hint("let one run at a time use the folder"));
            }
            if data.nlink() == 0 && event.must_sync() {
                // Writes to a removed file are lost without an error.
                let message = format!("`{}` was removed while the run was under way", self.path.display());
                return Err(
                    Fault::new(Kind::Io, message).hint("start the run again, and leave its folder alone while it runs")
                );
            }
        }
        self.write(line.as_bytes(), event.must_sync()).map_err(|error| {
            // If truncating fails too, the next resume cuts the torn line.
            let _ = self.file.set_len(self.length);
            Fault::io(&self.path, &error)
        })?;
        self.chain = chain;
        self.waiting.add(event);
        Ok(())
    }

    /// The point event without the parts that its probe's answer already has; `None` for other events.
    fn shortened(&self, event: &Event) -> Option<Event> {
        let Event::Point { answer: recorded, .. } = event else {
            return None;
        };
        let shortened = self.waiting.shortened(recorded)?;
        let mut event = event.clone();
        if let Event::Point { answer, .. } = &mut event {
            *answer = shortened;
        }
        Some(event)
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

/// Locks the file. The lock is released with the file, however the process ends.
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

/// The trusted part of a journal.
#[derive(Default)]
pub(super) struct Extent {
    /// The number of trusted lines, and their bytes.
    lines: usize,
    bytes: u64,
    /// The checksum over these lines.
    chain: Chain,
    /// Answers of probes that no point refers to yet.
    waiting: Waiting,
    /// Whether the last line is incomplete: it was being written when the process died.
    pub(super) torn: bool,
    /// Why the remaining lines are not trusted, if there are any.
    pub(super) distrust: Option<String>,
}

/// The note about lines that are not used. The changed line is between `first`, the first unverified line, and
/// `noticed`, the first one that does not match its checksum.
fn distrust(first: usize, noticed: usize, last: usize) -> String {
    let changed = if first == noticed {
        format!("line {first}")
    } else {
        format!("one of lines {first} to {noticed}")
    };
    let unused = if first == last {
        "it is not used".to_owned()
    } else {
        format!("lines {first} to {last} are not used")
    };
    format!("{changed} was changed after it was written: {unused}")
}

/// The error for a complete line that cannot be parsed.
pub(super) fn damaged(path: &Path, number: usize, error: &serde_json::Error) -> Fault {
    let message = format!("`{}`, line {number}: {error}", path.display());
    Fault::new(Kind::Io, message).hint("the file was changed or damaged; remove the line to do without what it says")
}

/// Reads every line that can be trusted, parsed or not, with its number from 1.
pub(super) fn read_lines(
    file: &File,
    path: &Path,
    mut each: impl FnMut(usize, serde_json::Result<Entry>) -> Result<()>,
) -> Result<Extent> {
    let io = |error: std::io::Error| Fault::io(path, &error);
    let mut extent = check(file).map_err(io)?;
    let mut reader = BufReader::new(file);
    reader.seek(SeekFrom::Start(0)).map_err(io)?;
    let mut line = Vec::new();
    for number in 1..=extent.lines {
        line.clear();
        read_line(&mut reader, &mut line).map_err(io)?;
        let mut entry = outside::json::<Entry>(&line);
        if let Ok(entry) = &mut entry {
            if let Event::Point { answer, .. } = &mut entry.event {
                extent.waiting.complete(answer);
            }
            extent.waiting.add(&entry.event);
        }
        each(number, entry)?;
    }
    Ok(extent)
}

/// Verifies the checksums of all lines.
fn check(file: &File) -> std::io::Result<Extent> {
    let mut reader = BufReader::new(file);
    reader.seek(SeekFrom::Start(0))?;
    let mut extent = Extent::default();
    let (mut lines, mut bytes, mut chain, mut line) = (0, 0, Chain::default(), Vec::new());
    loop {
        line.clear();
        let length = read_line(&mut reader, &mut line)?;
        if line.pop_if(|end| *end == b'\n').is_none() {
            extent.torn = length > 0;
            break;
        }
        // After a power failure, the blocks of the last line may be missing.
        if reader.fill_buf()?.is_empty() && serde_json::from_slice::<IgnoredAny>(&line).is_err() {
            extent.torn = true;
            break;
        }
        lines += 1;
        bytes += length as u64;
        let (covered, sum) = without_sum(&line);
        let expected = chain.add(&covered);
        match sum {
            Some(sum) if *sum == *expected.as_bytes() => {
                (extent.lines, extent.bytes, extent.chain) = (lines, bytes, chain.clone());
            }
            _ => {
                let last = lines + reader.split(b'\n').count();
                extent.distrust = Some(distrust(extent.lines + 1, lines, last));
                return Ok(extent);
            }
        }
    }
    Ok(extent)
}

/// Copies the bytes from offset `after` to the end.
fn copy_rest(mut from: &File, after: u64, mut to: WrittenFile) -> std::io::Result<()> {
    from.seek(SeekFrom::Start(after))?;
    std::io::copy(&mut from, &mut to)?;
    to.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary::Point;
    use crate::run::Operation;
    use serde_json::json;
    use tempfile::TempDir;

    fn done(number: u64) -> Event {
        Event::Done {
            id: number,
            args: json!({ "input": number }),
            operation: Operation::File(json!("text")),
        }
    }

    fn reopen(folder: &Path) -> Result<(Vec<Event>, Journal, Option<String>)> {
        let mut events = Vec::new();
        let (journal, note) = Journal::open(&Folder::open(folder)?, |_, event| events.push(event))?;
        Ok((events, journal, note))
    }

    /// A folder with a journal of these events.
    fn written(events: &[Event]) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (_, mut journal, _) = reopen(folder.path()).unwrap();
        for event in events {
            journal.append(event, |_| Ok(())).unwrap();
        }
        let path = folder.path().join(JOURNAL);
        (folder, path)
    }

    #[test]
    fn a_journal_cut_at_any_byte_gives_its_complete_lines() {
        let events: Vec<Event> = (0..3).map(done).collect();
        let (folder, path) = written(&events);
        let bytes = std::fs::read(&path).unwrap();
        for cut in 0..=bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let lines = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
            let (read, mut journal, note) = reopen(folder.path()).unwrap();
            assert_eq!((&read[..], note), (&events[..lines], None), "cut after {cut} bytes");
            journal.append(&done(9), |_| Ok(())).unwrap();
            drop(journal);
            let (read, ..) = reopen(folder.path()).unwrap();
            assert_eq!(read.last(), Some(&done(9)), "cut after {cut} bytes");
        }
    }

    #[test]
    fn what_follows_any_changed_bit_is_not_used_and_is_kept_aside() {
        let event = |number: u64| Event::Print {
            text: format!("line {number}"),
        };
        let events: Vec<Event> = (0..4).map(event).collect();
        let (folder, path) = written(&events);
        let bytes = std::fs::read(&path).unwrap();
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &changed).unwrap();
            let before = bytes[..bit / 8].iter().filter(|byte| **byte == b'\n').count();
            let (read, mut journal, note) = reopen(folder.path()).unwrap();
            assert_eq!(read, events[..before], "bit {bit}");
            // The last line may look torn, and so may the last two if the end of one was changed.
            assert!(note.is_some() || before >= 2, "bit {bit}");
            journal.append(&event(9), |_| Ok(())).unwrap();
            drop(journal);
            let (read, _, note) = reopen(folder.path()).unwrap();
            assert_eq!(
                (read.len(), read.last(), note),
                (before + 1, Some(&event(9)), None),
                "bit {bit}"
            );
            if let Ok(kept) = std::fs::read(folder.path().join(DAMAGED)) {
                assert!(changed.ends_with(&kept), "bit {bit}");
                std::fs::remove_file(folder.path().join(DAMAGED)).unwrap();
            }
        }
    }

    #[test]
    fn a_line_that_this_version_cannot_read_is_reported() {
        let (folder, path) = written(&[done(1)]);
        let mut journal = reopen(folder.path()).unwrap().1;
        let line = br#"{"event":"po","time":""}"#;
        let sum = journal.chain.add(line);
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str(&format!(r#"{{"event":"po","time":""{SUM}{sum}{END}"#));
        std::fs::write(&path, text + "\n").unwrap();
        drop(journal);
        let fault = reopen(folder.path()).err().unwrap();
        assert!(fault.message.contains("line 2"), "{fault}");
    }

    #[test]
    fn a_last_line_of_zeros_never_reached_the_disk() {
        let (folder, path) = written(&[done(1)]);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text + "\0\0\0\0\n").unwrap();
        let (events, ..) = reopen(folder.path()).unwrap();
        assert_eq!(events.len(), 1);
    }

    #[test]
    fn a_point_refers_to_its_probe_also_after_a_resume() {
        let probed = |id| Event::Done {
            id,
            args: json!({ "point": { "input": id } }),
            operation: Operation::Probe(Box::default()),
        };
        let recorded = |id: u64| {
            let Event::Done { operation, .. } = probed(id) else {
                unreachable!()
            };
            let mut answer = operation.for_script(id);
            answer["spent"] = json!({ "probes": 2 });
            Event::Point {
                boundary: 0,
                point: Point::default().with("input", 1),
                verdict: Default::default(),
                cause: None,
                moves: Default::default(),
                answer,
            }
        };
        let (folder, path) = written(&[probed(1), probed(2), recorded(1)]);
        reopen(folder.path())
            .unwrap()
            .1
            .append(&recorded(2), |_| Ok(()))
            .unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let points: Vec<&str> = text.lines().filter(|line| line.contains("\"point\",")).collect();
        assert!(
            points.len() == 2 && points.iter().all(|line| !line.contains("gpus")),
            "{text}"
        );
        let (events, ..) = reopen(folder.path()).unwrap();
        assert_eq!(events, [probed(1), probed(2), recorded(1), recorded(2)]);
    }

    #[test]
    fn two_processes_cannot_lock_one_journal() {
        let folder = tempfile::tempdir().unwrap();
        let first = reopen(folder.path()).unwrap();
        assert_eq!(reopen(folder.path()).err().unwrap().kind, Kind::Usage);
        drop(first);
        assert!(reopen(folder.path()).is_ok());
    }

    #[test]
    fn a_full_disk_is_a_missing_fault() {
        let Ok(full) = File::options().append(true).open("/dev/full") else {
            return;
        };
        let path = PathBuf::from("/dev/full");
        let mut journal = Journal {
            file: WrittenFile::new(full, path.clone()),
            path,
            length: 0,
            chain: Chain::default(),
            waiting: Waiting::default(),
            synced: Instant::now(),
        };
        let fault = journal.append(&done(1), |_| Ok(())).unwrap_err();
        assert_eq!((fault.kind, fault.kind.exit_code()), (Kind::Missing, 3));
        assert!(fault.hint.unwrap().contains("--out"));
    }
}
