//! Splits a sampler's CSV file into lines and fields, as bytes: an hour at 100 Hz of eight GPUs is read interactively,
//! so fields are not copied. Unusable lines are counted and skipped, because a run may have been killed while writing.

use std::borrow::Cow;
use std::fmt::Write as _;

use memchr::{memchr, memchr_iter};

/// The header of a file and the lines below it.
pub(super) struct Lines<'a> {
    /// Column names.
    pub(super) header: Vec<String>,
    rest: &'a [u8],
    number: usize,
    skipped: usize,
    first: String,
    truncated: bool,
}

impl<'a> Lines<'a> {
    /// Reads the header; `None` without a single complete line.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let (header, rest) = record(bytes)?;
        let names = Fields(Some(header)).map(|name| String::from_utf8_lossy(&name).trim().to_owned());
        Some(Self {
            header: names.collect(),
            rest,
            number: 1,
            skipped: 0,
            first: String::new(),
            truncated: false,
        })
    }

    /// The next complete, non-empty line.
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let Some((line, rest)) = record(self.rest) else {
                // A truncated number is still a number, so an incomplete line is never used.
                self.truncated = true;
                self.rest = &[];
                return None;
            };
            self.rest = rest;
            self.number += 1;
            if !line.is_empty() {
                return Some(line);
            }
        }
    }

    /// Marks the latest line as unusable.
    pub(super) fn skip(&mut self, why: &str) {
        if self.skipped == 0 {
            self.first.clear();
            let _ = write!(self.first, "line {}: {why}", self.number);
        }
        self.skipped += 1;
    }

    /// Descriptions of what could not be used.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        match self.skipped {
            0 => {}
            1 => notes.push(format!("{} (skipped)", self.first)),
            many => notes.push(format!("{many} lines skipped; the first, {}", self.first)),
        }
        if self.truncated {
            notes.push("the last line is incomplete and was skipped".to_owned());
        }
        notes
    }
}

/// A record without its line end, and the rest. Line ends inside quotes do not count.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut end = memchr(b'\n', bytes)?;
    while memchr_iter(b'"', &bytes[..end]).count() % 2 == 1 {
        end += 1 + memchr(b'\n', &bytes[end + 1..])?;
    }
    let line = &bytes[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), &bytes[end + 1..]))
}

/// The fields of a record, unquoted.
pub(super) struct Fields<'a>(pub(super) Option<&'a [u8]>);

impl<'a> Iterator for Fields<'a> {
    type Item = Cow<'a, [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.0?;
        if rest.first() == Some(&b'"') {
            return Some(self.quoted(&rest[1..]));
        }
        // Fields are short: a loop is faster than memchr.
        let end = rest.iter().position(|&byte| byte == b',').unwrap_or(rest.len());
        self.0 = rest.get(end + 1..);
        Some(Cow::Borrowed(&rest[..end]))
    }
}

impl<'a> Fields<'a> {
    fn quoted(&mut self, mut rest: &'a [u8]) -> Cow<'a, [u8]> {
        let mut field = Vec::new();
        loop {
            let end = memchr(b'"', rest).unwrap_or(rest.len());
            field.extend_from_slice(&rest[..end]);
            rest = rest.get(end + 1..).unwrap_or_default();
            if rest.first() != Some(&b'"') {
                break;
            }
            field.push(b'"');
            rest = &rest[1..];
        }
        self.0 = memchr(b',', rest).map(|comma| &rest[comma + 1..]);
        Cow::Owned(field)
    }
}

pub(super) fn integer(field: &[u8]) -> Option<u64> {
    if field.is_empty() || field.len() > 19 {
        return None;
    }
    field.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| number * 10 + u64::from(digit))
    })
}

/// Seconds, converted to microseconds.
pub(super) fn micros(field: &[u8]) -> Option<u64> {
    let dot = field.iter().position(|&byte| byte == b'.').unwrap_or(field.len());
    let seconds = integer(&field[..dot])?;
    let fraction = field.get(dot + 1..).unwrap_or_default();
    let fraction = &fraction[..fraction.len().min(6)];
    let below = if fraction.is_empty() { 0 } else { integer(fraction)? };
    let power = u32::try_from(6 - fraction.len()).ok()?;
    seconds.checked_mul(1_000_000)?.checked_add(below * 10_u64.pow(power))
}

/// A finite decimal number.
pub(super) fn number(field: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(field).ok()?.parse().ok()?;
    number.is_finite().then_some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_numbers() {
        assert_eq!(integer(b"137500622848"), Some(137_500_622_848));
        for bad in ["", "1.5", "-1", "1e3", "12 MiB", "99999999999999999999"] {
            assert_eq!(integer(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(micros(b"24.140037"), Some(24_140_037));
        assert_eq!(micros(b"24.14"), Some(24_140_000), "as other programs shorten it");
        assert_eq!(micros(b"24"), Some(24_000_000));
        assert_eq!(micros(b"24.1400379"), Some(24_140_037));
        for bad in ["", ".", ".5", "-1.0", "1.x", "nan", "99999999999999999"] {
            assert_eq!(micros(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(number(b"71.5"), Some(71.5));
        assert_eq!(number(b"inf"), None);
    }

    #[test]
    fn line_without_line_end_is_skipped() {
        let mut lines = Lines::new(b"a,b\r\n1,2\r\n\r\n3,45").unwrap();
        assert_eq!(lines.header, ["a", "b"]);
        assert_eq!(lines.next(), Some(b"1,2".as_slice()));
        lines.skip("x");
        assert_eq!(lines.next(), None);
        assert_eq!(
            lines.notes(),
            ["line 2: x (skipped)", "the last line is incomplete and was skipped"]
        );
        assert!(Lines::new(b"").is_none() && Lines::new(b"a,b").is_none());
    }

    proptest! {
        #[test]
        fn quoting_round_trip(fields in prop::collection::vec("[a-z,\"\n]{0,8}", 1..6)) {
            let quoted: Vec<String> = fields.iter().map(|field| format!("\"{}\"", field.replace('"', "\"\""))).collect();
            let text = format!("{}\n1,2\n", quoted.join(","));
            let (line, rest) = record(text.as_bytes()).unwrap();
            prop_assert_eq!(rest, b"1,2\n");
            let read: Vec<String> = Fields(Some(line)).map(|field| String::from_utf8(field.into_owned()).unwrap()).collect();
            prop_assert_eq!(read, fields);
        }
    }
}
