//! Reads one CSV file of a sampler: the meaning of its columns, invalid lines, and the columns that all files share
//! (time, phase, number of samples).
//!
//! Works on bytes, one record at a time: an hour at 100 Hz of eight GPUs is read interactively. Unusable lines are
//! counted and skipped, because a run may have been killed while writing.

use std::collections::BTreeMap;

use csv::{ByteRecord, ReaderBuilder};

use crate::csv::is_closed;
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
    bytes: &'a [u8],
    records: csv::Reader<&'a [u8]>,
    record: ByteRecord,
    /// Column names.
    header: Vec<String>,
    pub(super) roles: Vec<Role>,
    pub(super) notes: Vec<String>,
    phase: Phase,
    previous_from: u64,
    unknown_phases: BTreeMap<String, u64>,
    skipped: usize,
    /// The first line that was skipped, and why.
    first: String,
    truncated: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], role: impl FnMut(&str) -> Role) -> std::result::Result<Self, Vec<String>> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut builder = ReaderBuilder::new();
        let mut reader = Self {
            bytes,
            records: builder.has_headers(false).flexible(true).from_reader(bytes),
            record: ByteRecord::new(),
            header: Vec::new(),
            roles: Vec::new(),
            notes: Vec::new(),
            phase: Phase::default(),
            previous_from: 0,
            unknown_phases: BTreeMap::new(),
            skipped: 0,
            first: String::new(),
            truncated: false,
        };
        if !reader.advance() {
            let empty = bytes.is_empty();
            let why = if empty {
                "it is empty"
            } else {
                "its header is incomplete"
            };
            return Err(vec![why.to_owned()]);
        }
        let names = reader.record.iter();
        reader.header = names
            .map(|name| String::from_utf8_lossy(name).trim().to_owned())
            .collect();
        let roles: Vec<Role> = reader.header.iter().map(String::as_str).map(role).collect();
        let mut notes = Vec::new();
        for (name, role) in reader.header.iter().zip(&roles) {
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
        Ok(Self { roles, notes, ..reader })
    }

    /// Reads the next record, if it is complete: a truncated number is still a number.
    fn advance(&mut self) -> bool {
        let at = |records: &csv::Reader<&[u8]>| usize::try_from(records.position().byte()).unwrap_or(usize::MAX);
        let start = at(&self.records);
        if !self.records.read_byte_record(&mut self.record).unwrap_or(false) {
            return false;
        }
        let record = self.bytes.get(start..at(&self.records)).unwrap_or_default();
        let last = start + record.len() >= self.bytes.len();
        self.truncated = last && !(record.ends_with(b"\n") && is_closed(record));
        !self.truncated
    }

    /// Marks the latest line as unusable.
    fn skip(&mut self, why: &str) {
        if self.skipped == 0 {
            let line = self.record.position().map_or(0, csv::Position::line);
            self.first = format!("line {line}: {why}");
        }
        self.skipped += 1;
    }

    pub(super) fn has_phases(&self) -> bool {
        self.roles.contains(&Role::Phase)
    }

    /// The next usable line. Other columns go to `value`, which returns false for an invalid field.
    pub(super) fn next(&mut self, mut value: impl FnMut(Role, &[u8]) -> bool) -> Option<CommonColumns> {
        'lines: loop {
            if !self.advance() {
                return None;
            }
            let (mut from, mut to, mut looks, mut phase) = (None, None, 1, None);
            for (index, &role) in self.roles.iter().enumerate() {
                let Some(field) = self.record.get(index) else {
                    let columns = self.roles.len();
                    self.skip(&format!("{index} of {columns} columns"));
                    continue 'lines;
                };
                let valid = match role {
                    Role::From => set(&mut from, micros(field)),
                    Role::To => set(&mut to, micros(field)),
                    Role::Looks => integer(field).is_some_and(|count| {
                        looks = count;
                        true
                    }),
                    Role::Phase => {
                        phase = Some(index);
                        true
                    }
                    Role::Unknown => true,
                    other => value(other, field),
                };
                if !valid {
                    let name = &self.header[index];
                    let why = format!("`{}` cannot be `{name}`", String::from_utf8_lossy(field));
                    self.skip(&why);
                    continue 'lines;
                }
            }
            let (Some(from), Some(to)) = (from.or(to), to.or(from)) else {
                continue;
            };
            if to < from || from < self.previous_from {
                self.skip("its time goes backwards");
                continue;
            }
            self.previous_from = from;
            if let Some(index) = phase {
                self.set_phase(index);
            }
            return Some(CommonColumns {
                from,
                to,
                phase: self.phase,
                looks,
            });
        }
    }

    fn set_phase(&mut self, column: usize) {
        let name = self.record.get(column).unwrap_or_default();
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

    /// Descriptions of what could not be used.
    pub(super) fn notes(mut self) -> Vec<String> {
        match self.skipped {
            0 => {}
            1 => self.notes.push(format!("{} (skipped)", self.first)),
            many => self
                .notes
                .push(format!("{many} lines skipped; the first, {}", self.first)),
        }
        if self.truncated {
            self.notes
                .push("the last line is incomplete and was skipped".to_owned());
        }
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
}
