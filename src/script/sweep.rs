//! Functions on the rows of a load sweep; `load::engine_side` does the calculations.

use rhai::{Array, Dynamic, Map};
use serde_json::{Value, json};

use super::convert::{from_script, to_script};
use super::options::deserialize_as;
use super::params::type_with_article;
use crate::compare::{LoadMetric, load_metrics};
use crate::fault::{Fault, Result};
use crate::load::LoadAnswer;
use crate::load::engine_side::{LevelFigures, SweepAxis, SweepFindings};

/// What the rows of a sweep say together, levels as they were written.
pub(super) fn findings(rows: &Array, axis: &str) -> Result<Dynamic> {
    let (mut levels, mut written) = (Vec::new(), Vec::new());
    for row in rows {
        let row: Value = from_script(row)?;
        let Some(level) = row.get(axis) else {
            return Err(Fault::usage(format!("a row has no `{axis}`")));
        };
        if level.is_null() {
            continue;
        }
        let at = level.as_f64();
        let at = at.ok_or_else(|| Fault::usage(format!("`{axis}` is {}, not a number", type_with_article(level))))?;
        written.push(level.clone());
        let figures = deserialize_as::<LevelFigures>("key", row)?;
        levels.push(LevelFigures { level: at, ..figures });
    }
    let mut found = json!(SweepFindings::new(SweepAxis::named(axis), &levels));
    for place in LEVELS {
        match found.pointer_mut(place) {
            Some(Value::Array(levels)) => levels.iter_mut().for_each(|level| *level = as_written(&written, level)),
            Some(level) => *level = as_written(&written, level),
            None => {}
        }
    }
    to_script(&found)
}

/// Where findings have levels.
const LEVELS: [&str; 14] = [
    "/best",
    "/cheapest",
    "/knee/x",
    "/knee/low",
    "/knee/high",
    "/preemption/last_without",
    "/preemption/first_with",
    "/preemption/contradicting",
    "/queue/last_without",
    "/queue/first_with",
    "/queue/contradicting",
    "/waiting/last_without",
    "/waiting/first_with",
    "/waiting/contradicting",
];

/// The answer of a load as a flat row.
pub(super) fn row(answer: Map) -> Result<Dynamic> {
    to_script(&load_metrics::row(&LoadAnswer::read(&from_script(&answer.into())?)))
}

/// The metrics of a row, with the name of each cell.
pub(super) fn metrics() -> Result<Dynamic> {
    let metrics: Vec<_> = LoadMetric::all()
        .iter()
        .map(|metric| {
            json!({
                "name": metric.name, "heading": metric.heading, "unit": metric.unit, "better": metric.better,
                "scale": metric.scale(), "percentile": metric.is_percentile(),
            })
        })
        .collect();
    to_script(&metrics)
}

/// The level as the script wrote it: an int stays an int.
fn as_written(levels: &[Value], level: &Value) -> Value {
    let same = levels.iter().find(|written| written.as_f64() == level.as_f64());
    same.unwrap_or(level).clone()
}
