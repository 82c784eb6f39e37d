//! What a sampler saw, as files in `memory/` of a run's folder. Times are seconds since the sampler's start, to the microsecond;
//! memory is in bytes.
//!
//! `<name>.csv` has one line for each row of a [`Series`], so an idle engine leaves one line: `from_s,to_s,phase,looks,total` and one
//! column for each device, named by its id. `<name>.activity.csv` has one line for each look at power and utilisation, ten a second:
//! `from_s,to_s,phase,looks` and for each device `power_w:<id>` and `busy_percent:<id>`, empty where the driver does not tell.
//! `<name>.processes.csv` has one line for as long as a process held the same on a device: `from_s,to_s,looks,pid,device,used`, empty
//! where the driver does not tell. The last two are there where there is something to tell.

mod kept;
mod lines;
mod reader;

use std::io::{self, Write};

pub use kept::{Kept, read_activity, read_processes, read_series};

use super::beside::{Doing, Holding, Moment};
use super::sampler::Record;
use super::series::Series;

/// What was seen, as files: how each one's name ends after `NAME`, and its text.
#[must_use]
pub fn files(record: &Record) -> Vec<(&'static str, Vec<u8>)> {
    let text = |write: &dyn Fn(&mut Vec<u8>) -> io::Result<()>| {
        let mut text = Vec::new();
        // Writing to memory does not fail.
        let _ = write(&mut text);
        text
    };
    let mut files = vec![(".csv", text(&|out| write(out, &record.series)))];
    if !record.beside.moments().is_empty() {
        files.push((
            ".activity.csv",
            text(&|out| write_activity(out, record.beside.moments())),
        ));
    }
    if !record.beside.holdings().is_empty() {
        files.push((
            ".processes.csv",
            text(&|out| write_processes(out, record.beside.holdings())),
        ));
    }
    files
}

/// Writes a series.
pub fn write(out: &mut impl Write, series: &Series) -> io::Result<()> {
    write!(out, "from_s,to_s,phase,looks,total")?;
    for device in series.devices() {
        write!(out, ",{}", quoted(&device.id))?;
    }
    writeln!(out)?;
    for row in series.rows() {
        write!(
            out,
            "{},{},{},{},{}",
            seconds(row.from),
            seconds(row.to),
            row.phase,
            row.looks,
            row.total
        )?;
        for used in &row.used {
            write!(out, ",{used}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes power and utilisation.
fn write_activity(out: &mut impl Write, moments: &[Moment]) -> io::Result<()> {
    let mut ids: Vec<&str> = Vec::new();
    for doing in moments.iter().flat_map(|moment| &moment.doings) {
        if !ids.contains(&doing.device.as_str()) {
            ids.push(&doing.device);
        }
    }
    write!(out, "from_s,to_s,phase,looks")?;
    for id in &ids {
        let (power, busy) = (format!("power_w:{id}"), format!("busy_percent:{id}"));
        write!(out, ",{},{}", quoted(&power), quoted(&busy))?;
    }
    writeln!(out)?;
    for moment in moments {
        let (from, to) = (seconds(moment.from), seconds(moment.to));
        write!(out, "{from},{to},{},{}", moment.phase, moment.looks)?;
        for id in &ids {
            let doing = moment.doings.iter().find(|doing| doing.device == *id);
            let field = |value: fn(&Doing) -> Option<f64>| {
                doing
                    .and_then(value)
                    .map_or_else(String::new, |value| value.to_string())
            };
            write!(
                out,
                ",{},{}",
                field(|doing| doing.power_w),
                field(|doing| doing.busy_percent)
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes who held how much.
fn write_processes(out: &mut impl Write, holdings: &[Holding]) -> io::Result<()> {
    writeln!(out, "from_s,to_s,looks,pid,device,used")?;
    for row in holdings {
        let (from, to) = (seconds(row.from), seconds(row.to));
        let used = row.tenant.used.map_or_else(String::new, |used| used.to_string());
        let (pid, device) = (row.tenant.pid, quoted(&row.tenant.device));
        writeln!(out, "{from},{to},{},{pid},{device},{used}", row.looks)?;
    }
    Ok(())
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// RFC 4180: a field with a comma, quote or line end is put in quotes, its own quotes doubled. A cgroup's path may have them.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{Activity, Beside, Device, Phase, Reading, Tenant};

    #[test]
    fn the_format_is_as_documented() {
        let reading = |used| Reading {
            devices: vec![Device {
                id: "a,b".into(),
                name: "x".into(),
                used,
                total: 9,
            }],
            tenants: Vec::new(),
            activity: Vec::new(),
        };
        let mut series = Series::default();
        series.push(0, &reading(1));
        series.push(20_000, &reading(1));
        series.mark(Phase::WarmUp);
        series.push(1_040_000, &reading(3));
        let mut text = Vec::new();
        write(&mut text, &series).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "from_s,to_s,phase,looks,total,\"a,b\"\n0.000000,0.020000,baseline,2,1,1\n1.040000,1.040000,warm_up,1,3,3\n"
        );
    }

    #[test]
    fn what_is_beside_memory_has_files_of_its_own() {
        let activity = |device: &str, power_mw, busy_percent| Activity {
            device: device.into(),
            power_mw,
            busy_percent,
        };
        let tenant = |pid, used| Tenant {
            pid,
            device: "a,b".into(),
            used,
        };
        let mut beside = Beside::default();
        let look = Reading {
            devices: Vec::new(),
            tenants: vec![tenant(7, Some(5)), tenant(9, None)],
            activity: vec![activity("a,b", Some(71_500), Some(3)), activity("c", None, None)],
        };
        beside.push(0, Phase::Loading, &look);
        beside.push(100_000, Phase::Load, &look);
        let mut text = Vec::new();
        write_activity(&mut text, beside.moments()).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "from_s,to_s,phase,looks,\"power_w:a,b\",\"busy_percent:a,b\",power_w:c,busy_percent:c\n\
             0.000000,0.000000,loading,1,71.5,3,,\n0.100000,0.100000,load,1,71.5,3,,\n"
        );
        let mut text = Vec::new();
        write_processes(&mut text, beside.holdings()).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "from_s,to_s,looks,pid,device,used\n0.000000,0.100000,2,7,\"a,b\",5\n0.000000,0.100000,2,9,\"a,b\",\n"
        );
    }
}
