//! A sampler's files in `memory/` of a run's folder. Times are seconds since the sampler's start, to the microsecond;
//! memory is in bytes.
//!
//! `<name>.csv` has one line per row of a [`Series`], so an idle engine produces one line:
//! `from_s,to_s,phase,looks,total` and one column per device, named by its id. `<name>.activity.csv` has one line per
//! sample of power and utilisation, ten a second: `from_s,to_s,phase,looks` and per device `power_w:<id>` and
//! `busy_percent:<id>`, empty if the driver does not report it. `<name>.processes.csv` has one line for as long as a
//! process's memory on a device stayed the same: `from_s,to_s,looks,pid,device,used`, empty if the driver does not
//! report it. The last two files exist only if they have content. `looks` is the number of samples.

mod files;
mod parse;

use std::io::{self, Write};

pub use files::{SampleFile, read_activity, read_processes, read_series};

use super::sampler::Recording;
use super::series::Series;
use super::slow_samples::{ActivitySample, DeviceActivity, ProcessMemory};

/// The files of a recording: suffix of the file name, and content.
#[must_use]
pub fn files(recording: &Recording) -> Vec<(&'static str, Vec<u8>)> {
    let text = |write: &dyn Fn(&mut Vec<u8>) -> io::Result<()>| {
        let mut text = Vec::new();
        // Writing to memory cannot fail.
        let _ = write(&mut text);
        text
    };
    let mut files = vec![(".csv", text(&|out| write(out, &recording.series)))];
    if !recording.slow.activity().is_empty() {
        files.push((
            ".activity.csv",
            text(&|out| write_activity(out, recording.slow.activity())),
        ));
    }
    if !recording.slow.processes().is_empty() {
        files.push((
            ".processes.csv",
            text(&|out| write_processes(out, recording.slow.processes())),
        ));
    }
    files
}

/// Writes a series as CSV.
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

fn write_activity(out: &mut impl Write, samples: &[ActivitySample]) -> io::Result<()> {
    let mut ids: Vec<&str> = Vec::new();
    for device in samples.iter().flat_map(|sample| &sample.devices) {
        if !ids.contains(&device.device.as_str()) {
            ids.push(&device.device);
        }
    }
    write!(out, "from_s,to_s,phase,looks")?;
    for id in &ids {
        let (power, busy) = (format!("power_w:{id}"), format!("busy_percent:{id}"));
        write!(out, ",{},{}", quoted(&power), quoted(&busy))?;
    }
    writeln!(out)?;
    for sample in samples {
        let (from, to) = (seconds(sample.from), seconds(sample.to));
        write!(out, "{from},{to},{},{}", sample.phase, sample.looks)?;
        for id in &ids {
            let device = sample.devices.iter().find(|device| device.device == *id);
            let field = |value: fn(&DeviceActivity) -> Option<f64>| {
                device
                    .and_then(value)
                    .map_or_else(String::new, |value| value.to_string())
            };
            write!(
                out,
                ",{},{}",
                field(|device| device.power_w),
                field(|device| device.busy_percent)
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn write_processes(out: &mut impl Write, processes: &[ProcessMemory]) -> io::Result<()> {
    writeln!(out, "from_s,to_s,looks,pid,device,used")?;
    for row in processes {
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

/// RFC 4180: quotes a field with a comma, quote or line end and doubles its quotes. A cgroup's path may need it.
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
    use crate::telemetry::{Activity, Device, Phase, Reading, SlowSamples, Tenant};

    #[test]
    fn format_is_as_documented() {
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
    fn slow_samples_have_their_own_files() {
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
        let mut slow = SlowSamples::default();
        let look = Reading {
            devices: Vec::new(),
            tenants: vec![tenant(7, Some(5)), tenant(9, None)],
            activity: vec![activity("a,b", Some(71_500), Some(3)), activity("c", None, None)],
        };
        slow.push(0, Phase::Loading, &look);
        slow.push(100_000, Phase::Load, &look);
        let mut text = Vec::new();
        write_activity(&mut text, slow.activity()).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "from_s,to_s,phase,looks,\"power_w:a,b\",\"busy_percent:a,b\",power_w:c,busy_percent:c\n\
             0.000000,0.000000,loading,1,71.5,3,,\n0.100000,0.100000,load,1,71.5,3,,\n"
        );
        let mut text = Vec::new();
        write_processes(&mut text, slow.processes()).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "from_s,to_s,looks,pid,device,used\n0.000000,0.100000,2,7,\"a,b\",5\n0.000000,0.100000,2,9,\"a,b\",\n"
        );
    }
}
