//! The fence of a run that a scheduler may start more than once, as after the loss of a node that still lives: each start is an
//! attempt with a number, which the folder's file `attempt` and the journal keep. A later attempt ends an earlier one, and only
//! then writes; an earlier one that comes back writes nothing more.

use std::fs::TryLockError;
use std::time::{Duration, Instant};

use super::folder::Folder;
use super::journal::JOURNAL;
use super::{Event, Run};
use crate::fault::{Fault, Kind, Result};

const FILE: &str = "attempt";

/// How long a later attempt waits for the end of an earlier one, which first stops what it started.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often an attempt looks whether a later one has begun, and a later one whether the earlier has ended.
const LOOK: Duration = Duration::from_millis(500);

/// The number of the latest attempt; 0 if there was none.
pub(super) fn latest(folder: &Folder) -> Result<u64> {
    let text = folder.read(FILE)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&text).trim().parse().unwrap_or_default())
}

/// The fault of an attempt after which a later one has begun.
pub(super) fn check(folder: &Folder, own: u64) -> Result<()> {
    match latest(folder)? {
        latest if latest > own => Err(Fault::new(
            Kind::Interrupted,
            format!(
                "attempt {latest} goes on with the run in `{}`: this is attempt {own}",
                folder.path().display()
            ),
        )),
        _ => Ok(()),
    }
}

/// Makes this attempt the latest, and waits for the end of an earlier one.
pub(super) fn begin(folder: &Folder, own: u64) -> Result<()> {
    check(folder, own)?;
    folder.replace_text(FILE.as_ref(), &format!("{own}\n"))?;
    let journal = folder.append(JOURNAL.as_ref())?;
    let begun = Instant::now();
    while let Err(TryLockError::WouldBlock) = journal.try_lock() {
        if begun.elapsed() > PATIENCE {
            // The journal says what to do.
            break;
        }
        std::thread::sleep(LOOK);
        check(folder, own)?;
    }
    Ok(())
}

impl Run {
    /// Returns when a later attempt at this run has begun; never for a run without attempts.
    pub async fn superseded(&self) {
        let attempt = self.writer.as_ref().and_then(|writer| Some((writer, writer.attempt?)));
        let Some((writer, own)) = attempt else {
            return std::future::pending().await;
        };
        while check(&writer.folder, own).is_ok() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Notes the attempt's number, if it has one.
    pub(super) fn note_attempt(&self) -> Result<()> {
        match self.writer.as_ref().and_then(|writer| writer.attempt) {
            Some(number) => self.note(Event::Attempt { number }),
            None => Ok(()),
        }
    }
}
