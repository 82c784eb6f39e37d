//! Reads a sampler's files in `memory/`, complete or as far as a killed run wrote them. Notes say what could not be
//! used.

use super::parse::{CommonColumns, Reader, Role, integer, number};
use crate::telemetry::{ActivitySample, DeviceActivity, ProcessMemory, Row, Series, Tenant};

/// The content of a file.
#[derive(Clone, Debug, Default)]
pub struct SampleFile<T> {
    /// The usable data.
    pub data: T,
    /// Whether the file has a column of phases; without it everything belongs to the first phase.
    pub has_phases: bool,
    /// What could not be used; empty if everything could.
    pub notes: Vec<String>,
}

/// Reads `<name>.csv`. The devices have only their ids, because the file has neither names nor sizes (see
/// `<name>.usage.json`).
pub fn read_series(bytes: &[u8]) -> SampleFile<Series> {
    let mut devices: Vec<String> = Vec::new();
    let reader = Reader::new(bytes, |name| {
        Role::common(name).unwrap_or_else(|| match name {
            "total" => Role::Total,
            // Another unit, or no device.
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
        Err(notes) => return empty_file(notes),
    };
    let summed = !reader.roles.contains(&Role::Total);
    if summed && !devices.is_empty() {
        reader
            .notes
            .push("no column `total`: using the sum of the devices".to_owned());
    }
    let mut rows = Vec::new();
    loop {
        let (mut total, mut used) = (0, Vec::with_capacity(devices.len()));
        let common = reader.next(|role, field| {
            if matches!(role, Role::Used(0)) {
                used.clear();
            }
            let Some(bytes) = integer(field) else { return false };
            match role {
                Role::Total => total = bytes,
                _ => used.push(bytes),
            }
            true
        });
        let Some(CommonColumns { from, to, phase, looks }) = common else {
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
        reader.notes.push("it has no usable line".to_owned());
    }
    SampleFile {
        data: Series::from_rows(&devices, rows),
        has_phases: reader.has_phases(),
        notes: reader.notes(),
    }
}

/// Reads `<name>.activity.csv`: power in watts and utilisation in per cent.
pub fn read_activity(bytes: &[u8]) -> SampleFile<Vec<ActivitySample>> {
    let mut devices: Vec<String> = Vec::new();
    let reader = Reader::new(bytes, |name| {
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
        Err(notes) => return empty_file(notes),
    };
    let no_activity = |device: &String| DeviceActivity {
        device: device.clone(),
        power_w: None,
        busy_percent: None,
    };
    let mut samples = Vec::new();
    loop {
        let mut activity: Vec<DeviceActivity> = devices.iter().map(no_activity).collect();
        let common = reader.next(|role, field| {
            // Empty if the driver does not report it.
            let value = number(field);
            match role {
                Role::Power(device) => activity[device].power_w = value,
                Role::Busy(device) => activity[device].busy_percent = value,
                _ => {}
            }
            value.is_some() || field.is_empty()
        });
        let Some(CommonColumns { from, to, phase, looks }) = common else {
            break;
        };
        samples.push(ActivitySample {
            from,
            to,
            phase,
            looks,
            devices: activity,
        });
    }
    SampleFile {
        data: samples,
        has_phases: reader.has_phases(),
        notes: reader.notes(),
    }
}

/// Reads `<name>.processes.csv`: memory of processes.
pub fn read_processes(bytes: &[u8]) -> SampleFile<Vec<ProcessMemory>> {
    let reader = Reader::new(bytes, |name| {
        Role::common(name).unwrap_or(match name {
            "pid" => Role::Pid,
            "device" => Role::Device,
            "used" => Role::Bytes,
            _ => Role::Unknown,
        })
    });
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(notes) => return empty_file(notes),
    };
    for (role, name) in [(Role::Pid, "pid"), (Role::Device, "device"), (Role::Bytes, "used")] {
        if !reader.roles.contains(&role) {
            reader.notes.push(format!("no column `{name}`"));
            return empty_file(reader.notes());
        }
    }
    let mut processes = Vec::new();
    loop {
        let (mut pid, mut device, mut used) = (0, String::new(), None);
        let common = reader.next(|role, field| match role {
            Role::Pid => integer(field)
                .and_then(|number| number.try_into().ok())
                .is_some_and(|number| {
                    pid = number;
                    true
                }),
            Role::Device => {
                device = String::from_utf8_lossy(field).into_owned();
                true
            }
            // Empty if the driver does not report it.
            _ => {
                used = integer(field);
                used.is_some() || field.is_empty()
            }
        });
        let Some(CommonColumns { from, to, looks, .. }) = common else {
            break;
        };
        processes.push(ProcessMemory {
            from,
            to,
            looks,
            tenant: Tenant { pid, device, used },
        });
    }
    SampleFile {
        data: processes,
        has_phases: false,
        notes: reader.notes(),
    }
}

fn empty_file<T: Default>(notes: Vec<String>) -> SampleFile<T> {
    SampleFile {
        data: T::default(),
        has_phases: false,
        notes,
    }
}

#[cfg(test)]
mod tests;
