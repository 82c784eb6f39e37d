//! What spoils figures of a sweep, beside its pictures: warnings of the loads, those of one kind as one, with the levels that they are of.

use super::say::{list, number};
use super::sweep::Sweep;
use crate::report::{Alike, alike};

/// The warnings, a sentence for each kind.
pub(super) fn doubts(sweep: &Sweep) -> Vec<String> {
    let told = sweep.levels.iter().flat_map(|level| {
        level
            .loads
            .iter()
            .flat_map(|load| load.warnings.iter().map(|text| (level.at, text)))
    });
    let told: Vec<(f64, &String)> = told.collect();
    let all: Vec<String> = told.iter().map(|(_, text)| (*text).clone()).collect();
    let behind = sweep.along.behind();
    let sentence = |one: Alike| {
        let mut levels: Vec<f64> = told
            .iter()
            .filter(|(_, text)| one.all.contains(text))
            .map(|(at, _)| *at)
            .collect();
        levels.dedup();
        let levels: Vec<String> = levels.into_iter().map(number).collect();
        match sweep.levels.len() {
            1 => one.words,
            _ => format!("at {}{behind}: {}", list(&levels), one.words),
        }
    };
    alike(&all, &[]).into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::super::load::Load;
    use super::super::sweep::{Along, Point};
    use super::*;

    #[test]
    fn warnings_of_one_kind_stand_together() {
        let level = |at: f64, warnings: &[&str]| {
            let warnings = warnings.iter().map(|text| (*text).to_owned()).collect();
            Point {
                at,
                loads: vec![Load {
                    warnings,
                    ..Load::default()
                }],
            }
        };
        let levels = vec![
            level(1.0, &["the client waited 3 ms: figures are too high"]),
            level(
                8.0,
                &[
                    "the client waited 28.5 ms: figures are too high",
                    "2 of 60 requests failed: reset",
                ],
            ),
        ];
        let mut sweep = Sweep {
            name: String::new(),
            along: Along::Concurrency,
            common: serde_json::Map::new(),
            levels,
        };
        assert_eq!(
            doubts(&sweep),
            [
                "at 1 and 8 at once: the client waited 3 to 28.5 ms: figures are too high",
                "at 8 at once: 2 of 60 requests failed: reset"
            ]
        );
        sweep.levels.truncate(1);
        assert_eq!(doubts(&sweep), ["the client waited 3 ms: figures are too high"]);
    }
}
