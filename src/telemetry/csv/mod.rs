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

use csv::Writer;

pub use files::{SampleFile, read_activity, read_processes, read_series};

use super::sampler::Recording;
use super::series::Series;
use super::slow_samples::{ActivitySample, ProcessMemory};

/// The files of a recording: suffix of the file name, and content.
pub fn files(recording: &Recording) -> Vec<(&'static str, Vec<u8>)> {
    let (activity, processes) = (recording.slow.activity(), recording.slow.processes());
    let mut series = Vec::new();
    // Writing to memory cannot fail.
    let _ = write(&mut series, &recording.series);
    let mut files = vec![(".csv", series)];
    if !activity.is_empty() {
        files.push((".activity.csv", text(activity_records(activity))));
    }
    if !processes.is_empty() {
        files.push((".processes.csv", text(process_records(processes))));
    }
    files
}

/// Writes a series as CSV.
pub fn write(out: &mut impl Write, series: &Series) -> io::Result<()> {
    let mut out = Writer::from_writer(out);
    let columns = ["from_s", "to_s", "phase", "looks", "total"];
    out.write_record(
        columns
            .into_iter()
            .chain(series.devices().iter().map(|device| device.id.as_str())),
    )?;
    for row in series.rows() {
        let common = [
            seconds(row.from),
            seconds(row.to),
            row.phase.to_string(),
            row.looks.to_string(),
            row.total.to_string(),
        ];
        out.write_record(common.into_iter().chain(row.used.iter().map(u64::to_string)))?;
    }
    out.flush()
}

fn text(records: impl IntoIterator<Item = Vec<String>>) -> Vec<u8> {
    let mut writer = Writer::from_writer(Vec::new());
    for record in records {
        let _ = writer.write_record(record);
    }
    writer.into_inner().unwrap_or_default()
}

fn activity_records(samples: &[ActivitySample]) -> Vec<Vec<String>> {
    let mut ids: Vec<&str> = Vec::new();
    for device in samples.iter().flat_map(|sample| &sample.devices) {
        if !ids.contains(&device.device.as_str()) {
            ids.push(&device.device);
        }
    }
    let mut header = ["from_s", "to_s", "phase", "looks"].map(str::to_owned).to_vec();
    header.extend(
        ids.iter()
            .flat_map(|id| [format!("power_w:{id}"), format!("busy_percent:{id}")]),
    );
    let mut records = vec![header];
    for sample in samples {
        let (from, to) = (seconds(sample.from), seconds(sample.to));
        let mut record = vec![from, to, sample.phase.to_string(), sample.looks.to_string()];
        for id in &ids {
            let device = sample.devices.iter().find(|device| device.device == *id);
            record.push(optional(device.and_then(|device| device.power_w)));
            record.push(optional(device.and_then(|device| device.busy_percent)));
        }
        records.push(record);
    }
    records
}

fn process_records(processes: &[ProcessMemory]) -> Vec<Vec<String>> {
    let mut records = vec![
        ["from_s", "to_s", "looks", "pid", "device", "used"]
            .map(str::to_owned)
            .to_vec(),
    ];
    records.extend(processes.iter().map(|row| {
        vec![
            seconds(row.from),
            seconds(row.to),
            row.looks.to_string(),
            row.tenant.pid.to_string(),
            row.tenant.device.clone(),
            optional(row.tenant.used),
        ]
    }));
    records
}

/// Empty if the driver does not report it.
fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
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
        let found = text(activity_records(slow.activity()));
        assert_eq!(
            String::from_utf8(found).unwrap(),
            "from_s,to_s,phase,looks,\"power_w:a,b\",\"busy_percent:a,b\",power_w:c,busy_percent:c\n\
             0.000000,0.000000,loading,1,71.5,3,,\n0.100000,0.100000,load,1,71.5,3,,\n"
        );
        let found = text(process_records(slow.processes()));
        assert_eq!(
            String::from_utf8(found).unwrap(),
            "from_s,to_s,looks,pid,device,used\n0.000000,0.100000,2,7,\"a,b\",5\n0.000000,0.100000,2,9,\"a,b\",\n"
        );
    }
}
