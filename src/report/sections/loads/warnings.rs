//! Warnings of a sweep's loads, grouped by kind, with the levels they apply to.

use super::format::{list, number};
use super::sweep::Sweep;
use crate::report::{WarningGroup, group_warnings};

pub(super) fn warnings(sweep: &Sweep) -> Vec<String> {
    let by_level = sweep.levels.iter().flat_map(|level| {
        level
            .loads
            .iter()
            .flat_map(|load| load.warnings.iter().map(|text| (level.at, text)))
    });
    let by_level: Vec<(f64, &String)> = by_level.collect();
    let all: Vec<String> = by_level.iter().map(|(_, text)| (*text).clone()).collect();
    let sentence = |one: WarningGroup| {
        let mut levels: Vec<f64> = by_level
            .iter()
            .filter(|(_, text)| one.messages.contains(text))
            .map(|(at, _)| *at)
            .collect();
        levels.dedup();
        let levels: Vec<String> = levels.into_iter().map(number).collect();
        match sweep.levels.len() {
            1 => one.text,
            _ => format!("at {}: {}", sweep.axis.level_text(&list(&levels)), one.text),
        }
    };
    group_warnings(&all, &[]).into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::super::load::LoadResult;
    use super::super::sweep::{SweepAxis, SweepLevel};
    use super::*;

    #[test]
    fn warnings_are_grouped_by_kind() {
        let level = |at: f64, warnings: &[&str]| {
            let warnings = warnings.iter().map(|text| (*text).to_owned()).collect();
            SweepLevel {
                at,
                loads: vec![LoadResult {
                    warnings,
                    ..LoadResult::default()
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
            axis: SweepAxis::Concurrency,
            settings: serde_json::Map::new(),
            levels,
        };
        assert_eq!(
            warnings(&sweep),
            [
                "at concurrency 1 and 8: the client waited 3 to 28.5 ms: figures are too high",
                "at concurrency 8: 2 of 60 requests failed: reset"
            ]
        );
        sweep.levels.truncate(1);
        assert_eq!(warnings(&sweep), ["the client waited 3 ms: figures are too high"]);
    }
}
