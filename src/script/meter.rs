//! Limits what a script uses between two API calls: operations, and memory of the whole program.
//!
//! The interpreter calls [`Meter::step`] at every operation, but not inside native functions. One operation can at most
//! copy what the script holds, or drop it, which takes up to 1.3 times as much stack (measured with nested closures).
//! Therefore the memory limit is well below half of what the host may use. Native functions that create large results
//! are bounded in `bounds`.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use crate::fault::{Fault, Kind};
use crate::task::Tasks;

/// Default limit of operations between two API calls.
pub(super) const MAX_OPERATIONS: u64 = 100_000_000;

/// Default resident bytes of the program at which a script is stopped: with 520 MiB of stack, it stays below 1 GiB.
pub(super) const MAX_MEMORY: u64 = 400 << 20;

/// Shortest interval between two checks of memory and interruption. The kernel hands out at most about 16 MiB in that
/// time, except during a single long operation.
const INTERVAL_NS: u64 = 1_000_000;

/// Counts operations and limits memory.
#[derive(Debug)]
pub struct Meter {
    limit: u64,
    memory: u64,
    operations: AtomicU64,
    started: Instant,
    last_check: AtomicU64,
    failed: AtomicBool,
    fault: Mutex<Option<Fault>>,
}

impl Meter {
    /// Allows `limit` operations between two API calls, and `memory` resident bytes of the program.
    pub fn new(limit: u64, memory: u64) -> Self {
        Self {
            limit,
            memory,
            operations: AtomicU64::new(0),
            started: Instant::now(),
            last_check: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            fault: Mutex::default(),
        }
    }

    /// Restarts the count, because an API function was called.
    pub fn reset(&self) {
        self.operations.store(0, Ordering::Relaxed);
    }

    /// Ends the script at its next operation, for callers that cannot return a fault.
    pub(super) fn fail(&self, fault: Fault) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Counts one operation. Returns a fault if the script must end.
    pub(crate) fn step(&self, tasks: &Tasks) -> Option<Fault> {
        // Load and store are cheaper than an atomic addition; of several threads, some operations are not counted.
        let operations = self.operations.load(Ordering::Relaxed) + 1;
        self.operations.store(operations, Ordering::Relaxed);
        if self.failed.load(Ordering::Relaxed) {
            self.failed.store(false, Ordering::Relaxed);
            return self.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        if operations > self.limit {
            self.reset();
            return Some(
                Fault::new(
                    Kind::Limit,
                    format!("the script ran {} operations without calling a primitive", self.limit),
                )
                .hint("it may be an endless loop; if not, raise the limit with --max-operations"),
            );
        }
        let now = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if now.saturating_sub(self.last_check.load(Ordering::Relaxed)) < INTERVAL_NS {
            return None;
        }
        self.last_check.store(now, Ordering::Relaxed);
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
                "the limit for program and script together is {} MiB: keep less data, or record results as they come",
                self.memory >> 20
            ))
        })
    }
}

/// Resident bytes of this process, if known.
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

/// Depth of script function calls. A level takes some KiB of the script thread's stack, more in debug builds.
pub(super) const CALL_LEVELS: usize = 64;
/// Elements of an array, including nested arrays.
pub(super) const ARRAY: usize = 4_000_000;
/// Entries of a map, including nested maps.
pub(super) const MAP: usize = 2_000_000;
/// Bytes of a string, or of all strings in an array or map.
pub(super) const STRING: usize = 64 << 20;
