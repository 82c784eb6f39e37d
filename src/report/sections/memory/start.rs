//! One engine start: its files and its record in the journal.

use serde_json::Value;

use super::device::{Device, devices};
use super::files::StartFiles;
use crate::report::sections::Source;
use crate::run::{EngineSession, Folder};
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
}
