//! The findings of a sweep: as the script recorded them, else from its levels by the same function.

use serde::Deserialize;
use serde_json::Value;

use super::sweep::Sweep;
use crate::compare::load_metrics;
use crate::load::LoadAnswer;
use crate::load::engine_side::{LevelFigures, SweepFindings};
use crate::run::RecordedRun;

/// The findings of a sweep; none without a curve.
pub(in crate::report::sections) fn findings(sweep: &Sweep, found: &RecordedRun) -> SweepFindings {
    if !sweep.has_curve() {
        return SweepFindings::default();
    }
    let results = found
        .result()
        .into_iter()
        .chain(found.shown.iter().map(|(value, _)| value));
    let recorded = results.filter_map(|result| recorded(sweep, result)).next();
    match recorded {
        Some(found) if !found.finding.is_empty() => found,
        // Earlier versions recorded no sentences.
        Some(found) => {
            let SweepFindings { finding, notes, .. } = computed(sweep);
            SweepFindings {
                finding,
                notes,
                ..found
            }
        }
        None => computed(sweep),
    }
}

/// The findings recorded for exactly these levels, anywhere in the result.
fn recorded(sweep: &Sweep, value: &Value) -> Option<SweepFindings> {
    match value {
        Value::Array(all) => all.iter().find_map(|one| recorded(sweep, one)),
        Value::Object(map) => {
            if map.contains_key("knee") && map.get("levels").is_some_and(|rows| matches_sweep(sweep, rows)) {
                return SweepFindings::deserialize(value).ok();
            }
            map.values().find_map(|one| recorded(sweep, one))
        }
        _ => None,
    }
}

/// Whether these rows are the levels of this sweep, with the same throughput.
fn matches_sweep(sweep: &Sweep, rows: &Value) -> bool {
    let axis = sweep.axis.name();
    let figures = |row: &Value| Some((row[axis].as_f64()?, row["output_throughput"].as_f64()?));
    let mut rows: Vec<(f64, f64)> = rows.as_array().into_iter().flatten().filter_map(figures).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let own = sweep.throughput();
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(1.0);
    !own.is_empty()
        && rows.len() == own.len()
        && rows
            .iter()
            .zip(&own)
            .all(|(row, own)| row.0 == own.0 && close(row.1, own.1))
}

fn computed(sweep: &Sweep) -> SweepFindings {
    let figures = |at: f64, load: &LoadAnswer| LevelFigures {
        level: at,
        queue_grows: load.queue_grows(),
        ..LevelFigures::deserialize(Value::Object(load_metrics::row(load))).unwrap_or_default()
    };
    let levels = sweep.levels.iter();
    let levels: Vec<LevelFigures> = levels
        .flat_map(|level| level.loads.iter().map(|load| figures(level.at, load)))
        .collect();
    SweepFindings::new(sweep.axis, &levels)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::sweep::{SweepAxis, SweepLevel};
    use super::*;

    fn sweep() -> Sweep {
        let levels = [(1.0, 20.0), (8.0, 160.0), (32.0, 640.0), (64.0, 650.0), (256.0, 655.0)];
        let level = |(at, tokens): (f64, f64)| SweepLevel {
            at,
            loads: vec![LoadAnswer::read(&json!({
                "output_throughput": tokens, "preemptions": u64::from(at > 32.0)
            }))],
        };
        Sweep {
            name: String::new(),
            axis: SweepAxis::Concurrency,
            settings: serde_json::Map::new(),
            levels: levels.map(level).to_vec(),
        }
    }

    #[test]
    fn findings_are_computed_if_not_recorded() {
        let found = computed(&sweep());
        assert_eq!(found.knee.unwrap().x, 32.0);
        let preemption = found.preemption.unwrap();
        assert_eq!((preemption.last_without, preemption.first_with), (Some(32.0), 64.0));
        assert_eq!(found.queue, None);
    }

    #[test]
    fn recorded_findings_of_the_same_levels_are_used() {
        let rows: Vec<Value> = sweep()
            .throughput()
            .iter()
            .map(|(at, tokens)| json!({ "concurrency": at, "output_throughput": tokens }))
            .collect();
        let knee = json!({ "x": 64, "y": 650.0, "low": 32, "high": 64, "distance": 0.5 });
        let result = json!({ "workloads": [{ "levels": [], "knee": null }, { "levels": rows, "knee": knee, "preemption": null, "queue": null }] });
        let found = recorded(&sweep(), &result).unwrap();
        assert_eq!((found.knee.unwrap().low, found.preemption), (32.0, None));
        let mut other = result;
        other["workloads"][1]["levels"][0]["output_throughput"] = json!(21.0);
        assert_eq!(recorded(&sweep(), &other), None, "another sweep's");
    }
}
