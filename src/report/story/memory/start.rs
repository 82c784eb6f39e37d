//! One start of an engine: what its files hold, put together with what the journal tells of it.

use serde_json::Value;

use super::device::{Device, devices};
use super::files::Files;
use crate::report::story::Source;
use crate::run::{Folder, Life};
use crate::telemetry::{Holding, Kept, Moment, Phase, Series, read_activity, read_processes, read_series};

/// How far the journal's times may be from those of a series: further, and they are not of the same start.
const NEAR: f64 = 1.0;

/// One start.
#[derive(Debug, Default)]
pub(super) struct Start<'a> {
    /// `engine-3`.
    pub(super) name: String,
    /// What the journal tells of it.
    pub(super) life: Option<&'a Life>,
    /// The journal's time, in seconds, at which the series begins; none where they do not agree.
    pub(super) zero: Option<f64>,
    /// The devices, in the order of the series.
    pub(super) devices: Vec<Device>,
    /// Memory over time.
    pub(super) series: Series,
    /// Whether the series tells phases.
    pub(super) phased: bool,
    /// Power and utilisation.
    pub(super) moments: Vec<Moment>,
    /// Who held how much.
    pub(super) holdings: Vec<Holding>,
    /// Its stages; null where they are not known.
    pub(super) usage: Value,
}

impl<'a> Start<'a> {
    /// Reads the files of a start; what is wrong with them is added to `missing`.
    pub(super) fn read(files: &Files, source: &Source<'a>, missing: &mut Vec<String>) -> Self {
        let found = source.found;
        let mut told = |name: &str, notes: &[String]| {
            missing.extend(notes.iter().map(|note| format!("{name}: {note}")));
        };
        let (name, folder) = (&files.name, &source.folder);
        let usage = found.stages.iter().find(|(engine, _)| engine == name);
        let usage = usage.map_or(Value::Null, |(_, usage)| usage.clone());
        let series = opened(folder, files.series.as_deref(), read_series, &mut told);
        let moments = opened(folder, files.activity.as_deref(), read_activity, &mut told).seen;
        let holdings = opened(folder, files.processes.as_deref(), read_processes, &mut told).seen;
        let life = files.number.and_then(|number| life_of(&found.lives, number));
        let ids: Vec<&str> = series.seen.devices().iter().map(|device| device.id.as_str()).collect();
        let zero = life.and_then(|life| zero(life, &series.seen));
        Self {
            name: name.clone(),
            devices: devices(&ids, &usage, life, &found.manifest),
            life,
            zero,
            phased: series.phased,
            series: series.seen,
            moments,
            holdings,
            usage,
        }
    }

    /// When the last look was, in seconds.
    pub(super) fn end(&self) -> f64 {
        let last = self.series.rows().last().map_or(0, |row| row.to);
        seconds(last.max(self.moments.last().map_or(0, |moment| moment.to)))
    }

    /// A moment of the journal as seconds of the series.
    pub(super) fn at(&self, journal: f64) -> Option<f64> {
        Some((journal - self.zero?).max(0.0))
    }

    /// Why its start failed, in short: the cause.
    pub(super) fn failure(&self) -> Option<&str> {
        let failure = &self.life?.failure;
        (!failure.is_null()).then(|| failure["cause"].as_str().unwrap_or("unknown cause"))
    }

    /// What killed it while it was asked: the verdict and what was asked.
    pub(super) fn deaths(&self) -> impl Iterator<Item = &'a crate::run::Asked> {
        let asked = self.life.map_or(&[][..], |life| &life.asked);
        asked.iter().filter(|asked| asked.died)
    }
}

/// What a file holds; nothing where there is none, or where it cannot be read, which is told.
fn opened<T: Default>(
    folder: &Folder,
    file: Option<&str>,
    read: impl Fn(&[u8]) -> Kept<T>,
    told: &mut impl FnMut(&str, &[String]),
) -> Kept<T> {
    let Some(file) = file else { return Kept::default() };
    match folder.read(file) {
        Ok(bytes) => {
            let kept = read(&bytes.unwrap_or_default());
            told(file, &kept.notes);
            kept
        }
        Err(fault) => {
            told(file, &[fault.message]);
            Kept::default()
        }
    }
}

/// The life whose files have this number: of several lives of the run, those that were kept have the copies in their order.
fn life_of(lives: &[Life], (number, copy): (u64, usize)) -> Option<&Life> {
    let mut kept = lives.iter().filter(|life| life.kept && life.number == number);
    kept.nth(copy.checked_sub(1)?)
}

/// The journal's time at which the series begins: where both know when the engine was ready, by that.
fn zero(life: &Life, series: &Series) -> Option<f64> {
    let ready = series.rows().iter().find(|row| row.phase == Phase::Ready);
    let Some((seen, told)) = ready.map(|row| seconds(row.from)).zip(life.ready) else {
        return Some(life.began);
    };
    let zero = told - seen;
    ((zero - life.began).abs() < NEAR).then_some(zero)
}

/// Microseconds as seconds.
pub(super) fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{Device as Looked, Reading};

    fn life(number: u64, began: f64, kept: bool) -> Life {
        Life {
            number,
            began,
            kept,
            ready: Some(began + 5.0),
            ..Life::default()
        }
    }

    #[test]
    fn files_belong_to_the_lives_that_were_kept() {
        // A run that was killed while its second engine ran, and taken up again.
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
    fn times_that_do_not_agree_are_not_used() {
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
        assert_eq!(zero(&life(1, 7.0, true), &series), Some(12.0 - 4.8));
        let other = Life {
            ready: Some(99.0),
            ..life(1, 7.0, true)
        };
        assert_eq!(zero(&other, &series), None);
    }
}
