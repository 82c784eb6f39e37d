//! What a server wrote, in the order it came: the newest lines in memory, all of them in the run's `logs/`.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::watch;

use crate::fault::Result;
use crate::run::Run;

/// Lines kept in memory; older ones are in the file only.
const KEPT: usize = 20_000;

/// A shared log that grows while the server writes.
#[derive(Clone, Debug)]
pub struct LogBook {
    pages: Arc<Mutex<Pages>>,
    // The number of lines so far and whether the log has ended: what waiters watch.
    grown: watch::Sender<(u64, bool)>,
}

/// A line, and when it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its number in the log, from 0.
    pub number: u64,
    /// When it came.
    pub at: Instant,
    /// What it says.
    pub text: String,
}

#[derive(Debug, Default)]
struct Pages {
    lines: VecDeque<(Instant, String)>,
    // Number of the oldest line in memory.
    first: u64,
    file: Option<BufWriter<File>>,
}

impl Default for LogBook {
    fn default() -> Self {
        Self {
            pages: Arc::default(),
            grown: watch::Sender::new((0, false)),
        }
    }
}

impl LogBook {
    /// The log of a server of that name, kept in the run's folder where the run leaves one.
    pub fn of(run: &Run, server: &str) -> Result<Self> {
        let kept = run.append("logs", &format!("{server}.log"))?;
        Ok(kept.map_or_else(Self::default, |(_, file)| Self::kept_in(file)))
    }

    fn kept_in(file: File) -> Self {
        let book = Self::default();
        book.pages().file = Some(BufWriter::new(file));
        book
    }

    /// Adds one line. A file that cannot be written any more is given up: the lines in memory still decide verdicts.
    pub fn push(&self, line: impl Into<String>) {
        let line = line.into();
        let mut pages = self.pages();
        if let Some(file) = &mut pages.file
            && writeln!(file, "{line}").and_then(|()| file.flush()).is_err()
        {
            pages.file = None;
            pages.keep("[profiler: this log could not be written to its file from here on]".to_owned());
        }
        pages.keep(line);
        let count = pages.first + pages.lines.len() as u64;
        drop(pages);
        self.grown.send_modify(|state| state.0 = state.0.max(count));
    }

    /// Says that no line will follow.
    pub fn end(&self) {
        self.grown.send_modify(|state| state.1 = true);
    }

    /// The number of lines so far: a cursor for [`LogBook::since`].
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.grown.borrow().0
    }

    /// Whether the server closed its output.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.grown.borrow().1
    }

    /// The lines from number `cursor` on that are still in memory, and the cursor after them.
    #[must_use]
    pub fn since(&self, cursor: u64) -> (Vec<String>, u64) {
        let pages = self.pages();
        let skip = usize::try_from(cursor.saturating_sub(pages.first)).unwrap_or(usize::MAX);
        let lines = pages.lines.iter().skip(skip).map(|(_, text)| text.clone()).collect();
        (lines, pages.first + pages.lines.len() as u64)
    }

    /// The lines from number `cursor` on that are still in memory, with the moments at which they came.
    #[must_use]
    pub fn arrived(&self, cursor: u64) -> Vec<Arrived> {
        let pages = self.pages();
        let numbered = (pages.first..).zip(&pages.lines);
        numbered
            .filter(|(number, _)| *number >= cursor)
            .map(|(number, (at, text))| Arrived {
                number,
                at: *at,
                text: text.clone(),
            })
            .collect()
    }

    /// The newest `count` lines, oldest first.
    #[must_use]
    pub fn last(&self, count: usize) -> Vec<String> {
        let pages = self.pages();
        let skip = pages.lines.len().saturating_sub(count);
        pages.lines.iter().skip(skip).map(|(_, text)| text.clone()).collect()
    }

    /// Waits until there is a line after `cursor`; false when the log ended without one.
    pub async fn more(&self, cursor: u64) -> bool {
        let mut grown = self.grown.subscribe();
        let found = grown.wait_for(|&(count, ended)| count > cursor || ended).await;
        found.is_ok_and(|state| state.0 > cursor)
    }

    /// Waits until the server closed its output.
    pub async fn wait_end(&self) {
        // The sender lives in `self`: waiting cannot fail.
        let _ = self.grown.subscribe().wait_for(|state| state.1).await;
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    fn keep(&mut self, line: String) {
        if self.lines.len() == KEPT {
            self.lines.pop_front();
            self.first += 1;
        }
        self.lines.push_back((Instant::now(), line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_finds_what_came_after_it() {
        let book = LogBook::default();
        book.push("one");
        let cursor = book.cursor();
        book.push("two");
        assert_eq!(book.since(cursor), (vec!["two".to_owned()], 2));
        assert_eq!(book.last(5), ["one", "two"]);
        assert_eq!(book.last(1), ["two"]);
        let arrived = book.arrived(cursor);
        assert_eq!(
            (arrived.len(), arrived[0].number, arrived[0].text.as_str()),
            (1, 1, "two")
        );
        assert!(arrived[0].at >= book.arrived(0)[0].at);
    }

    #[test]
    fn old_lines_leave_the_memory_and_stay_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.log");
        let book = LogBook::kept_in(File::create(&path).unwrap());
        for number in 0..KEPT + 2 {
            book.push(number.to_string());
        }
        assert_eq!(book.since(0).0.len(), KEPT);
        assert_eq!(book.since(0).0[0], "2");
        assert!(std::fs::read_to_string(path).unwrap().starts_with("0\n1\n2\n"));
    }

    #[tokio::test]
    async fn waiting_ends_with_a_line_or_with_the_log() {
        let book = LogBook::default();
        let writer = book.clone();
        let (more, ()) = tokio::join!(book.more(0), async { writer.push("x") });
        assert!(more);
        let (more, ()) = tokio::join!(book.more(1), async { writer.end() });
        assert!(!more);
    }
}
