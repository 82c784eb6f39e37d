//! What a script may use between two primitives: operations, and the memory of the whole program.
//!
//! The interpreter calls [`Meter::step`] at every operation. It never sees inside a native function, so the most that one
//! operation can do matters too: it can at most copy what the script holds, or drop it, which takes up to 1.3 times as much
//! stack (measured on closures that hold closures); hence memory ends well below half of what the host may use. Native
//! functions that make much out of little are bounded in `bounds`.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use crate::fault::{Fault, Kind};
use crate::task::Tasks;

/// Operations between two primitives, unless `--max-operations` says otherwise.
pub(super) const MAX_OPERATIONS: u64 = 100_000_000;

/// Resident bytes of the program at which a script is stopped, so that the host stays under 1 GiB: 400 MiB, and 520 MiB of stack.
pub(super) const MAX_MEMORY: u64 = 400 << 20;

/// How often, at most, memory and the wish to stop are looked at. The kernel cannot hand out more than some 16 MiB in
/// that time, so that memory cannot run away between two looks, save by the one operation that takes longer.
const INTERVAL_NS: u64 = 1_000_000;

/// Counts what a script uses.
#[derive(Debug)]
pub struct Meter {
    limit: u64,
    memory: u64,
    spent: AtomicU64,
    started: Instant,
    looked: AtomicU64,
    failed: AtomicBool,
    fault: Mutex<Option<Fault>>,
}

impl Meter {
    /// A meter that allows `limit` operations between two primitives, and `memory` resident bytes of the program.
    #[must_use]
    pub fn new(limit: u64, memory: u64) -> Self {
        Self {
            limit,
            memory,
            spent: AtomicU64::new(0),
            started: Instant::now(),
            looked: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            fault: Mutex::default(),
        }
    }

    /// A primitive was called: the script has not lost itself.
    pub fn reset(&self) {
        self.spent.store(0, Ordering::Relaxed);
    }

    /// Ends the script at its next operation, for what cannot answer with a fault itself.
    pub(super) fn fail(&self, fault: Fault) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
        self.failed.store(true, Ordering::Relaxed);
    }

    /// One more operation; a fault when the script must end here.
    pub(crate) fn step(&self, tasks: &Tasks) -> Option<Fault> {
        // One thread counts, so that a load and a store are enough, and cheaper than an atomic sum.
        let spent = self.spent.load(Ordering::Relaxed) + 1;
        self.spent.store(spent, Ordering::Relaxed);
        if self.failed.load(Ordering::Relaxed) {
            self.failed.store(false, Ordering::Relaxed);
            return self.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        if spent > self.limit {
            self.reset();
            return Some(
                Fault::new(
                    Kind::Limit,
                    format!("the script ran {} operations without calling a primitive", self.limit),
                )
                .hint("it may loop for ever; if it does not, raise the limit with --max-operations"),
            );
        }
        let now = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if now.saturating_sub(self.looked.load(Ordering::Relaxed)) < INTERVAL_NS {
            return None;
        }
        self.looked.store(now, Ordering::Relaxed);
        if tasks.interrupted() {
            return Some(Fault::interrupted());
        }
        let resident = resident()?;
        (resident > self.memory).then(|| {
            Fault::new(
                Kind::Limit,
                format!(
                    "the script uses too much memory: the program holds {} MiB",
                    resident >> 20
                ),
            )
            .hint(format!(
                "a script may use what fits beside the program in {} MiB: keep less, or record results as they come",
                self.memory >> 20
            ))
        })
    }
}

/// Resident bytes of this process, where the system tells.
fn resident() -> Option<u64> {
    static STATM: OnceLock<Option<File>> = OnceLock::new();
    let file = STATM.get_or_init(|| File::open("/proc/self/statm").ok()).as_ref()?;
    let mut line = [0; 128];
    let length = file.read_at(&mut line, 0).ok()?;
    let pages: u64 = std::str::from_utf8(line.get(..length)?)
        .ok()?
        .split(' ')
        .nth(1)?
        .parse()
        .ok()?;
    Some(pages * procfs::page_size())
}
