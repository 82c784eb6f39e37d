//! One engine start: its files below `memory/` of the run folder, and its record in the journal.

use serde_json::Value;

use crate::fault::Result;
use crate::report::sections::Source;
use crate::report::sections::memory::device::{Device, devices};
use crate::run::{EngineSession, Folder, Measurement};
use crate::telemetry::{
    ActivitySample, Phase, ProcessMemory, SampleFile, Series, read_activity, read_processes, read_series,
};

/// If the clocks of journal and series differ by more than this, in seconds, they belong to different starts.
const MAX_CLOCK_DIFFERENCE: f64 = 1.0;

#[derive(Debug, Default)]
pub(super) struct Start<'a> {
    /// `engine-3`.
    pub(super) name: String,
    /// Its record in the journal.
    pub(super) life: Option<&'a EngineSession>,
    /// The journal's time at which the series begins, in seconds; none if they do not match.
    pub(super) series_start: Option<f64>,
    /// In the order of the series.
    pub(super) devices: Vec<Device>,
    /// Memory over time.
    pub(super) series: Series,
    /// Whether the series has phases.
    pub(super) phased: bool,
    /// Power and utilisation.
    pub(super) moments: Vec<ActivitySample>,
    /// Memory by process.
    pub(super) holdings: Vec<ProcessMemory>,
    /// Memory by stage; null if unknown.
    pub(super) usage: Value,
}

impl<'a> Start<'a> {
    /// Reads the files of a start. Problems are reported in `missing`.
    pub(super) fn read(files: &StartFiles, source: &Source<'a>, missing: &mut Vec<String>) -> Self {
        let found = source.found;
        let mut note = |name: &str, notes: &[String]| {
            missing.extend(notes.iter().map(|note| format!("{name}: {note}")));
        };
        let (name, folder) = (&files.name, &source.folder);
        let usage = found.stages.iter().find(|(engine, _)| engine == name);
        let usage = usage.map_or(Value::Null, |(_, usage)| usage.clone());
        let series = read_file(folder, files.series.as_deref(), read_series, &mut note);
        let moments = read_file(folder, files.activity.as_deref(), read_activity, &mut note).data;
        let holdings = read_file(folder, files.processes.as_deref(), read_processes, &mut note).data;
        let life = files.number.and_then(|number| life_of(&found.sessions, number));
        let ids: Vec<&str> = series.data.devices().iter().map(|device| device.id.as_str()).collect();
        let series_start = life.and_then(|life| series_start(life, &series.data));
        Self {
            name: name.clone(),
            devices: devices(&ids, &usage, life, &found.manifest),
            life,
            series_start,
            phased: series.has_phases,
            series: series.data,
            moments,
            holdings,
            usage,
        }
    }

    /// The time of the last sample, in seconds.
    pub(super) fn end(&self) -> f64 {
        let last = self.series.rows().last().map_or(0, |row| row.to);
        seconds(last.max(self.moments.last().map_or(0, |moment| moment.to)))
    }

    /// The memory peak of a device, in bytes.
    pub(super) fn peak(&self, device: usize) -> u64 {
        let rows = self.series.rows().iter();
        rows.map(|row| row.used[device]).max().unwrap_or_default()
    }

    /// Converts a journal time into seconds of the series.
    pub(super) fn at(&self, journal: f64) -> Option<f64> {
        Some((journal - self.series_start?).max(0.0))
    }

    /// The cause, if it did not become ready.
    pub(super) fn failure(&self) -> Option<&str> {
        let failure = &self.life?.failure;
        (!failure.is_null()).then(|| failure["cause"].as_str().unwrap_or("unknown cause"))
    }

    /// The operations during which it died.
    pub(super) fn deaths(&self) -> impl Iterator<Item = &'a crate::run::Measurement> {
        let asked = self.life.map_or(&[][..], |life| &life.measurements);
        asked.iter().filter(|asked| asked.died)
    }
}

/// A verdict with its cause: `oom (cuda)`.
pub(super) fn verdict(operation: &Measurement) -> String {
    let verdict = operation.verdict.as_deref().unwrap_or("no verdict");
    match &operation.cause {
        Some(cause) => format!("{verdict} ({cause})"),
        None => verdict.to_owned(),
    }
}

/// Reads a file; empty if there is none or it cannot be read, which is reported with `note`.
fn read_file<T: Default>(
    folder: &Folder,
    file: Option<&str>,
    read: impl Fn(&[u8]) -> SampleFile<T>,
    note: &mut impl FnMut(&str, &[String]),
) -> SampleFile<T> {
    let Some(file) = file else { return SampleFile::default() };
    match folder.read(file) {
        Ok(bytes) => {
            let kept = read(&bytes.unwrap_or_default());
            note(file, &kept.notes);
            kept
        }
        Err(fault) => {
            note(file, &[fault.message]);
            SampleFile::default()
        }
    }
}

/// The life with this number. If the run was resumed, `copy` counts those lives whose files were kept.
fn life_of(lives: &[EngineSession], (number, copy): (u64, usize)) -> Option<&EngineSession> {
    let mut kept = lives.iter().filter(|life| life.files_written && life.number == number);
    kept.nth(copy.checked_sub(1)?)
}

/// The journal's time at which the series begins, computed from the moment of readiness if both have it.
fn series_start(life: &EngineSession, series: &Series) -> Option<f64> {
    let ready = series.rows().iter().find(|row| row.phase == Phase::Ready);
    let Some((seen, note)) = ready.map(|row| seconds(row.from)).zip(life.ready) else {
        return Some(life.began);
    };
    let series_start = note - seen;
    ((series_start - life.began).abs() < MAX_CLOCK_DIFFERENCE).then_some(series_start)
}

pub(super) fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// The files of one start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StartFiles {
    /// `engine-3`; `engine-3-2` for the second engine with this number, if the run was resumed.
    pub(super) name: String,
    /// The engine's number, and which one of that number it is; none for foreign file names.
    pub(super) number: Option<(u64, usize)>,
    pub(super) series: Option<String>,
    pub(super) activity: Option<String>,
    pub(super) processes: Option<String>,
}

/// The files in `memory/`, in the order of the starts; empty if there is no such folder.
///
/// # Errors
///
/// `io` if the folder cannot be read.
pub(super) fn files(folder: &Folder) -> Result<Vec<StartFiles>> {
    let mut all: Vec<StartFiles> = Vec::new();
    for file in folder.names("memory")? {
        let Some((name, kind)) = split(&file) else {
            continue;
        };
        let path = format!("memory/{file}");
        let files = match all.iter_mut().position(|files| files.name == name) {
            Some(index) => &mut all[index],
            None => {
                all.push(StartFiles {
                    number: start_number(&name),
                    name,
                    ..StartFiles::default()
                });
                let newest = all.len() - 1;
                &mut all[newest]
            }
        };
        match kind {
            Kind::Series => files.series = Some(path),
            Kind::Activity => files.activity = Some(path),
            Kind::Processes => files.processes = Some(path),
        }
    }
    all.sort_by_key(|files| {
        (
            files.number.map_or((u64::MAX, 0), |(number, copy)| (number, copy)),
            files.name.clone(),
        )
    });
    Ok(all)
}

enum Kind {
    Series,
    Activity,
    Processes,
}

/// The name of the start, and the kind of file. A copy has its number before the last dot: `engine-1.activity-2.csv`.
fn split(file: &str) -> Option<(String, Kind)> {
    let stem = file.strip_suffix(".csv")?;
    let Some((name, rest)) = stem.split_once('.') else {
        return Some((stem.to_owned(), Kind::Series));
    };
    let (kind, copy) = rest
        .split_once('-')
        .map_or((rest, None), |(kind, copy)| (kind, Some(copy)));
    let kind = match kind {
        "activity" => Kind::Activity,
        "processes" => Kind::Processes,
        _ => return None,
    };
    let name = copy.map_or_else(|| name.to_owned(), |copy| format!("{name}-{copy}"));
    Some((name, kind))
}

fn start_number(name: &str) -> Option<(u64, usize)> {
    let rest = name.strip_prefix("engine-")?;
    let (number, copy) = rest.split_once('-').unwrap_or((rest, "1"));
    Some((number.parse().ok()?, copy.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{Device as Looked, Reading};

    fn life(number: u64, began: f64, kept: bool) -> EngineSession {
        EngineSession {
            number,
            began,
            files_written: kept,
            ready: Some(began + 5.0),
            ..EngineSession::default()
        }
    }

    #[test]
    fn files_belong_to_kept_lives() {
        // A run that was killed while its second engine ran, then resumed.
        let lives = [
            life(1, 0.0, true),
            life(2, 9.0, false),
            life(1, 20.0, true),
            life(2, 30.0, true),
        ];
        let began = |number, copy| life_of(&lives, (number, copy)).map(|life| life.began);
        assert_eq!(began(1, 1), Some(0.0));
        assert_eq!(began(1, 2), Some(20.0));
        assert_eq!(began(2, 1), Some(30.0));
        assert_eq!(began(2, 2), None);
        assert_eq!(began(2, 0), None);
    }

    #[test]
    fn mismatched_times_are_not_used() {
        let mut series = Series::default();
        let look = Reading {
            devices: vec![Looked {
                id: "a".into(),
                name: String::new(),
                used: 1,
                total: 2,
            }],
            ..Reading::default()
        };
        series.mark(Phase::Loading);
        series.push(0, &look);
        series.mark(Phase::Ready);
        series.push(4_800_000, &look);
        assert_eq!(series_start(&life(1, 7.0, true), &series), Some(12.0 - 4.8));
        let other = EngineSession {
            ready: Some(99.0),
            ..life(1, 7.0, true)
        };
        assert_eq!(series_start(&other, &series), None);
    }

    #[test]
    fn files_are_grouped_by_start_in_order() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::open(temp.path()).unwrap();
        assert_eq!(files(&folder).unwrap(), []);
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
        let all = files(&folder).unwrap();
        let found: Vec<_> = all
            .iter()
            .map(|files| {
                (
                    files.name.as_str(),
                    files.series.is_some(),
                    files.activity.is_some(),
                    files.processes.is_some(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("engine-2", true, false, true),
                ("engine-2-2", true, true, false),
                ("engine-10", true, false, false),
                ("other", true, false, false)
            ]
        );
    }
}
