//! The request and timeline files of a run's loads: which are drawn, and which are missing.

use super::super::format::{list, number};
use super::distribution::Requests;
use super::sweep::{Sweep, SweepAxis, SweepLevel};
use super::{distribution, timeline};
use crate::fault::Result;
use crate::load::LoadAnswer;
use crate::load::engine_side::SweepFindings;
use crate::report::plot::Plot;
use crate::run::Folder;

/// Maximum number of distributions in one chart.
const MAX_DISTRIBUTIONS: usize = 6;

/// Reads the files of loads and collects what is missing.
pub(super) struct LoadFiles<'a> {
    folder: &'a Folder,
    requested: usize,
    absent: Vec<String>,
    broken: Vec<String>,
}

/// Charts of timelines, and a note on which levels they show.
#[derive(Default)]
pub(super) struct TimelinePlots {
    pub plots: Vec<Plot>,
    pub note: Option<String>,
}

impl<'a> LoadFiles<'a> {
    pub(super) fn new(folder: &'a Folder) -> Self {
        Self {
            folder,
            requested: 0,
            absent: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// The distributions of a sweep's levels, and the timelines of at most `most` of them.
    pub(super) fn plots(
        &mut self,
        sweep: &Sweep,
        findings: &SweepFindings,
        name: &str,
        most: usize,
    ) -> (Option<Plot>, TimelinePlots) {
        let knee = findings.knee.map(|knee| knee.x);
        let chosen = levels_to_draw(&sweep.levels, knee, most);
        let mut read: Vec<(f64, String, Requests)> = Vec::new();
        for level in levels_with_distribution(&sweep.levels, &chosen) {
            if let Some(found) = level.loads.first().and_then(|load| self.requests(load)) {
                read.push((level.at, level_name(sweep, level), found));
            }
        }
        let mut lines = TimelinePlots::default();
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
                .extend(timeline::plot(&line, failed, &level_name(sweep, level), name));
        }
        if chosen.len() < sweep.levels.len() && !lines.plots.is_empty() {
            let chosen: Vec<String> = chosen.iter().map(|level| number(level.at)).collect();
            let why = match (knee, chosen.len()) {
                (Some(_), 1) => "the saturation point",
                (Some(_), _) => "around the saturation point",
                (None, 1) => "the highest",
                (None, _) => "the lowest and the highest",
            };
            lines.note = Some(format!(
                "Engine metrics over time are drawn for {} ({why}); the other levels are in `loads/`.",
                sweep.axis.level_text(&list(&chosen))
            ));
        }
        let named: Vec<(String, Requests)> = read.into_iter().map(|(_, name, found)| (name, found)).collect();
        (distribution::plot(&named, format!("{name}-spread")), lines)
    }

    fn requests(&mut self, load: &LoadAnswer) -> Option<Requests> {
        let name = load.records.as_deref()?;
        let file = self.open(name, self.folder.file(name))?;
        match distribution::read(file) {
            Ok(found) => {
                if found.unreadable > 0 {
                    self.broken.push(format!(
                        "{} of the lines of `{name}` are not requests, and were skipped",
                        found.unreadable
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

    fn timeline(&mut self, load: &LoadAnswer) -> Option<timeline::Timeline> {
        let name = load.timelines().next()?;
        let bytes = self.open(name, self.folder.read(name))?;
        let line = timeline::parse(&String::from_utf8_lossy(&bytes));
        if line.unreadable > 0 {
            self.broken.push(format!(
                "{} of the lines of `{name}` are truncated, and were skipped",
                line.unreadable
            ));
        }
        Some(line)
    }

    /// A file named in the journal, if it exists.
    fn open<T>(&mut self, name: &str, file: Result<Option<T>>) -> Option<T> {
        self.requested += 1;
        match file {
            Ok(Some(file)) => return Some(file),
            Ok(None) => self.absent.push(name.to_owned()),
            // All files below a symbolic link fail with the same message.
            Err(fault) if self.broken.contains(&fault.message) => {}
            Err(fault) => self.broken.push(fault.message),
        }
        None
    }

    /// Messages about absent and unreadable files.
    pub(super) fn missing(&self) -> Vec<String> {
        let mut notes = self.broken.clone();
        match self.absent.as_slice() {
            [] => {}
            all if all.len() == self.requested => {
                notes.push(
                    "`loads/` is missing: latency distributions and engine metrics over time are not shown".to_owned(),
                );
            }
            some => {
                let names: Vec<String> = some.iter().map(|name| format!("`{name}`")).collect();
                notes.push(format!("missing, and not drawn: {}", list(&names)));
            }
        }
        notes
    }

    /// Messages about loads with a request file but no answer in the journal, because the run ended during them.
    pub(super) fn unfinished<'b>(&self, sweeps: impl Iterator<Item = &'b Sweep>) -> Vec<String> {
        let known: Vec<String> = sweeps
            .flat_map(|sweep| &sweep.levels)
            .flat_map(|level| &level.loads)
            .filter_map(|load| load.records.clone())
            .collect();
        let files = self.folder.names("loads").unwrap_or_default();
        // Loads of experiments are shown there, so only files numbered above the last known load are unfinished.
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
        let notes = beyond.into_iter().filter_map(|(_, name)| {
            let found = distribution::read(self.folder.file(&name).ok()??).ok()?;
            Some(format!(
                "a load was not finished: {} of its requests had completed, and are not in any result (`{name}`)",
                found.e2el.len()
            ))
        });
        notes.collect()
    }
}

fn level_name(sweep: &Sweep, level: &SweepLevel) -> String {
    match sweep.axis {
        SweepAxis::Other => "the load".to_owned(),
        _ => sweep.level_text(level.at),
    }
}

/// At most `most` representative levels: well below the knee, the knee, and the highest; without a knee, the lowest and
/// the highest.
fn levels_to_draw(levels: &[SweepLevel], knee: Option<f64>, most: usize) -> Vec<&SweepLevel> {
    let Some(last) = levels.len().checked_sub(1) else {
        return Vec::new();
    };
    let knee = knee.and_then(|knee| levels.iter().position(|level| level.at == knee));
    let mut chosen = match (knee, most) {
        (Some(knee), 1) => vec![knee],
        (None, 1) => vec![last],
        (Some(knee), _) => {
            // The level just below the knee is too similar to it.
            let before = levels.iter().rposition(|level| 2.0 * level.at <= levels[knee].at);
            vec![before.unwrap_or_else(|| knee.saturating_sub(1)), knee, last]
        }
        (None, _) => vec![0, last],
    };
    chosen.dedup();
    chosen.into_iter().map(|index| &levels[index]).collect()
}

/// The levels whose distributions are drawn: all if they are few, else the chosen ones and evenly spaced others.
fn levels_with_distribution<'a>(levels: &'a [SweepLevel], chosen: &[&SweepLevel]) -> Vec<&'a SweepLevel> {
    if levels.len() <= MAX_DISTRIBUTIONS {
        return levels.iter().collect();
    }
    let is_chosen = |level: &SweepLevel| chosen.iter().any(|one| one.at == level.at);
    let free = MAX_DISTRIBUTIONS.saturating_sub(chosen.len());
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
    use crate::load::engine_side::{EngineStats, SamplingStats};

    fn levels(all: &[f64]) -> Vec<SweepLevel> {
        all.iter()
            .map(|at| SweepLevel {
                at: *at,
                loads: Vec::new(),
            })
            .collect()
    }

    fn at(points: Vec<&SweepLevel>) -> Vec<f64> {
        points.into_iter().map(|point| point.at).collect()
    }

    #[test]
    fn levels_around_the_knee_are_chosen() {
        let all = levels(&[1.0, 8.0, 32.0, 64.0, 128.0]);
        assert_eq!(at(levels_to_draw(&all, Some(32.0), 3)), [8.0, 32.0, 128.0]);
        assert_eq!(at(levels_to_draw(&all, Some(128.0), 3)), [64.0, 128.0]);
        assert_eq!(at(levels_to_draw(&all, Some(1.0), 3)), [1.0, 128.0]);
        let close = levels(&[1.0, 8.0, 14.0, 15.0, 16.0]);
        assert_eq!(at(levels_to_draw(&close, Some(16.0), 3)), [8.0, 16.0]);
        assert_eq!(at(levels_to_draw(&all, None, 3)), [1.0, 128.0]);
        assert_eq!(
            (
                at(levels_to_draw(&all, None, 1)),
                at(levels_to_draw(&all, Some(8.0), 1))
            ),
            (vec![128.0], vec![8.0])
        );
        assert!(levels_to_draw(&[], None, 3).is_empty());
    }

    #[test]
    fn some_of_many_levels_are_chosen_evenly() {
        let all = levels(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]);
        let chosen = levels_to_draw(&all, Some(64.0), 3);
        assert_eq!(
            at(levels_with_distribution(&all, &chosen)),
            [1.0, 4.0, 16.0, 32.0, 64.0, 256.0]
        );
        assert_eq!(levels_with_distribution(&all[..4], &[]).len(), 4);
    }

    #[test]
    fn missing_files_are_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let open = Folder::open(folder.path()).unwrap();
        let mut files = LoadFiles::new(&open);
        let load = LoadAnswer {
            records: Some("loads/1.jsonl".into()),
            engine: EngineStats {
                timeline: SamplingStats {
                    file: Some("loads/1-timeline.csv".into()),
                    ..SamplingStats::default()
                },
                ..EngineStats::default()
            },
            ..LoadAnswer::default()
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
        let mut files = LoadFiles::new(&open);
        assert!(files.requests(&load).is_none() && files.timeline(&load).is_some());
        let notes = files.missing();
        assert!(
            notes[0].contains("1 of the lines") && notes[1].contains("`loads/1.jsonl`"),
            "{notes:?}"
        );
        let outside = LoadAnswer {
            records: Some("../1.jsonl".into()),
            ..LoadAnswer::default()
        };
        assert!(files.requests(&outside).is_none());
    }
}
