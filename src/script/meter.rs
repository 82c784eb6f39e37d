//! Limits the operations and the memory that a script uses between two API calls. Memory is that of the whole program.
//!
//! The interpreter calls [`Meter::step`] at every operation, but not inside native functions, and checks sizes after a
//! function has returned. Both are too late for `text.replace("a", other)` on two strings of 64 MiB. So functions that
//! create large results from small inputs have bounded versions here, which take precedence over Rhai's own. Any other
//! single operation can at most copy or drop everything that the script holds; dropping takes up to 1.3 times as much
//! stack (measured with nested closures). Therefore the memory limit is well below half of the host's.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use rhai::plugin::*;
use rhai::{Array, ImmutableString};

use super::Caught;
use crate::fault::{Fault, Kind};
use crate::outside::{self, resident};
use crate::task::{Tasks, lock};

/// Default limit of operations between two API calls.
pub(super) const MAX_OPERATIONS: u64 = 100_000_000;

/// Default resident bytes of the program at which a script is stopped: with 520 MiB of stack, it stays below 1 GiB.
pub(super) const MAX_MEMORY: u64 = 400 << 20;

/// Shortest interval between two checks of memory and interruption. The kernel hands out at most about 16 MiB in that
/// time, except during a single long operation.
const INTERVAL_NS: u64 = 1_000_000;

/// Ends a script that runs too many operations between two API calls, or while which the program uses too much memory.
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
        *lock(&self.fault) = Some(fault);
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Counts one operation. Returns a fault if the script must end.
    pub(crate) fn step(&self, tasks: &Tasks) -> Option<Fault> {
        // Load and store are cheaper than an atomic addition. With several threads, some operations are not counted.
        let operations = self.operations.load(Ordering::Relaxed) + 1;
        self.operations.store(operations, Ordering::Relaxed);
        if self.failed.load(Ordering::Relaxed) {
            self.failed.store(false, Ordering::Relaxed);
            return lock(&self.fault).take();
        }
        if operations > self.limit {
            self.reset();
            let message = format!("the script ran {} operations without calling a primitive", self.limit);
            let hint = "it may be an endless loop; if not, raise the limit with --max-operations";
            return Some(Fault::new(Kind::Limit, message).hint(hint));
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
            let held = resident >> 20;
            let most = self.memory >> 20;
            let message = format!("the script uses too much memory: the program holds {held} MiB");
            let hint = format!("the limit for program and script together is {most} MiB: keep less data, or record results as they come");
            Fault::new(Kind::Limit, message).hint(hint)
        })
    }
}

/// Depth of script function calls. A level takes some KiB of the script thread's stack, more in debug builds.
pub(super) const CALL_LEVELS: usize = 64;
/// Elements of an array, including nested arrays.
pub(super) const ARRAY: usize = 4_000_000;
/// Entries of a map, including nested maps.
pub(super) const MAP: usize = 2_000_000;
/// Bytes of a string, or of all strings in an array or map.
pub(super) const STRING: usize = 64 << 20;

/// Most pieces of one `split`. Each is a string of about 64 bytes.
const PIECES: usize = 1_000_000;
/// Most bytes of JSON text. Parsed, `[{},{}]` takes sixty times as much.
const JSON: usize = 2 << 20;
/// Most bytes that one `pad` may add.
const PADDING: usize = 64 << 20;

/// Registers the functions so that they take precedence.
pub(super) fn register(engine: &mut rhai::Engine) {
    engine.register_global_module(exported_module!(bounded).into());
}

fn too_much(what: &str) -> Box<EvalAltResult> {
    Fault::new(Kind::Limit, what).hint("work on smaller pieces").into()
}

/// Collects the pieces, up to the limit.
fn pieces<'a>(pieces: impl Iterator<Item = &'a str>) -> Caught<Array> {
    let mut array = Array::new();
    for piece in pieces {
        if array.len() == PIECES {
            return Err(too_much("the text splits into more than 1,000,000 pieces"));
        }
        array.push(piece.into());
    }
    Ok(array)
}

/// The number of pieces requested by a script, at least one.
fn segments(asked: i64) -> usize {
    usize::try_from(asked).unwrap_or(0).max(1)
}

fn replaced(text: &mut ImmutableString, find: &str, substitute: &str) -> Caught<()> {
    let found = text.matches(find).count();
    let length = text.len() - found * find.len() + found.saturating_mul(substitute.len());
    if length > STRING {
        return Err(too_much("the replaced text would be longer than 64 MiB"));
    }
    if found > 0 {
        *text = text.replace(find, substitute).into();
    }
    Ok(())
}

/// Approximate bytes of a copy of this value.
fn weight(value: &Dynamic) -> usize {
    let inside = if let Ok(array) = value.as_array_ref() {
        48 + array.iter().map(weight).sum::<usize>()
    } else if let Ok(map) = value.as_map_ref() {
        // A B-tree node has room for eleven entries.
        512 + map.values().map(|value| 48 + weight(value)).sum::<usize>()
    } else {
        0
    };
    16 + inside
}

#[export_module]
#[allow(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "export_module wants `pub` functions and unwraps arguments"
)]
mod bounded {
    /// Replaces every occurrence of a string by another string.
    ///
    /// # Errors
    ///
    /// `limit` when the result would be too large.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let s = "a-b"; s.replace("-", "+"); s == "a+b"
    /// ```
    #[rhai_fn(name = "replace", return_raw)]
    pub fn replace_text(text: &mut ImmutableString, find: &str, substitute: &str) -> Caught<()> {
        replaced(text, find, substitute)
    }

    /// Replaces every occurrence of a string by a character.
    ///
    /// # Errors
    ///
    /// `limit` when the result would be too large.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let s = "a-b"; s.replace("-", '+'); s == "a+b"
    /// ```
    #[rhai_fn(name = "replace", return_raw)]
    pub fn replace_text_by_char(text: &mut ImmutableString, find: &str, substitute: char) -> Caught<()> {
        replaced(text, find, substitute.encode_utf8(&mut [0; 4]))
    }

    /// Replaces every occurrence of a character by a string.
    ///
    /// # Errors
    ///
    /// `limit` when the result would be too large.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let s = "a-b"; s.replace('-', "+"); s == "a+b"
    /// ```
    #[rhai_fn(name = "replace", return_raw)]
    pub fn replace_char_by_text(text: &mut ImmutableString, find: char, substitute: &str) -> Caught<()> {
        replaced(text, find.encode_utf8(&mut [0; 4]), substitute)
    }

    /// The words of a string, separated by white space.
    ///
    /// # Errors
    ///
    /// `limit` when the result would be too large.
    ///
    /// # Example
    ///
    /// ```rhai
    /// "a b".split() == ["a", "b"]
    /// ```
    #[rhai_fn(name = "split", return_raw, pure)]
    pub fn split_words(text: &mut ImmutableString) -> Caught<Array> {
        pieces(text.split_whitespace())
    }

    /// The pieces of a string between occurrences of a delimiter.
    ///
    /// # Errors
    ///
    /// `limit` when the result would be too large.
    ///
    /// # Example
    ///
    /// ```rhai
    /// "a, b".split(", ") == ["a", "b"]
    /// ```
    #[rhai_fn(name = "split", return_raw, pure)]
    pub fn split_by_text(text: &mut ImmutableString, delimiter: &str) -> Caught<Array> {
        pieces(text.split(delimiter))
    }

    /// The pieces of a string between occurrences of a delimiter.
    ///
    /// # Errors
    ///
    /// `limit` when the result would be too large.
    ///
    /// # Example
    ///
    /// ```rhai
    /// "a,b".split(',') == ["a", "b"]
    /// ```
    #[rhai_fn(name = "split", return_raw, pure)]
    pub fn split_by_char(text: &mut ImmutableString, delimiter: char) -> Caught<Array> {
        pieces(text.split(delimiter))
    }

    /// The first pieces of a string, the last one holding the rest.
    ///
    /// # Errors
    ///
    /// `limit` when the result would be too large.
    ///
    /// # Example
    ///
    /// ```rhai
    /// "a,b,c".split(",", 2) == ["a", "b,c"]
    /// ```
    #[rhai_fn(name = "split", return_raw, pure)]
    pub fn split_some_by_text(text: &mut ImmutableString, delimiter: &str, count: i64) -> Caught<Array> {
        pieces(text.splitn(segments(count), delimiter))
    }

    /// The first pieces of a string, the last one holding the rest.
    ///
    /// # Errors
    ///
    /// `limit` when the result would be too large.
    ///
    /// # Example
    ///
    /// ```rhai
    /// "a,b,c".split(',', 2) == ["a", "b,c"]
    /// ```
    #[rhai_fn(name = "split", return_raw, pure)]
    pub fn split_some_by_char(text: &mut ImmutableString, delimiter: char, count: i64) -> Caught<Array> {
        pieces(text.splitn(segments(count), delimiter))
    }

    /// The pieces of a string between occurrences of a delimiter, last first.
    ///
    /// # Errors
    ///
    /// `limit` when the result would be too large.
    ///
    /// # Example
    ///
    /// ```rhai
    /// "a, b".split_rev(", ") == ["b", "a"]
    /// ```
    #[rhai_fn(name = "split_rev", return_raw, pure)]
    pub fn split_back_by_text(text: &mut ImmutableString, delimiter: &str) -> Caught<Array> {
        pieces(text.rsplit(delimiter))
    }

    /// The pieces of a string between occurrences of a delimiter, last first.
    ///
    /// # Errors
    ///
    /// `limit` when the result would be too large.
    ///
    /// # Example
    ///
    /// ```rhai
    /// "a,b".split_rev(',') == ["b", "a"]
    /// ```
    #[rhai_fn(name = "split_rev", return_raw, pure)]
    pub fn split_back_by_char(text: &mut ImmutableString, delimiter: char) -> Caught<Array> {
        pieces(text.rsplit(delimiter))
    }

    /// The last pieces of a string, the last one holding the rest.
    ///
    /// # Errors
    ///
    /// `limit` when the result would be too large.
    ///
    /// # Example
    ///
    /// ```rhai
    /// "a,b,c".split_rev(",", 2) == ["c", "a,b"]
    /// ```
    #[rhai_fn(name = "split_rev", return_raw, pure)]
    pub fn split_back_some_by_text(text: &mut ImmutableString, delimiter: &str, count: i64) -> Caught<Array> {
        pieces(text.rsplitn(segments(count), delimiter))
    }

    /// The last pieces of a string, the last one holding the rest.
    ///
    /// # Errors
    ///
    /// `limit` when the result would be too large.
    ///
    /// # Example
    ///
    /// ```rhai
    /// "a,b,c".split_rev(',', 2) == ["c", "a,b"]
    /// ```
    #[rhai_fn(name = "split_rev", return_raw, pure)]
    pub fn split_back_some_by_char(text: &mut ImmutableString, delimiter: char, count: i64) -> Caught<Array> {
        pieces(text.rsplitn(segments(count), delimiter))
    }

    /// The characters of a string.
    ///
    /// # Errors
    ///
    /// `limit` when the result would be too large.
    ///
    /// # Example
    ///
    /// ```rhai
    /// "ab".to_chars() == ['a', 'b']
    /// ```
    #[rhai_fn(return_raw)]
    pub fn to_chars(text: &str) -> Caught<Array> {
        if text.len() > PIECES {
            return Err(too_much("the text has more than 1,000,000 bytes"));
        }
        Ok(text.chars().map(Dynamic::from).collect())
    }

    /// A JSON text as a value: objects as maps, `null` as `()`.
    ///
    /// # Errors
    ///
    /// `limit` when the text is longer than 2 MiB, `usage` when it is not JSON.
    ///
    /// # Example
    ///
    /// ```rhai
    /// parse_json(`{"a": [1]}`).a == [1]
    /// ```
    #[rhai_fn(return_raw)]
    pub fn parse_json(json: &str) -> Caught<Dynamic> {
        if json.len() > JSON {
            return Err(too_much("the JSON text is longer than 2 MiB"));
        }
        outside::page(json.as_bytes()).map_err(|error| Fault::usage(format!("not JSON: {error}")).into())
    }

    /// Makes an array at least `length` long, with copies of `item`.
    ///
    /// # Errors
    ///
    /// `limit` when the result would be too large.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let a = [1]; a.pad(3, 0); a == [1, 0, 0]
    /// ```
    #[rhai_fn(return_raw)]
    pub fn pad(array: &mut Array, length: i64, item: Dynamic) -> Caught<()> {
        let length = usize::try_from(length).unwrap_or(0);
        let missing = length.saturating_sub(array.len());
        if missing.saturating_mul(weight(&item)) > PADDING {
            return Err(too_much("the padding would take more than 64 MiB"));
        }
        if missing > 0 {
            array.resize(length, item);
        }
        Ok(())
    }
}
