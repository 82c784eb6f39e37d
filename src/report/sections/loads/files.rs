//! The request and timeline files of a run's loads: which are drawn, and which are missing.

use super::distribution::{self, Requests};
use super::sweep::{Sweep, SweepAxis, SweepLevel};
use super::timeline::{self, Timeline};
use crate::fault::Result;
use crate::load::LoadAnswer;
use crate::report::plot::Plot;
use crate::report::sections::format::{list, number};
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

impl<'a> LoadFiles<'a> {
    pub(super) fn new(folder: &'a Folder) -> Self {
        Self {
            folder,
            requested: 0,
            absent: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// The distributions of a sweep's levels and the timelines of at most `most` of them, with a note on which these
    /// are.
    pub(super) fn plots(&mut self, sweep: &Sweep, name: &str, most: usize) -> (Vec<Plot>, Option<String>) {
        let level_name = |level: &SweepLevel| match sweep.axis {
            SweepAxis::Other => "the load".to_owned(),
            _ => sweep.level_text(level.at),
        };
        let drawn = levels_to_draw(sweep, most);
        let mut distributions: Vec<(String, Requests)> = Vec::new();
        for level in levels_with_distribution(&sweep.levels, &drawn) {
            let requests = level.loads.first().and_then(|load| self.requests(load));
            distributions.extend(requests.map(|requests| (level_name(level), requests)));
        }
        let mut plots: Vec<Plot> = distribution::plot(&distributions, format!("{name}-spread"))
            .into_iter()
            .collect();
        let before = plots.len();
        for (index, level) in drawn.iter().enumerate() {
            let Some(timeline) = level.loads.first().and_then(|load| self.timeline(load)) else {
                continue;
            };
            let what = level_name(level);
            let requests = distributions.iter().find(|one| one.0 == what);
            let failed = requests.map_or(&[][..], |(_, requests)| &requests.failed);
            plots.extend(timeline::plot(
                &timeline,
                failed,
                &what,
                format!("{name}-time-{}", index + 1),
            ));
        }
        let note = (drawn.len() < sweep.levels.len() && plots.len() > before).then(|| {
            let why = match (sweep.findings.knee, drawn.len()) {
                (Some(_), 1) => "the saturation point",
                (Some(_), _) => "around the saturation point",
                (None, 1) => "the highest",
                (None, _) => "the lowest and the highest",
            };
            let levels: Vec<String> = drawn.iter().map(|level| number(level.at)).collect();
            format!(
                "Engine metrics over time are drawn for {} ({why}); the other levels are in `loads/`.",
                sweep.axis.level_text(&list(&levels))
            )
        });
        (plots, note)
    }

    fn requests(&mut self, load: &LoadAnswer) -> Option<Requests> {
        let name = load.records.as_deref()?;
        let file = self.open(name, self.folder.file(name))?;
        let requests = distribution::read(file);
        match &requests {
            Ok(requests) => self.note_unreadable(requests.unreadable, name, "not requests"),
            Err(error) => self.broken.push(format!("`{name}`: {error}")),
        }
        requests.ok()
    }

    fn timeline(&mut self, load: &LoadAnswer) -> Option<Timeline> {
        let name = load.timelines().next()?;
        let bytes = self.open(name, self.folder.read(name))?;
        let timeline = timeline::parse(&String::from_utf8_lossy(&bytes));
        self.note_unreadable(timeline.unreadable, name, "truncated");
        Some(timeline)
    }

    fn note_unreadable(&mut self, lines: usize, name: &str, what: &str) {
        if lines > 0 {
            let note = format!("{lines} of the lines of `{name}` are {what}, and were skipped");
            self.broken.push(note);
        }
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
        let absent: Vec<String> = self.absent.iter().map(|name| format!("`{name}`")).collect();
        let note = match absent.len() {
            0 => None,
            all if all == self.requested => {
                Some("`loads/` is missing: latency distributions and engine metrics over time are not shown".to_owned())
            }
            _ => Some(format!("missing, and not drawn: {}", list(&absent))),
        };
        self.broken.iter().cloned().chain(note).collect()
    }

    /// Messages about loads with a request file but no answer in the journal, because the run ended during them.
    pub(super) fn unfinished(&self, sweeps: &[Sweep]) -> Vec<String> {
        let number = |name: &str| name.strip_suffix(".jsonl")?.parse::<u64>().ok();
        let loads = sweeps
            .iter()
            .flat_map(|sweep| &sweep.levels)
            .flat_map(|level| &level.loads);
        let known = loads.filter_map(|load| number(load.records.as_deref()?.strip_prefix("loads/")?));
        // Loads of experiments are shown there, so only files numbered above the last known load are unfinished.
        let Some(last) = known.max() else { return Vec::new() };
        let files = self.folder.names("loads").unwrap_or_default();
        let mut beyond: Vec<u64> = files
            .iter()
            .filter_map(|name| number(name))
            .filter(|number| *number > last)
            .collect();
        beyond.sort_unstable();
        let notes = beyond.into_iter().filter_map(|number| {
            let name = format!("loads/{number}.jsonl");
            let found = distribution::read(self.folder.file(&name).ok()??).ok()?;
            Some(format!(
                "a load was not finished: {} of its requests had completed, and are not in any result (`{name}`)",
                found.e2el.len()
            ))
        });
        notes.collect()
    }
}

/// At most `most` representative levels: well below the knee, the knee, and the highest; without a knee, the lowest and
/// the highest.
fn levels_to_draw(sweep: &Sweep, most: usize) -> Vec<&SweepLevel> {
    let levels = &sweep.levels;
    let mut chosen = match (sweep.knee(), most) {
        (Some(knee), 1) => vec![Some(knee)],
        (Some(knee), _) => {
            // The level just below the knee is too similar to it.
            let half = levels.iter().rfind(|level| 2.0 * level.at <= knee.at);
            let below = half.or_else(|| levels.iter().rfind(|level| level.at < knee.at));
            vec![below, Some(knee), levels.last()]
        }
        (None, 1) => vec![levels.last()],
        (None, _) => vec![levels.first(), levels.last()],
    };
    chosen.dedup_by_key(|level| level.map(|level| level.at));
    chosen.into_iter().flatten().collect()
}

/// The levels whose distributions are drawn: all if they are few, else those `drawn` and evenly spaced others.
fn levels_with_distribution<'a>(levels: &'a [SweepLevel], drawn: &[&SweepLevel]) -> Vec<&'a SweepLevel> {
    if levels.len() <= MAX_DISTRIBUTIONS {
        return levels.iter().collect();
    }
    let mut kept: Vec<f64> = drawn.iter().map(|level| level.at).collect();
    let others = levels.iter().map(|level| level.at).filter(|at| !kept.contains(at));
    let others: Vec<f64> = others.collect();
    let free = MAX_DISTRIBUTIONS.saturating_sub(drawn.len());
    kept.extend((0..free).filter_map(|index| others.get(index * others.len() / free)));
    levels.iter().filter(|level| kept.contains(&level.at)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::sweep::tests::sweep;
    use super::*;
    use crate::load::engine_side::Knee;

    fn levels(all: &[f64], knee: Option<f64>) -> Sweep {
        let mut sweep = sweep(&all.iter().map(|at| (*at, Value::Null)).collect::<Vec<_>>());
        sweep.findings.knee = knee.map(|x| Knee {
            x,
            y: 0.0,
            low: x,
            high: x,
            distance: 0.5,
        });
        sweep
    }

    fn at(levels: Vec<&SweepLevel>) -> Vec<f64> {
        levels.into_iter().map(|level| level.at).collect()
    }

    #[test]
    fn levels_around_the_knee_are_chosen() {
        let drawn = |knee, most| at(levels_to_draw(&levels(&[1.0, 8.0, 32.0, 64.0, 128.0], knee), most));
        assert_eq!(drawn(Some(32.0), 3), [8.0, 32.0, 128.0]);
        assert_eq!(drawn(Some(128.0), 3), [64.0, 128.0]);
        assert_eq!(drawn(Some(1.0), 3), [1.0, 128.0]);
        assert_eq!(drawn(None, 3), [1.0, 128.0]);
        assert_eq!((drawn(None, 1), drawn(Some(8.0), 1)), (vec![128.0], vec![8.0]));
        let close = levels(&[1.0, 8.0, 14.0, 15.0, 16.0], Some(16.0));
        assert_eq!(at(levels_to_draw(&close, 3)), [8.0, 16.0]);
        assert!(levels_to_draw(&levels(&[], None), 3).is_empty());
    }

    #[test]
    fn some_of_many_levels_are_chosen_evenly() {
        let all = levels(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0], Some(64.0));
        assert_eq!(
            at(levels_with_distribution(&all.levels, &levels_to_draw(&all, 3))),
            [1.0, 4.0, 16.0, 32.0, 64.0, 256.0]
        );
        assert_eq!(levels_with_distribution(&all.levels[..4], &[]).len(), 4);
    }

    #[test]
    fn missing_files_are_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let open = Folder::open(folder.path()).unwrap();
        let load = |records: &str| {
            let answer = json!({
                "records": records, "timeline": { "file": "loads/1-timeline.csv", "hz": 10.0, "looks": 3, "missed": 0 },
            });
            LoadAnswer::read(&answer)
        };
        let mut files = LoadFiles::new(&open);
        let first = load("loads/1.jsonl");
        assert!(files.requests(&first).is_none() && files.timeline(&first).is_none());
        assert_eq!(files.missing().len(), 1);
        std::fs::create_dir(folder.path().join("loads")).unwrap();
        let text = "seconds,running\n0,1\n1,2\n1";
        std::fs::write(folder.path().join("loads/1-timeline.csv"), text).unwrap();
        std::fs::write(folder.path().join("loads/2.jsonl"), "{}\n").unwrap();
        let mut files = LoadFiles::new(&open);
        assert!(files.requests(&first).is_none() && files.timeline(&first).is_some());
        let notes = files.missing();
        assert!(
            notes[0].contains("1 of the lines") && notes[1].contains("`loads/1.jsonl`"),
            "{notes:?}"
        );
        assert!(files.requests(&load("../1.jsonl")).is_none());
    }
}
