//! Reads one CSV file of a sampler: lines and fields, the meaning of its columns, invalid lines, and the columns that
//! all files share (time, phase, number of samples).
//!
//! Works on bytes: an hour at 100 Hz of eight GPUs is read interactively, so fields are not copied. Unusable lines are
//! counted and skipped, because a run may have been killed while writing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use memchr::{memchr, memchr_iter};

use crate::telemetry::Phase;

/// The meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    From,
    To,
    Phase,
    Looks,
    Total,
    /// Memory of the n-th device.
    Used(usize),
    /// Power of the n-th device.
    Power(usize),
    /// Utilisation of the n-th device.
    Busy(usize),
    Pid,
    Device,
    Bytes,
    Unknown,
}

impl Role {
    /// Columns that every file may have.
    pub(super) fn common(name: &str) -> Option<Self> {
        Some(match name {
            "from_s" => Role::From,
            "to_s" => Role::To,
            "phase" => Role::Phase,
            "looks" => Role::Looks,
            _ => return None,
        })
    }
}

/// The values of the shared columns in one line.
pub(super) struct CommonColumns {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) phase: Phase,
    pub(super) looks: u64,
}

/// Reads the lines below a header, column by column.
pub(super) struct Reader<'a> {
    lines: Lines<'a>,
    pub(super) roles: Vec<Role>,
    pub(super) notes: Vec<String>,
    phase: Phase,
    previous_from: u64,
    unknown_phases: BTreeMap<String, u64>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], role: impl FnMut(&str) -> Role) -> std::result::Result<Self, Vec<String>> {
        let Some(lines) = Lines::new(bytes) else {
            let empty = bytes.is_empty();
            let why = if empty {
                "it is empty"
            } else {
                "its header is incomplete"
            };
            return Err(vec![why.to_owned()]);
        };
        let roles: Vec<Role> = lines.header.iter().map(String::as_str).map(role).collect();
        let mut notes = Vec::new();
        for (name, role) in lines.header.iter().zip(&roles) {
            if *role == Role::Unknown {
                notes.push(format!("unknown column `{name}`, ignored"));
            }
        }
        let has = |role| roles.contains(&role);
        match (has(Role::From), has(Role::To)) {
            (true, true) => {}
            (false, false) => {
                notes.push("no time column: neither `from_s` nor `to_s` exists".to_owned());
                return Err(notes);
            }
            (from, _) => {
                let absent = if from { "to_s" } else { "from_s" };
                notes.push(format!("no column `{absent}`: each line stands for one moment"));
            }
        }
        if !has(Role::Looks) {
            notes.push("no column `looks`: each line counts as one sample".to_owned());
        }
        Ok(Self {
            lines,
            roles,
            notes,
            phase: Phase::default(),
            previous_from: 0,
            unknown_phases: BTreeMap::new(),
        })
    }

    pub(super) fn has_phases(&self) -> bool {
        self.roles.contains(&Role::Phase)
    }

    /// The next usable line. Other columns go to `value`, which returns false for an invalid field.
    pub(super) fn next(&mut self, mut value: impl FnMut(Role, &[u8]) -> bool) -> Option<CommonColumns> {
        'lines: loop {
            let line = self.lines.next()?;
            let mut fields = Fields(Some(line));
            let (mut from, mut to, mut looks) = (None, None, 1);
            let mut phase: Option<Cow<[u8]>> = None;
            for (index, &role) in self.roles.iter().enumerate() {
                let Some(field) = fields.next() else {
                    let columns = self.roles.len();
                    self.lines.skip(&format!("{index} of {columns} columns"));
                    continue 'lines;
                };
                let valid = match role {
                    Role::From => set(&mut from, micros(&field)),
                    Role::To => set(&mut to, micros(&field)),
                    Role::Looks => integer(&field).is_some_and(|count| {
                        looks = count;
                        true
                    }),
                    Role::Phase => {
                        phase = Some(field.clone());
                        true
                    }
                    Role::Unknown => true,
                    other => value(other, &field),
                };
                if !valid {
                    let name = &self.lines.header[index];
                    let why = format!("`{}` cannot be `{name}`", String::from_utf8_lossy(&field));
                    self.lines.skip(&why);
                    continue 'lines;
                }
            }
            let (Some(from), Some(to)) = (from.or(to), to.or(from)) else {
                continue;
            };
            if to < from || from < self.previous_from {
                self.lines.skip("its time goes backwards");
                continue;
            }
            self.previous_from = from;
            if let Some(name) = phase {
                self.set_phase(&name);
            }
            return Some(CommonColumns {
                from,
                to,
                phase: self.phase,
                looks,
            });
        }
    }

    fn set_phase(&mut self, name: &[u8]) {
        if name == self.phase.name().as_bytes() {
            return;
        }
        match Phase::ALL.into_iter().find(|phase| phase.name().as_bytes() == name) {
            Some(phase) => self.phase = phase,
            None => {
                let name = String::from_utf8_lossy(name).into_owned();
                *self.unknown_phases.entry(name).or_default() += 1;
            }
        }
    }

    pub(super) fn notes(mut self) -> Vec<String> {
        self.notes.extend(self.lines.notes());
        for (name, lines) in self.unknown_phases {
            self.notes.push(format!(
                "unknown phase `{name}`: its {lines} lines count as the previous phase"
            ));
        }
        self.notes
    }
}

fn set(into: &mut Option<u64>, value: Option<u64>) -> bool {
    *into = value;
    value.is_some()
}

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
    fn skip(&mut self, why: &str) {
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
