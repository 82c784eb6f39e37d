//! The door for bytes that come from outside: archives, the output of commands, streams, files and headers.
//!
//! Every read is bounded. The bytes that streams and texts keep are charged to one budget of the process before they are
//! kept: many small holders are bounded together. Clippy's `disallowed-methods` names the ways around it.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::de::{DeserializeOwned, Error as _};

use crate::fault::{Fault, Kind, Result};
use crate::fmt::Bytes;

/// Most bytes from outside that the process keeps at a time.
pub const MAX_KEPT: usize = 256 << 20;

/// Bytes that are kept, and how many may be.
#[derive(Debug)]
struct Budget {
    kept: AtomicUsize,
    most: usize,
}

static PROCESS: Budget = Budget::new(MAX_KEPT);

impl Budget {
    const fn new(most: usize) -> Self {
        Self {
            kept: AtomicUsize::new(0),
            most,
        }
    }
}

/// Bytes that one holder keeps. They are released when it is dropped.
#[derive(Debug)]
pub struct Charge {
    bytes: usize,
    budget: &'static Budget,
}

impl Default for Charge {
    fn default() -> Self {
        Self {
            bytes: 0,
            budget: &PROCESS,
        }
    }
}

impl Charge {
    /// Charges `bytes` more.
    ///
    /// # Errors
    ///
    /// `limit` if the process would keep more than [`MAX_KEPT`]; then nothing is charged.
    pub fn add(&mut self, bytes: usize) -> Result<()> {
        let Budget { kept, most } = self.budget;
        let within = |kept: usize| kept.checked_add(bytes).filter(|kept| kept <= most);
        if kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_err() {
            let most = Bytes(*most as u64);
            return Err(Fault::new(
                Kind::Limit,
                format!("what comes from outside takes more than {most} together"),
            ));
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Changes the charge to `bytes`.
    ///
    /// # Errors
    ///
    /// Fails as [`Charge::add`] does.
    pub fn set(&mut self, bytes: usize) -> Result<()> {
        if let Some(less) = self.bytes.checked_sub(bytes) {
            self.bytes = bytes;
            self.budget.kept.fetch_sub(less, Ordering::Relaxed);
            return Ok(());
        }
        self.add(bytes - self.bytes)
    }

    /// The bytes that are charged.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.kept.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A reader that fails after `most` bytes, where `Read::take` would end as if nothing followed.
#[derive(Debug)]
pub struct Bounded<R> {
    inner: R,
    left: u64,
    most: u64,
}

impl<R: Read> Bounded<R> {
    /// Lets `most` bytes through.
    pub fn new(inner: R, most: u64) -> Self {
        Self {
            inner,
            left: most,
            most,
        }
    }

    /// Reads to the end.
    ///
    /// # Errors
    ///
    /// [`is_too_large`] for more than the bound; errors of the reader.
    #[expect(clippy::disallowed_methods, reason = "it is bounded here")]
    pub fn all(mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

const TOO_LARGE: io::ErrorKind = io::ErrorKind::FileTooLarge;

/// Whether a bound of this module was reached.
pub fn is_too_large(error: &io::Error) -> bool {
    // The system's own error of that kind has a number.
    error.kind() == TOO_LARGE && error.raw_os_error().is_none()
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            // The end may be exactly here.
            return match self.inner.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(too_large(self.most)),
            };
        }
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.inner.read(&mut buffer[..most])?;
        self.left -= count as u64;
        Ok(count)
    }
}

fn too_large(most: u64) -> io::Error {
    io::Error::new(TOO_LARGE, format!("it has more than {}", Bytes(most)))
}

/// Reads the next line including its end, like [`BufRead::read_until`], of at most `most` bytes.
///
/// # Errors
///
/// [`is_too_large`] for a longer line; errors of the reader.
pub fn line(reader: &mut impl BufRead, line: &mut Vec<u8>, most: u64) -> io::Result<usize> {
    let length = reader.take(most).read_until(b'\n', line)?;
    if length as u64 == most {
        return Err(too_large(most));
    }
    Ok(length)
}

/// Most bytes of a JSON text and its values together: of a file, and of a page, of which there may be several.
const MAX_PARSED: usize = 832 << 20;
const MAX_PAGE: usize = 128 << 20;

/// Bytes that values of JSON take: each of a list or an object, what a list or an object allocates for its first one, and
/// what a member takes more than an item.
const VALUE: usize = 32;
const LIST: usize = 128;
const OBJECT: usize = 640;
const MEMBER: usize = 112;
const STRING: usize = 32;

/// An upper bound of the bytes that the values of a JSON text take: `[{},{}]` takes ten times its own.
fn weight(json: &[u8]) -> usize {
    let (mut weight, mut quoted, mut escaped) = (json.len(), false, false);
    for (at, byte) in json.iter().enumerate() {
        let is_empty = |end| json.get(at + 1) == Some(&end);
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => {
                quoted = !quoted;
                weight += if quoted { STRING } else { 0 };
            }
            _ if quoted => {}
            b',' => weight += VALUE,
            b':' => weight += MEMBER,
            b'[' if !is_empty(b']') => weight += LIST,
            b'{' if !is_empty(b'}') => weight += OBJECT,
            _ => {}
        }
    }
    weight
}

/// Fails if a JSON text and its values would take more than 832 MiB.
///
/// # Errors
///
/// Says so.
pub fn check_weight(text: &[u8]) -> serde_json::Result<()> {
    check(text, MAX_PARSED)
}

fn check(text: &[u8], most: usize) -> serde_json::Result<()> {
    // No byte weighs more than one that begins an object, so that most texts need not be weighed.
    if text.len() <= most / (OBJECT + 2) || text.len() + weight(text) <= most {
        return Ok(());
    }
    let most = Bytes(most as u64);
    Err(serde_json::Error::custom(format!("its values take more than {most}")))
}

/// Parses a JSON text, after [`check_weight`].
///
/// # Errors
///
/// If it is no JSON of this form, or too much.
pub fn json<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    json_within(text, MAX_PARSED)
}

/// Parses a page, or an answer of a server, a program or a daemon, whose values may take 128 MiB.
///
/// # Errors
///
/// If it is no JSON of this form, or too much.
pub fn page<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    json_within(text, MAX_PAGE)
}

/// Parses a JSON text that takes at most `most` bytes with its values.
///
/// # Errors
///
/// If it is no JSON of this form, or too much.
pub fn json_within<T: DeserializeOwned>(text: &[u8], most: usize) -> serde_json::Result<T> {
    check(text, most)?;
    serde_json::from_slice(text)
}

/// Resident bytes of this process, if known.
pub fn resident() -> Option<u64> {
    static STATM: OnceLock<Option<File>> = OnceLock::new();
    let file = STATM.get_or_init(|| File::open("/proc/self/statm").ok()).as_ref()?;
    let mut line = [0; 128];
    let length = file.read_at(&mut line, 0).ok()?;
    let text = std::str::from_utf8(line.get(..length)?).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * procfs::page_size())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_ends_at_its_bound_and_tells_more_from_the_end() {
        assert_eq!(Bounded::new(&b"four"[..], 4).all().unwrap(), b"four");
        assert!(is_too_large(&Bounded::new(&b"fives"[..], 4).all().unwrap_err()));
        let mut text = Vec::new();
        assert_eq!(line(&mut &b"ab\ncd"[..], &mut text, 4).unwrap(), 3);
        assert!(is_too_large(
            &line(&mut io::BufReader::new(io::repeat(b'x').take(9)), &mut text, 4).unwrap_err()
        ));
    }

    #[test]
    fn what_json_takes_is_counted_before_it_is_parsed() {
        assert_eq!(weight(br#""[{,:\"[{,:""#), 12 + STRING);
        assert_eq!(weight(b"[[],{},[1]]"), 11 + 2 * LIST + 2 * VALUE);
        assert_eq!(weight(br#"{"a":{"b":1}}"#), 13 + 2 * (OBJECT + MEMBER + STRING));
        let many = format!("[{}{{}}]", "{},".repeat(MAX_PARSED / VALUE));
        let refused = json::<serde_json::Value>(many.as_bytes()).unwrap_err();
        assert!(refused.to_string().contains("take more than"), "{refused}");
        assert_eq!(json::<Vec<u8>>(b"[1,2]").unwrap(), [1, 2]);
    }

    #[test]
    fn holders_are_bounded_together_and_release_what_they_held() {
        static BUDGET: Budget = Budget::new(100);
        let charge = || Charge {
            bytes: 0,
            budget: &BUDGET,
        };
        let (mut one, mut two) = (charge(), charge());
        one.add(50).unwrap();
        assert_eq!(two.add(51).unwrap_err().kind, Kind::Limit);
        assert_eq!(two.add(usize::MAX).unwrap_err().kind, Kind::Limit);
        one.set(10).unwrap();
        two.add(75).unwrap();
        drop(two);
        one.add(75).unwrap();
        assert_eq!(one.bytes(), 85);
    }
}
