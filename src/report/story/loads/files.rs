//! The files of a run's loads: which requests and time lines are drawn, and which are not there.

use super::findings::Findings;
use super::load::Load;
use super::requests::{self, Requests};
use super::say::{list, number};
use super::sweep::{Along, Point, Sweep};
use super::{distribution, timeline};
use crate::fault::Result;
use crate::report::plot::Plot;
use crate::run::Folder;

/// Levels whose distributions stand in one picture.
const SPREAD: usize = 6;

/// The folder's files of loads, with what was wanted of them in vain.
pub(super) struct Files<'a> {
    folder: &'a Folder,
    wanted: usize,
    absent: Vec<String>,
    broken: Vec<String>,
}

/// Pictures of time lines, and which they are.
#[derive(Default)]
pub(super) struct Lines {
    pub plots: Vec<Plot>,
    pub told: Option<String>,
}

impl<'a> Files<'a> {
    pub(super) fn of(folder: &'a Folder) -> Self {
        Self {
            folder,
            wanted: 0,
            absent: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// The distributions of a sweep's levels, and the time lines of `most` of them.
    pub(super) fn plots(
        &mut self,
        sweep: &Sweep,
        findings: &Findings,
        name: &str,
        most: usize,
    ) -> (Option<Plot>, Lines) {
        let knee = findings.knee.map(|knee| knee.x);
        let chosen = around(&sweep.levels, knee, most);
        let mut read: Vec<(f64, String, Requests)> = Vec::new();
        for level in spread(&sweep.levels, &chosen) {
            if let Some(found) = level.loads.first().and_then(|load| self.requests(load)) {
                read.push((level.at, called(sweep, level), found));
            }
        }
        let mut lines = Lines::default();
        for (index, level) in chosen.iter().enumerate() {
            let Some(line) = level.loads.first().and_then(|load| self.timeline(load)) else {
                continue;
            };
            let failed = read
                .iter()
                .find(|one| one.0 == level.at)
                .map_or(&[] as &[f64], |one| &one.2.failed);
            let name = format!("{name}-time-{}", index + 1);
            lines
                .plots
                .extend(timeline::plot(&line, failed, &called(sweep, level), name));
        }
        if chosen.len() < sweep.levels.len() && !lines.plots.is_empty() {
            let chosen: Vec<String> = chosen.iter().map(|level| number(level.at)).collect();
            let why = match (knee, chosen.len()) {
                (Some(_), 1) => "the knee",
                (Some(_), _) => "around the knee",
                (None, 1) => "the highest",
                (None, _) => "the lowest and the highest",
            };
            lines.told = Some(format!(
                "What the engine did over time is drawn at {}{} ({why}); the other levels are in `loads/`.",
                list(&chosen),
                sweep.along.behind()
            ));
        }
        let named: Vec<(String, Requests)> = read.into_iter().map(|(_, name, found)| (name, found)).collect();
        (distribution::plot(&named, format!("{name}-spread")), lines)
    }

    fn requests(&mut self, load: &Load) -> Option<Requests> {
        let name = load.records.as_deref()?;
        let file = self.wanted(name, self.folder.file(name))?;
        match requests::read(file) {
            Ok(found) => {
                if found.torn > 0 {
                    self.broken.push(format!(
                        "{} of the lines of `{name}` are no requests, and are left out",
                        found.torn
                    ));
                }
                Some(found)
            }
            Err(error) => {
                self.broken.push(format!("`{name}`: {error}"));
                None
            }
        }
    }

    fn timeline(&mut self, load: &Load) -> Option<timeline::Timeline> {
        let name = load.timelines.first()?;
        let bytes = self.wanted(name, self.folder.read(name))?;
        let line = timeline::of(&String::from_utf8_lossy(&bytes));
        if line.torn > 0 {
            self.broken.push(format!(
                "{} of the lines of `{name}` are torn, and are left out",
                line.torn
            ));
        }
        Some(line)
    }

    /// A file that the journal names, where it is there.
    fn wanted<T>(&mut self, name: &str, file: Result<Option<T>>) -> Option<T> {
        self.wanted += 1;
        match file {
            Ok(Some(file)) => return Some(file),
            Ok(None) => self.absent.push(name.to_owned()),
            // All files below a link fail alike.
            Err(fault) if self.broken.contains(&fault.message) => {}
            Err(fault) => self.broken.push(fault.message),
        }
        None
    }

    /// What was wanted and is not there, or cannot be read.
    pub(super) fn missing(&self) -> Vec<String> {
        let mut told = self.broken.clone();
        match self.absent.as_slice() {
            [] => {}
            all if all.len() == self.wanted => {
                told.push(
                    "`loads/` is not there: how latencies are spread, and what the engine did over time, is not told"
                        .to_owned(),
                );
            }
            some => {
                let names: Vec<String> = some.iter().map(|name| format!("`{name}`")).collect();
                told.push(format!("not there, and not drawn: {}", list(&names)));
            }
        }
        told
    }

    /// Loads that have requests on disk and no answer in the journal: the run ended within them.
    pub(super) fn unfinished<'b>(&self, sweeps: impl Iterator<Item = &'b Sweep>) -> Vec<String> {
        let known: Vec<String> = sweeps
            .flat_map(|sweep| &sweep.levels)
            .flat_map(|level| &level.loads)
            .filter_map(|load| load.records.clone())
            .collect();
        let files = self.folder.names("loads").unwrap_or_default();
        // Loads of experiments are told there: a load beyond the last known one was not finished.
        let number = |name: &str| {
            name.strip_prefix("loads/")
                .and_then(|name| name.strip_suffix(".jsonl"))
                .and_then(|name| name.parse::<u64>().ok())
        };
        let last = known.iter().filter_map(|name| number(name)).max();
        let names = files.iter().map(|file| format!("loads/{file}"));
        let mut beyond: Vec<(u64, String)> = names
            .filter_map(|name| Some((number(&name)?, name)))
            .filter(|(number, _)| last.is_some_and(|last| *number > last))
            .collect();
        beyond.sort();
        let told = beyond.into_iter().filter_map(|(_, name)| {
            let found = requests::read(self.folder.file(&name).ok()??).ok()?;
            Some(format!(
                "a load was not finished: {} of its requests had completed, and are in no figure (`{name}`)",
                found.e2el.len()
            ))
        });
        told.collect()
    }
}

/// What a level is called.
fn called(sweep: &Sweep, level: &Point) -> String {
    match sweep.along {
        Along::Nothing => "the load".to_owned(),
        along => format!("{}{}", number(level.at), along.behind()),
    }
}

/// At most `most` levels that tell most: before the knee, at it, and the highest; without a knee, the lowest and the highest.
fn around(levels: &[Point], knee: Option<f64>, most: usize) -> Vec<&Point> {
    let Some(last) = levels.len().checked_sub(1) else {
        return Vec::new();
    };
    let knee = knee.and_then(|knee| levels.iter().position(|level| level.at == knee));
    let mut chosen = match (knee, most) {
        (Some(knee), 1) => vec![knee],
        (None, 1) => vec![last],
        (Some(knee), _) => {
            // A level next to the knee is much like it.
            let before = levels.iter().rposition(|level| 2.0 * level.at <= levels[knee].at);
            vec![before.unwrap_or_else(|| knee.saturating_sub(1)), knee, last]
        }
        (None, _) => vec![0, last],
    };
    chosen.dedup();
    chosen.into_iter().map(|index| &levels[index]).collect()
}

/// The levels whose distributions are drawn: all where they are few, else the chosen ones and others evenly among the rest.
fn spread<'a>(levels: &'a [Point], chosen: &[&Point]) -> Vec<&'a Point> {
    if levels.len() <= SPREAD {
        return levels.iter().collect();
    }
    let is_chosen = |level: &Point| chosen.iter().any(|one| one.at == level.at);
    let free = SPREAD.saturating_sub(chosen.len());
    let others: Vec<f64> = levels
        .iter()
        .filter(|level| !is_chosen(level))
        .map(|level| level.at)
        .collect();
    let kept: Vec<f64> = (0..free)
        .filter_map(|index| others.get(index * others.len() / free.max(1)).copied())
        .collect();
    levels
        .iter()
        .filter(|level| is_chosen(level) || kept.contains(&level.at))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(all: &[f64]) -> Vec<Point> {
        all.iter()
            .map(|at| Point {
                at: *at,
                loads: Vec::new(),
            })
            .collect()
    }

    fn at(points: Vec<&Point>) -> Vec<f64> {
        points.into_iter().map(|point| point.at).collect()
    }

    #[test]
    fn levels_around_the_knee_are_chosen() {
        let all = levels(&[1.0, 8.0, 32.0, 64.0, 128.0]);
        assert_eq!(at(around(&all, Some(32.0), 3)), [8.0, 32.0, 128.0]);
        assert_eq!(at(around(&all, Some(128.0), 3)), [64.0, 128.0]);
        assert_eq!(at(around(&all, Some(1.0), 3)), [1.0, 128.0]);
        let close = levels(&[1.0, 8.0, 14.0, 15.0, 16.0]);
        assert_eq!(at(around(&close, Some(16.0), 3)), [8.0, 16.0]);
        assert_eq!(at(around(&all, None, 3)), [1.0, 128.0]);
        assert_eq!(
            (at(around(&all, None, 1)), at(around(&all, Some(8.0), 1))),
            (vec![128.0], vec![8.0])
        );
        assert!(around(&[], None, 3).is_empty());
    }

    #[test]
    fn of_many_levels_some_are_spread_out() {
        let all = levels(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]);
        let chosen = around(&all, Some(64.0), 3);
        assert_eq!(at(spread(&all, &chosen)), [1.0, 4.0, 16.0, 32.0, 64.0, 256.0]);
        assert_eq!(spread(&all[..4], &[]).len(), 4);
    }

    #[test]
    fn files_that_are_not_there_are_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let open = Folder::open(folder.path()).unwrap();
        let mut files = Files::of(&open);
        let load = Load {
            records: Some("loads/1.jsonl".into()),
            timelines: vec!["loads/1-timeline.csv".into()],
            ..Load::default()
        };
        assert!(files.requests(&load).is_none() && files.timeline(&load).is_none());
        assert_eq!(files.missing().len(), 1);
        std::fs::create_dir(folder.path().join("loads")).unwrap();
        std::fs::write(
            folder.path().join("loads/1-timeline.csv"),
            "seconds,running\n0,1\n1,2\n1",
        )
        .unwrap();
        std::fs::write(folder.path().join("loads/2.jsonl"), "{}\n").unwrap();
        let mut files = Files::of(&open);
        assert!(files.requests(&load).is_none() && files.timeline(&load).is_some());
        let told = files.missing();
        assert!(
            told[0].contains("1 of the lines") && told[1].contains("`loads/1.jsonl`"),
            "{told:?}"
        );
        let outside = Load {
            records: Some("../1.jsonl".into()),
            ..Load::default()
        };
        assert!(files.requests(&outside).is_none());
    }
}
