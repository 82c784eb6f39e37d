//! Reads one CSV file of a sampler: the meaning of its columns, invalid lines, and the columns that all files share
//! (time, phase, number of samples).

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::lines::{Fields, Lines, integer, micros};
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
