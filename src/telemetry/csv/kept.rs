//! What a sampler left in `memory/`, read back: whole, or as much as a killed run got written. What could not be used is told in notes.

use super::lines::{number, whole};
use super::reader::{Reader, Role, Stretch};
use crate::telemetry::{Doing, Holding, Moment, Row, Series, Tenant};

/// What a file holds.
#[derive(Clone, Debug, Default)]
pub struct Kept<T> {
    /// What was seen, as far as it can be used.
    pub seen: T,
    /// Whether the file tells the phases; without them everything counts to the first one.
    pub phased: bool,
    /// What could not be used, in words; empty where all could be.
    pub notes: Vec<String>,
}

/// Reads `<name>.csv`. The devices have their ids only: the file tells neither their names nor how much they have (see `<name>.usage.json`).
pub fn read_series(bytes: &[u8]) -> Kept<Series> {
    let mut devices: Vec<String> = Vec::new();
    let reader = Reader::of(bytes, |name| {
        Role::common(name).unwrap_or_else(|| match name {
            "total" => Role::Total,
            // In other units than ours, or of no device.
            "" => Role::Unknown,
            _ if ["from_", "to_", "total_"].iter().any(|start| name.starts_with(start)) => Role::Unknown,
            id => {
                devices.push(id.to_owned());
                Role::Used(devices.len() - 1)
            }
        })
    });
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(notes) => return nothing(notes),
    };
    let summed = !reader.roles.contains(&Role::Total);
    if summed && !devices.is_empty() {
        reader
            .notes
            .push("no column `total`: the devices are added up".to_owned());
    }
    let mut rows = Vec::new();
    loop {
        let (mut total, mut used) = (0, Vec::with_capacity(devices.len()));
        let stretch = reader.next(|role, field| {
            if matches!(role, Role::Used(0)) {
                used.clear();
            }
            let Some(bytes) = whole(field) else { return false };
            match role {
                Role::Total => total = bytes,
                _ => used.push(bytes),
            }
            true
        });
        let Some(Stretch { from, to, phase, looks }) = stretch else {
            break;
        };
        if summed {
            total = used.iter().sum();
        }
        rows.push(Row {
            from,
            to,
            phase,
            looks,
            total,
            used,
        });
    }
    if rows.is_empty() {
        reader.notes.push("it has no line that can be used".to_owned());
    }
    Kept {
        seen: Series::of(&devices, rows),
        phased: reader.phased(),
        notes: reader.notes(),
    }
}

/// Reads `<name>.activity.csv`: power in watts and utilisation in per cent.
pub fn read_activity(bytes: &[u8]) -> Kept<Vec<Moment>> {
    let mut devices: Vec<String> = Vec::new();
    let reader = Reader::of(bytes, |name| {
        let mut nth = |id: &str| {
            devices.iter().position(|known| known == id).unwrap_or_else(|| {
                devices.push(id.to_owned());
                devices.len() - 1
            })
        };
        let common = Role::common(name);
        let power = || name.strip_prefix("power_w:");
        let busy = || name.strip_prefix("busy_percent:");
        match (common, power(), busy()) {
            (Some(role), _, _) => role,
            (_, Some(id), _) => Role::Power(nth(id)),
            (_, _, Some(id)) => Role::Busy(nth(id)),
            _ => Role::Unknown,
        }
    });
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(notes) => return nothing(notes),
    };
    let still = |device: &String| Doing {
        device: device.clone(),
        power_w: None,
        busy_percent: None,
    };
    let mut moments = Vec::new();
    loop {
        let mut doings: Vec<Doing> = devices.iter().map(still).collect();
        let stretch = reader.next(|role, field| {
            // Empty where the driver does not tell.
            let value = number(field);
            match role {
                Role::Power(device) => doings[device].power_w = value,
                Role::Busy(device) => doings[device].busy_percent = value,
                _ => {}
            }
            value.is_some() || field.is_empty()
        });
        let Some(Stretch { from, to, phase, looks }) = stretch else {
            break;
        };
        moments.push(Moment {
            from,
            to,
            phase,
            looks,
            doings,
        });
    }
    Kept {
        seen: moments,
        phased: reader.phased(),
        notes: reader.notes(),
    }
}

/// Reads `<name>.processes.csv`: who held how much.
pub fn read_processes(bytes: &[u8]) -> Kept<Vec<Holding>> {
    let reader = Reader::of(bytes, |name| {
        Role::common(name).unwrap_or(match name {
            "pid" => Role::Pid,
            "device" => Role::Device,
            "used" => Role::Bytes,
            _ => Role::Unknown,
        })
    });
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(notes) => return nothing(notes),
    };
    for (role, name) in [(Role::Pid, "pid"), (Role::Device, "device"), (Role::Bytes, "used")] {
        if !reader.roles.contains(&role) {
            reader.notes.push(format!("no column `{name}`"));
            return nothing(reader.notes());
        }
    }
    let mut holdings = Vec::new();
    loop {
        let (mut pid, mut device, mut used) = (0, String::new(), None);
        let stretch = reader.next(|role, field| match role {
            Role::Pid => whole(field)
                .and_then(|number| number.try_into().ok())
                .is_some_and(|number| {
                    pid = number;
                    true
                }),
            Role::Device => {
                device = String::from_utf8_lossy(field).into_owned();
                true
            }
            // Empty where the driver does not tell.
            _ => {
                used = whole(field);
                used.is_some() || field.is_empty()
            }
        });
        let Some(Stretch { from, to, looks, .. }) = stretch else {
            break;
        };
        holdings.push(Holding {
            from,
            to,
            looks,
            tenant: Tenant { pid, device, used },
        });
    }
    Kept {
        seen: holdings,
        phased: false,
        notes: reader.notes(),
    }
}

fn nothing<T: Default>(notes: Vec<String>) -> Kept<T> {
    Kept {
        seen: T::default(),
        phased: false,
        notes,
    }
}

#[cfg(test)]
mod tests;
