//! One engine start: its devices, its files below `memory/` of the run folder, and its record in the journal.

use serde::Deserialize;

use crate::answer::evidence::with_cause;
use crate::engine::{Usage, UsageFile};
use crate::fault::Result;
use crate::run::{EngineSession, Folder, Measurement, RecordedRun};
use crate::telemetry::{ActivitySample, Phase, SamplerHealth, Series, read_activity, read_series};

/// If the clocks of journal and series differ by more than this, in seconds, they belong to different starts.
const MAX_CLOCK_DIFFERENCE: f64 = 1.0;

#[derive(Debug, Default)]
pub(super) struct Start<'a> {
    /// `engine-3`.
    pub(super) name: String,
    /// Its record in the journal.
    pub(super) session: Option<&'a EngineSession>,
    /// The journal's time at which the series begins, in seconds; none if they do not match.
    pub(super) series_start: Option<f64>,
    /// In the order of the series.
    pub(super) devices: Vec<Device>,
    /// Memory over time.
    pub(super) series: Series,
    /// Power and utilisation over time; empty if no device reports them.
    pub(super) activity: Vec<ActivitySample>,
    /// The numbers of lost and failed samples.
    pub(super) sampling: SamplerHealth,
}

impl<'a> Start<'a> {
    /// Reads a start from its series, `memory/NAME.csv`. Problems are reported in `missing`.
    pub(super) fn read(name: &str, folder: &Folder, found: &'a RecordedRun, missing: &mut Vec<String>) -> Self {
        let series = samples(folder, &format!("memory/{name}.csv"), read_series, missing);
        let activity_file = format!("memory/{}.csv", activity_name(name));
        let activity = if folder.has_file(&activity_file) {
            samples(folder, &activity_file, read_activity, missing)
        } else {
            Vec::new()
        };
        let usage = found.stages.iter().find(|(engine, _)| engine == name);
        let UsageFile { usage, sampling } = usage.map_or_else(UsageFile::default, |(_, usage)| UsageFile::read(usage));
        let session = start_number(name).and_then(|number| session_of(&found.sessions, number));
        let record = session.and_then(|session| EngineRecord::deserialize(&session.info).ok());
        let ids: Vec<&str> = series.devices().iter().map(|device| device.id.as_str()).collect();
        Self {
            name: name.to_owned(),
            devices: devices(&ids, &usage, &record.unwrap_or_default(), found),
            session,
            series_start: session.and_then(|session| series_start(session, &series)),
            series,
            activity,
            sampling,
        }
    }

    /// The time of the last sample, in seconds since the series began.
    pub(super) fn end(&self) -> f64 {
        seconds(self.series.rows().last().map_or(0, |row| row.to))
    }

    /// The memory peak of a device, in bytes.
    pub(super) fn peak(&self, device: usize) -> u64 {
        self.series
            .rows()
            .iter()
            .map(|row| row.used[device])
            .max()
            .unwrap_or_default()
    }

    /// Converts a journal time into seconds of the series.
    pub(super) fn at(&self, journal: f64) -> Option<f64> {
        Some((journal - self.series_start?).max(0.0))
    }

    /// The cause, if it did not become ready.
    pub(super) fn failure(&self) -> Option<&str> {
        let failure = &self.session?.failure;
        (!failure.is_null()).then(|| failure["cause"].as_str().unwrap_or("unknown cause"))
    }

    /// The probes and loads on it.
    pub(super) fn measurements(&self) -> &'a [Measurement] {
        self.session.map_or(&[], |session| &session.measurements)
    }

    /// The measurements during which it died.
    pub(super) fn deaths(&self) -> impl Iterator<Item = &'a Measurement> {
        self.measurements().iter().filter(|measurement| measurement.died)
    }
}

/// Reads a file of samples. Problems are reported in `missing`.
fn samples<T: Default>(
    folder: &Folder,
    file: &str,
    read: fn(&[u8]) -> (T, Vec<String>),
    missing: &mut Vec<String>,
) -> T {
    let (samples, notes) = match folder.read(file) {
        Ok(bytes) => read(&bytes.unwrap_or_default()),
        Err(fault) => (T::default(), vec![fault.message]),
    };
    missing.extend(notes.iter().map(|note| format!("{file}: {note}")));
    samples
}

/// The name of the file with power and utilisation: `engine-3.activity`, or `engine-3.activity-2` of a second engine-3.
fn activity_name(name: &str) -> String {
    match start_number(name) {
        Some((number, copy)) if copy > 1 => format!("engine-{number}.activity-{copy}"),
        _ => format!("{name}.activity"),
    }
}

/// A verdict with its cause: `oom (cuda)`.
pub(super) fn verdict(measurement: &Measurement) -> String {
    with_cause(
        measurement.verdict.as_deref().unwrap_or("no verdict"),
        measurement.cause.as_ref(),
    )
}

pub(super) fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// The fields of an engine's record in the journal that the charts need.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EngineRecord {
    /// Capacity of all its devices together.
    memory_total: Option<u64>,
    facts: EngineFacts,
    options: EngineFacts,
}

/// Settings that the engine reported, or was started with.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EngineFacts {
    memory_fraction: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::report::sections) struct Device {
    /// Its id in the series.
    pub(super) id: String,
    /// Its short name: `GPU 0`, `host memory`, `sim0`.
    pub(in crate::report::sections) label: String,
    /// Its model, if known: `NVIDIA H200`.
    pub(super) model: Option<String>,
    /// Its capacity in bytes, if known.
    pub(in crate::report::sections) total: Option<u64>,
    /// `memory_fraction` and the bytes that it allows the engine.
    pub(super) budget: Option<(f64, u64)>,
}

impl Device {
    /// Its name with its model: `GPU 0 (NVIDIA H200)`.
    pub(in crate::report::sections) fn named(&self) -> String {
        match &self.model {
            Some(model) => format!("{} ({model})", self.label),
            None => self.label.clone(),
        }
    }
}

/// The devices with these ids. Any start that used them recorded their names and capacities.
pub(in crate::report::sections) fn devices_of(ids: &[&str], found: &RecordedRun) -> Vec<Device> {
    let mut usages = found.stages.iter().map(|(_, usage)| UsageFile::read(usage).usage);
    let covering = usages.find(|usage| {
        let devices = usage.peak.as_ref().map(|peak| &peak.per_gpu);
        devices.is_some_and(|devices| ids.iter().all(|id| devices.iter().any(|device| device.id == **id)))
    });
    devices(ids, &covering.unwrap_or_default(), &EngineRecord::default(), found)
}

/// The devices of a start: `ids` are from its series, `usage` is its memory by stage, `engine` its record.
fn devices(ids: &[&str], usage: &Usage, engine: &EngineRecord, found: &RecordedRun) -> Vec<Device> {
    let fraction = engine
        .facts
        .memory_fraction
        .or(engine.options.memory_fraction)
        .filter(|share| (0.0..1.0).contains(share));
    let device = |id: &&str| {
        // The first of these stages that lists the device.
        let stages = [&usage.peak, &usage.loaded, &usage.baseline, &usage.after];
        let mut entries = stages.into_iter().flatten().flat_map(|stage| &stage.per_gpu);
        let entry = entries.find(|entry| entry.id == **id);
        let gpu = found.manifest.gpus.iter().find(|gpu| gpu["id"] == **id);
        let total = entry
            .map(|entry| entry.total)
            .or(gpu.and_then(|gpu| gpu["total"].as_u64()))
            .or(engine.memory_total.filter(|_| ids.len() == 1))
            .filter(|total| *total > 0);
        let model = entry
            .map(|entry| entry.name.as_str())
            .or(gpu.and_then(|gpu| gpu["name"].as_str()));
        Device {
            id: (*id).to_owned(),
            label: match gpu.and_then(|gpu| gpu["index"].as_u64()) {
                Some(index) => format!("GPU {index}"),
                None if *id == "host" || id.starts_with('/') => "host memory".to_owned(),
                None => (*id).to_owned(),
            },
            model: model
                .filter(|model| model != id && !model.is_empty())
                .map(str::to_owned),
            total,
            budget: fraction
                .zip(total)
                .map(|(share, total)| (share, (total as f64 * share) as u64)),
        }
    };
    ids.iter().map(device).collect()
}

/// The names of the starts with a series in `memory/`, in their order: `engine-3`, or `engine-3-2` for the second engine
/// with this number if the run was resumed.
///
/// # Errors
///
/// `io` if the folder cannot be read.
pub(super) fn names(folder: &Folder) -> Result<Vec<String>> {
    let files = folder.names("memory")?;
    let mut names: Vec<&str> = files
        .iter()
        .filter_map(|file| file.strip_suffix(".csv"))
        .filter(|name| !name.contains('.'))
        .collect();
    names.sort_by_key(|name| (start_number(name).unwrap_or((u64::MAX, 0)), *name));
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// The number of an engine, and its copy: 2 for the second engine with this number. None for other file names.
fn start_number(name: &str) -> Option<(u64, usize)> {
    let rest = name.strip_prefix("engine-")?;
    let (number, copy) = rest.split_once('-').unwrap_or((rest, "1"));
    Some((number.parse().ok()?, copy.parse().ok()?))
}

/// The session with this number. `copy` counts the sessions with this number whose files were written: a resumed run
/// may have several.
fn session_of(sessions: &[EngineSession], (number, copy): (u64, usize)) -> Option<&EngineSession> {
    let mut written = sessions
        .iter()
        .filter(|session| session.files_written && session.number == number);
    written.nth(copy.checked_sub(1)?)
}

/// The journal's time at which the series begins, aligned at the moment of readiness if both have it. None if the
/// clocks differ too much.
fn series_start(session: &EngineSession, series: &Series) -> Option<f64> {
    let ready = series.rows().iter().find(|row| row.phase == Phase::Ready);
    let Some((sampled, noted)) = ready.map(|row| seconds(row.from)).zip(session.ready) else {
        return Some(session.began);
    };
    let start = noted - sampled;
    ((start - session.began).abs() < MAX_CLOCK_DIFFERENCE).then_some(start)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::telemetry::{Device as Sampled, Reading};

    fn session(number: u64, began: f64, files_written: bool) -> EngineSession {
        EngineSession {
            number,
            began,
            files_written,
            ready: Some(began + 5.0),
            ..EngineSession::default()
        }
    }

    #[test]
    fn devices_have_readable_names() {
        let usage = json!({ "peak": { "per_gpu": [{ "id": "GPU-a", "name": "NVIDIA H200", "total": 1000 }] } });
        let engine = json!({ "options": { "memory_fraction": 0.9 }, "memory_total": 7 });
        let (usage, engine) = (
            UsageFile::read(&usage).usage,
            EngineRecord::deserialize(engine).unwrap(),
        );
        let mut found = RecordedRun::default();
        found.manifest.gpus = vec![json!({ "id": "GPU-a", "index": 3, "name": "x", "total": 9 })];
        let one = &devices(&["GPU-a"], &usage, &engine, &found)[0];
        assert_eq!(
            (one.named().as_str(), one.total, one.budget),
            ("GPU 3 (NVIDIA H200)", Some(1000), Some((0.9, 900)))
        );
        let two = devices_of(&["GPU-a", "host"], &found);
        assert_eq!(
            (two[0].total, two[1].named().as_str(), two[1].total),
            (Some(9), "host memory", None)
        );
        found.manifest.gpus.clear();
        let alone = &devices(&["sim0"], &Usage::default(), &engine, &found)[0];
        assert_eq!(
            (alone.label.as_str(), alone.total),
            ("sim0", Some(7)),
            "all of the engine's memory is that of its one device"
        );
    }

    #[test]
    fn files_belong_to_sessions_that_wrote_them() {
        // A run that was killed while its second engine ran, then resumed.
        let sessions = [
            session(1, 0.0, true),
            session(2, 9.0, false),
            session(1, 20.0, true),
            session(2, 30.0, true),
        ];
        let began = |number, copy| session_of(&sessions, (number, copy)).map(|session| session.began);
        assert_eq!([began(1, 1), began(1, 2)], [Some(0.0), Some(20.0)]);
        assert_eq!([began(2, 1), began(2, 2), began(2, 0)], [Some(30.0), None, None]);
    }

    #[test]
    fn mismatched_times_are_not_used() {
        let mut series = Series::default();
        let sample = Reading {
            devices: vec![Sampled {
                id: "a".into(),
                name: String::new(),
                used: 1,
                total: 2,
            }],
            ..Reading::default()
        };
        series.mark(Phase::Loading);
        series.push(0, &sample);
        series.mark(Phase::Ready);
        series.push(4_800_000, &sample);
        assert_eq!(series_start(&session(1, 7.0, true), &series), Some(12.0 - 4.8));
        let other = EngineSession {
            ready: Some(99.0),
            ..session(1, 7.0, true)
        };
        assert_eq!(series_start(&other, &series), None);
    }

    #[test]
    fn starts_are_read_in_order() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::open(temp.path()).unwrap();
        assert_eq!(names(&folder).unwrap(), Vec::<String>::new());
        let memory = temp.path().join("memory");
        std::fs::create_dir(&memory).unwrap();
        for name in [
            "engine-10.csv",
            "engine-2.csv",
            "engine-2-2.csv",
            "engine-2.activity-2.csv",
            "engine-2.processes.csv",
            "engine-2.usage.json",
            "other.csv",
            "notes.txt",
        ] {
            std::fs::write(memory.join(name), "").unwrap();
        }
        assert_eq!(
            names(&folder).unwrap(),
            ["engine-2", "engine-2-2", "engine-10", "other"]
        );
    }
}
