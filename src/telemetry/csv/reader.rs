//! One file that a sampler left, line by line: which column holds what, what is wrong with a line, and what all files have in common (when, in which
//! phase, how many looks).

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::lines::{Fields, Lines, micros, whole};
use crate::telemetry::Phase;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    From,
    To,
    Phase,
    Looks,
    Total,
    /// The memory of the n-th device.
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
    /// Of a column that every file may have.
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

/// What each line has before its figures.
pub(super) struct Stretch {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) phase: Phase,
    pub(super) looks: u64,
}

/// Reads the lines below a heading, column by column.
pub(super) struct Reader<'a> {
    lines: Lines<'a>,
    pub(super) roles: Vec<Role>,
    pub(super) notes: Vec<String>,
    phase: Phase,
    before: u64,
    unknown_phases: BTreeMap<String, u64>,
}

impl<'a> Reader<'a> {
    pub(super) fn of(bytes: &'a [u8], role: impl FnMut(&str) -> Role) -> std::result::Result<Self, Vec<String>> {
        let Some(lines) = Lines::of(bytes) else {
            let empty = bytes.is_empty();
            let why = if empty { "it is empty" } else { "its heading is cut off" };
            return Err(vec![why.to_owned()]);
        };
        let roles: Vec<Role> = lines.heading.iter().map(String::as_str).map(role).collect();
        let mut notes = Vec::new();
        for (name, role) in lines.heading.iter().zip(&roles) {
            if *role == Role::Unknown {
                notes.push(format!("the column `{name}` is not known, and left out"));
            }
        }
        let has = |role| roles.contains(&role);
        match (has(Role::From), has(Role::To)) {
            (true, true) => {}
            (false, false) => {
                notes.push("no column tells when: neither `from_s` nor `to_s` is there".to_owned());
                return Err(notes);
            }
            (from, _) => {
                let absent = if from { "to_s" } else { "from_s" };
                notes.push(format!("no column `{absent}`: each line stands for one moment"));
            }
        }
        if !has(Role::Looks) {
            notes.push("no column `looks`: each line counts as one look".to_owned());
        }
        Ok(Self {
            lines,
            roles,
            notes,
            phase: Phase::default(),
            before: 0,
            unknown_phases: BTreeMap::new(),
        })
    }

    pub(super) fn phased(&self) -> bool {
        self.roles.contains(&Role::Phase)
    }

    /// The next line that can be used: its figures went to `figure`, which is false for what it cannot use.
    pub(super) fn next(&mut self, mut figure: impl FnMut(Role, &[u8]) -> bool) -> Option<Stretch> {
        'lines: loop {
            let line = self.lines.next()?;
            let mut fields = Fields(Some(line));
            let (mut from, mut to, mut looks) = (None, None, 1);
            let mut phase: Option<Cow<[u8]>> = None;
            for (index, &role) in self.roles.iter().enumerate() {
                let Some(field) = fields.next() else {
                    let columns = self.roles.len();
                    self.lines.refuse(&format!("{index} of {columns} columns"));
                    continue 'lines;
                };
                let good = match role {
                    Role::From => set(&mut from, micros(&field)),
                    Role::To => set(&mut to, micros(&field)),
                    Role::Looks => whole(&field).is_some_and(|count| {
                        looks = count;
                        true
                    }),
                    Role::Phase => {
                        phase = Some(field.clone());
                        true
                    }
                    Role::Unknown => true,
                    other => figure(other, &field),
                };
                if !good {
                    let name = &self.lines.heading[index];
                    let why = format!("`{}` cannot be `{name}`", String::from_utf8_lossy(&field));
                    self.lines.refuse(&why);
                    continue 'lines;
                }
            }
            let (Some(from), Some(to)) = (from.or(to), to.or(from)) else {
                continue;
            };
            if to < from || from < self.before {
                self.lines.refuse("its time goes back");
                continue;
            }
            self.before = from;
            if let Some(name) = phase {
                self.enter(&name);
            }
            return Some(Stretch {
                from,
                to,
                phase: self.phase,
                looks,
            });
        }
    }

    fn enter(&mut self, name: &[u8]) {
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
                "the phase `{name}` is not known: its {lines} lines count to the phase before them"
            ));
        }
        self.notes
    }
}

fn set(into: &mut Option<u64>, value: Option<u64>) -> bool {
    *into = value;
    value.is_some()
}
