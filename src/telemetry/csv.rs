//! A sampler's files in `memory/` of a run's folder. Times are seconds since the sampler's start, to the microsecond;
//! memory is in bytes.
//!
//! `<name>.csv` has one line per row of a [`Series`], so an idle engine produces one line:
//! `from_s,to_s,phase,samples,total` and one column per device, named by its id. `<name>.activity.csv` has one line per
//! sample of power and utilisation, ten a second: `from_s,to_s,phase,samples` and per device `power_w:<id>` and
//! `busy_percent:<id>`, empty if the driver does not report it. `<name>.processes.csv` has one line per period of
//! constant memory of a process on a device: `from_s,to_s,samples,pid,device,used`, empty if the driver does not report
//! it. The last two files exist only if they have content. `samples` is the number of samples.
//!
//! The first two are read back for a page, complete or as far as a killed run wrote them. They are parsed as bytes, one
//! record at a time, because an hour of eight GPUs at 100 Hz must load interactively.

use std::str::FromStr;

use csv::{ByteRecord, ReaderBuilder, Writer};

use super::Phase;
use super::sampler::Recording;
use super::series::{ActivitySample, DeviceActivity, ProcessMemory, Series, SeriesRow};

/// The first columns of the files that are read back.
const SERIES: [&str; 5] = ["from_s", "to_s", "phase", "samples", "total"];
const ACTIVITY: [&str; 4] = ["from_s", "to_s", "phase", "samples"];
const PROCESSES: [&str; 6] = ["from_s", "to_s", "samples", "pid", "device", "used"];

/// The files of a recording: suffix of the file name, and content.
pub fn files(recording: &Recording) -> Vec<(&'static str, Vec<u8>)> {
    let (activity, processes) = (recording.slow.activity(), recording.slow.processes());
    let mut files = vec![(".csv", series_file(&recording.series))];
    if !activity.is_empty() {
        files.push((".activity.csv", activity_file(activity)));
    }
    if !processes.is_empty() {
        files.push((".processes.csv", processes_file(processes)));
    }
    files
}

fn file(columns: &[&str], more: Vec<String>, rows: impl Iterator<Item = Vec<String>>) -> Vec<u8> {
    let mut writer = Writer::from_writer(Vec::new());
    // Writing to memory cannot fail.
    let _ = writer.write_record(columns.iter().copied().chain(more.iter().map(String::as_str)));
    for row in rows {
        let _ = writer.write_record(row);
    }
    writer.into_inner().unwrap_or_default()
}

fn series_file(series: &Series) -> Vec<u8> {
    let ids = series.devices().iter().map(|device| device.id.clone()).collect();
    let rows = series.rows().iter().map(|row| {
        let mut fields = common(row.from, row.to, row.phase, row.samples);
        fields.push(row.total.to_string());
        fields.extend(row.used.iter().map(u64::to_string));
        fields
    });
    file(&SERIES, ids, rows)
}

fn activity_file(samples: &[ActivitySample]) -> Vec<u8> {
    let mut ids: Vec<&str> = Vec::new();
    for device in samples.iter().flat_map(|sample| &sample.devices) {
        if !ids.contains(&device.device.as_str()) {
            ids.push(&device.device);
        }
    }
    let columns = ids
        .iter()
        .flat_map(|id| [format!("power_w:{id}"), format!("busy_percent:{id}")]);
    let rows = samples.iter().map(|sample| {
        let mut fields = common(sample.from, sample.to, sample.phase, sample.samples);
        for id in &ids {
            let device = sample.devices.iter().find(|device| device.device == *id);
            fields.push(optional(device.and_then(|device| device.power_w)));
            fields.push(optional(device.and_then(|device| device.busy_percent)));
        }
        fields
    });
    file(&ACTIVITY, columns.collect(), rows)
}

fn processes_file(processes: &[ProcessMemory]) -> Vec<u8> {
    let rows = processes.iter().map(|row| {
        let (samples, pid) = (row.samples.to_string(), row.tenant.pid.to_string());
        let (device, used) = (row.tenant.device.clone(), optional(row.tenant.used));
        vec![seconds(row.from), seconds(row.to), samples, pid, device, used]
    });
    file(&PROCESSES, Vec::new(), rows)
}

fn common(from: u64, to: u64, phase: Phase, samples: u64) -> Vec<String> {
    vec![seconds(from), seconds(to), phase.to_string(), samples.to_string()]
}

/// The value, or nothing if the driver does not report it.
fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// Reads `<name>.csv`. Returns the usable data, and notes for people on the unusable part. The devices have only their
/// ids, because the file contains neither names nor sizes (see `<name>.usage.json`).
pub fn read_series(bytes: &[u8]) -> (Series, Vec<String>) {
    let (ids, rows, notes) = read(bytes, &SERIES, |_, (from, to, phase, samples), record| {
        Some(SeriesRow {
            from,
            to,
            phase,
            samples,
            total: value(record.get(SERIES.len() - 1)?)?,
            used: record.iter().skip(SERIES.len()).map(value).collect::<Option<_>>()?,
        })
    });
    (Series::from_rows(&ids, rows), notes)
}

/// Reads `<name>.activity.csv`, as [`read_series`]: power in watts and utilisation in per cent.
pub fn read_activity(bytes: &[u8]) -> (Vec<ActivitySample>, Vec<String>) {
    let (_, samples, notes) = read(bytes, &ACTIVITY, |columns, (from, to, phase, samples), record| {
        let mut values = record.iter().skip(ACTIVITY.len()).map(|field| match field {
            [] => Some(None),
            field => value(field).filter(|value: &f64| value.is_finite()).map(Some),
        });
        let mut device = |pair: &[String]| {
            Some(DeviceActivity {
                device: pair[0].strip_prefix("power_w:")?.to_owned(),
                power_w: values.next()??,
                busy_percent: values.next()??,
            })
        };
        Some(ActivitySample {
            from,
            to,
            phase,
            samples,
            devices: columns.chunks_exact(2).map(&mut device).collect::<Option<_>>()?,
        })
    });
    (samples, notes)
}

/// From, to, phase and number of samples of a line.
type Common = (u64, u64, Phase, u64);

/// Returns the names of the columns after the first ones, the usable lines, and notes on the unusable part. `row`
/// converts a line, given these names, its first columns and the whole record.
fn read<T>(
    bytes: &[u8],
    first: &[&str],
    row: impl Fn(&[String], Common, &ByteRecord) -> Option<T>,
) -> (Vec<String>, Vec<T>, Vec<String>) {
    let nothing = |why: String| (Vec::new(), Vec::new(), vec![why]);
    // A truncated number is still a number, so a line counts only if its end is present.
    let end = match memchr::memrchr(b'\n', bytes) {
        Some(end) => end + 1,
        None if bytes.is_empty() => return nothing("it is empty".to_owned()),
        None => return nothing("its header is incomplete".to_owned()),
    };
    let mut reader = ReaderBuilder::new().flexible(true).from_reader(&bytes[..end]);
    let header = reader.byte_headers().cloned().unwrap_or_default();
    let mut columns = header.iter().map(|name| String::from_utf8_lossy(name).into_owned());
    if !first.iter().all(|wanted| columns.next().as_deref() == Some(wanted)) {
        return nothing(format!("its columns do not begin with {}", first.join(",")));
    }
    let names: Vec<String> = columns.collect();
    let (mut rows, mut record, mut before) = (Vec::new(), ByteRecord::new(), 0);
    let (mut skipped, mut line) = (0_u64, 0);
    while reader.read_byte_record(&mut record).unwrap_or(false) {
        let common = common_columns(&record)
            .filter(|(from, to, ..)| record.len() == header.len() && before <= *from && from <= to);
        match common.and_then(|common| Some((common.0, row(&names, common, &record)?))) {
            Some((from, row)) => {
                before = from;
                rows.push(row);
            }
            None => {
                if skipped == 0 {
                    line = record.position().map_or(0, csv::Position::line);
                }
                skipped += 1;
            }
        }
    }
    let mut notes = Vec::new();
    match skipped {
        0 => {}
        1 => notes.push(format!("line {line} cannot be read and was skipped")),
        many => notes.push(format!(
            "{many} lines cannot be read and were skipped; the first is line {line}"
        )),
    }
    if end < bytes.len() {
        notes.push("the last line is incomplete and was skipped".to_owned());
    }
    if rows.is_empty() {
        notes.push("it has no usable line".to_owned());
    }
    (names, rows, notes)
}

fn common_columns(record: &ByteRecord) -> Option<Common> {
    let micros = |column: usize| {
        let seconds: f64 = value(record.get(column)?)?;
        (0.0..1e12).contains(&seconds).then(|| (seconds * 1e6).round() as u64)
    };
    let name = record.get(2)?;
    let phase = Phase::ALL.into_iter().find(|phase| phase.name().as_bytes() == name)?;
    Some((micros(0)?, micros(1)?, phase, value(record.get(3)?)?))
}

fn value<T: FromStr>(field: &[u8]) -> Option<T> {
    str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    //! Data that is read back equals the data written, however the file was damaged.

    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;
    use crate::telemetry::{Activity, Device, Reading, SlowSamples};

    fn reading(ids: &[String], used: &[u64]) -> Reading {
        let of = || ids.iter().zip(used);
        let device = |(id, &used): (&String, &u64)| Device {
            id: id.clone(),
            name: "x".into(),
            used,
            total: 1 << 40,
        };
        let activity = |(id, &used): (&String, &u64)| Activity {
            device: id.clone(),
            power_mw: (used % 3 > 0).then_some(used % 700_000),
            busy_percent: (used % 4 > 0).then_some(used % 101),
        };
        Reading {
            devices: of().map(device).collect(),
            tenants: Vec::new(),
            activity: of().map(activity).collect(),
        }
    }

    proptest! {
        #[test]
        fn round_trip(
            ids in prop::collection::btree_set("[a-z,\"/ -]{1,12}", 1..4),
            samples in prop::collection::vec((0_usize..6, 0_u64..1 << 37, 0_u64..3, 0_u64..5_000_000), 1..60),
        ) {
            let ids: Vec<String> = ids.into_iter().collect();
            let (mut series, mut slow, mut at) = (Series::default(), SlowSamples::default(), 0);
            for (phase, used, others, after) in samples {
                let used: Vec<u64> = (0..ids.len() as u64).map(|index| if index == 0 { used } else { others }).collect();
                series.mark(Phase::ALL[phase]);
                series.push(at, &reading(&ids, &used));
                slow.push(at, Phase::ALL[phase], &reading(&ids, &used));
                at += after;
            }
            let (file, notes) = read_series(&series_file(&series));
            prop_assert!(notes.is_empty(), "{:?}", notes);
            prop_assert_eq!(file.rows(), series.rows());
            let read: Vec<String> = file.devices().iter().map(|device| device.id.clone()).collect();
            prop_assert_eq!(read, ids);
            prop_assert_eq!(read_activity(&activity_file(slow.activity())).0, slow.activity());
        }

        /// Wherever the file is truncated: no panic, no invented values, and a note about the loss.
        #[test]
        fn truncated_file_gives_complete_lines(at in 0_usize..130) {
            let text = "from_s,to_s,phase,samples,total,a,b\n0.000000,1.000000,loading,3,30,10,20\n1.010000,2.500000,ready,4,500,200,300\n3.000000,3.000000,after,1,0,0,0\n";
            let cut = &text[..at.min(text.len())];
            let (file, notes) = read_series(cut.as_bytes());
            let (whole, _) = read_series(text.as_bytes());
            let lines = cut.matches('\n').count();
            prop_assert_eq!(file.rows(), &whole.rows()[..lines.saturating_sub(1)]);
            prop_assert_eq!(notes.is_empty(), cut.ends_with('\n') && lines > 1, "{:?}", notes);
        }
    }

    #[test]
    fn usable_lines_of_a_broken_file_are_used() {
        let text = "from_s,to_s,phase,samples,total,a\n\
                    0.000000,0.500000,baseline,1,5,5\n0.400000,1.000000,baseline,1,6,6\n0.300000,2.000000,loading,1,9,7\n\
                    2.000000,2.000000,loading,1,9,12 MiB\n3.000000,3.000000,loading\n4.000000,4.000000,dreaming,1,8,8\n";
        let (file, notes) = read_series(text.as_bytes());
        let rows: Vec<_> = file.rows().iter().map(|row| (row.from, row.total)).collect();
        assert_eq!(rows, [(0, 5), (400_000, 6)]);
        assert_eq!(notes, ["4 lines cannot be read and were skipped; the first is line 4"]);
        for (text, expected) in [
            ("", "empty"),
            ("from_s,to_s", "header is incomplete"),
            ("a,b\n1,2\n", "columns"),
            ("from_s,to_s,phase,samples,total,a\n", "no usable line"),
        ] {
            let (file, notes) = read_series(text.as_bytes());
            assert!(file.rows().is_empty(), "{text}");
            assert!(notes.join("; ").contains(expected), "{text}: {:?}", notes);
        }
    }

    #[test]
    fn files_of_real_runs_are_complete() {
        let runs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/runs");
        let mut files = 0;
        for run in std::fs::read_dir(runs).unwrap() {
            // A run without an engine has none.
            let memory = std::fs::read_dir(run.unwrap().path().join("memory"));
            for file in memory.into_iter().flatten() {
                let path = file.unwrap().path();
                let name = path.to_str().unwrap();
                let bytes = std::fs::read(&path).unwrap();
                let lines = || String::from_utf8_lossy(&bytes).lines().count() - 1;
                let (rows, notes) = if name.contains(".activity") {
                    let (file, notes) = read_activity(&bytes);
                    (file.len(), notes)
                } else if name.ends_with(".csv") && !name.contains(".processes") {
                    let (file, notes) = read_series(&bytes);
                    (file.rows().len(), notes)
                } else {
                    continue;
                };
                assert_eq!((rows, notes), (lines(), Vec::new()), "{name}");
                files += 1;
            }
        }
        assert!(files > 20, "{files}");
    }
}
