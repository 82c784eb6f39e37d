//! The loads of a script's trials, start by start: what spread equal starts have.

use serde_json::Value;

use crate::compare::{LoadMetric, trial_loads};
use crate::load::LoadAnswer;
use crate::report::plot::{Entry, Sheet};
use crate::run::RecordedRun;

/// A row for each level of each start, in order, repeats together; none for fewer than two starts of named settings.
pub fn trials_sheet(found: &RecordedRun) -> Option<Sheet> {
    let mut starts: Vec<&Value> = Vec::new();
    let mut rows: Vec<(usize, f64, Vec<LoadAnswer>)> = Vec::new();
    for (args, answer) in trial_loads(found) {
        let (trial, level) = (&args["trial"], args["load"]["concurrency"].as_f64());
        let Some(level) = level.filter(|_| trial["setting"].is_string()) else {
            continue;
        };
        if starts.last() != Some(&trial) {
            starts.push(trial);
        }
        match rows.last_mut() {
            Some((start, at, answers)) if *start == starts.len() && *at == level => answers.push(answer.clone()),
            _ => rows.push((starts.len(), level, vec![answer.clone()])),
        }
    }
    let rows = rows.iter().map(|(start, level, answers)| {
        let trial = starts[start - 1];
        let same = |other: &&Value| other["setting"] == trial["setting"];
        let first = starts.iter().position(same).map(|index| index + 1);
        let value = |name: &str| Entry::from(LoadMetric::named(name).and_then(|metric| metric.combined(answers)));
        [
            ("start", Entry::from(*start as f64)),
            ("for", name(trial).into()),
            (
                "as start",
                first.filter(|first| first != start).map(|first| first as f64).into(),
            ),
            ("settings", trial["setting"].as_str().into()),
            ("concurrency", (*level).into()),
            ("loads", (answers.len() as f64).into()),
            ("steady output tokens/s", value("steady_output_throughput")),
            ("output tokens/s", value("output_throughput")),
            ("mean TTFT, ms", value("mean_ttft_ms")),
            ("mean TPOT, ms", value("mean_tpot_ms")),
        ]
    });
    (starts.len() > 1).then(|| Sheet::from_rows(rows).filled())
}

/// The purpose of a trial: `confirmation 1`.
fn name(trial: &Value) -> Option<&str> {
    let mut texts = trial.as_object()?.iter().filter(|(key, _)| *key != "setting");
    texts.find_map(|(_, value)| value.as_str())
}
