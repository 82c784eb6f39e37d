//! Attempts at a run. A scheduler may start a run twice, for example after it loses contact with a node that is still
//! alive. Each start is an attempt with a number, stored in the folder's file `attempt` and in the journal. A later
//! attempt waits until the earlier one ends before it writes; an earlier one that comes back writes nothing more.

use std::fs::TryLockError;
use std::time::{Duration, Instant};

use super::folder::Folder;
use super::journal::JOURNAL;
use crate::fault::{Fault, Kind, Result};

const ATTEMPT: &str = "attempt";

/// How long a later attempt waits for an earlier one to stop what it started.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often an attempt checks for a later one, and a later one checks whether the earlier has ended.
pub(super) const LOOK: Duration = Duration::from_millis(500);

/// The number of the latest attempt; 0 if there was none.
pub(super) fn latest_attempt(folder: &Folder) -> Result<u64> {
    let text = folder.read(ATTEMPT)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&text).trim().parse().unwrap_or_default())
}

/// Fails if a later attempt has begun.
pub(super) fn check_attempt(folder: &Folder, own: u64) -> Result<()> {
    let (latest, path) = (latest_attempt(folder)?, folder.path().display());
    if latest > own {
        let message = format!("attempt {latest} took over the run in `{path}`: this is attempt {own}");
        return Err(Fault::new(Kind::Interrupted, message));
    }
    Ok(())
}

/// Makes this attempt the latest, and waits until an earlier one ends.
pub(super) fn begin_attempt(folder: &Folder, own: u64) -> Result<()> {
    check_attempt(folder, own)?;
    folder.replace_text(ATTEMPT.as_ref(), &format!("{own}\n"))?;
    let journal = folder.append(JOURNAL.as_ref())?;
    let begun = Instant::now();
    while let Err(TryLockError::WouldBlock) = journal.try_lock() {
        if begun.elapsed() > PATIENCE {
            // Opening the journal reports the conflict.
            break;
        }
        std::thread::sleep(LOOK);
        check_attempt(folder, own)?;
    }
    Ok(())
}
