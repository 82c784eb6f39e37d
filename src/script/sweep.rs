//! Functions on the rows of a load sweep (maps with values at dotted paths); `load::engine_side` does the calculations.

use rhai::{Array, Dynamic, Map};
use serde::Deserialize;
use serde_json::{Value, json};

use super::convert::{from_script, to_script};
use super::nearest::{quoted, suggest};
use super::options::deserialize_as;
use super::params::type_with_article;
use crate::compare::{LoadMetric, load_metrics};
use crate::fault::{Fault, Result};
use crate::load::LoadAnswer;
use crate::load::engine_side::{self, Bend, Knee, LevelFigures, Onset, SweepAxis, SweepFindings};

/// Options of `load::knee`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct KneeOptions {
    noise: f64,
    bend: Bend,
}

impl Default for KneeOptions {
    fn default() -> Self {
        Self {
            noise: engine_side::NOISE,
            bend: Bend::default(),
        }
    }
}

/// The knee of `y` over `x`. Rows where either is `()` are skipped.
pub(super) fn knee(rows: &Array, x: &str, y: &str, options: KneeOptions) -> Result<Dynamic> {
    if !(0.0..1.0).contains(&options.noise) {
        return Err(Fault::usage(format!(
            "option `noise` must be at least 0 and below 1, but is {}",
            options.noise
        ))
        .hint("0.02 means that a value may be wrong by 2 % of the highest"));
    }
    let rows = values(rows)?;
    let mut points = Vec::new();
    for row in &rows {
        if let (Some(x), Some(y)) = (number(row, x)?, number(row, y)?) {
            points.push((x, y));
        }
    }
    let knee = engine_side::knee(&points, options.bend, options.noise);
    to_script(&knee.map(|knee| written_knee(&rows, x, knee)))
}

fn written_knee(rows: &[Value], x: &str, knee: Knee) -> Value {
    let written = |level: f64| as_written(rows, x, level);
    json!({
        "x": written(knee.x),
        "y": knee.y,
        "low": written(knee.low),
        "high": written(knee.high),
        "distance": knee.distance,
    })
}

/// Where any of these values (a count or a bool) becomes positive over `x`. Rows where all are `()` are skipped.
pub(super) fn onset(rows: &Array, x: &str, figures: &[&str]) -> Result<Dynamic> {
    let rows = values(rows)?;
    let mut levels = Vec::new();
    for row in &rows {
        let mut has: Option<bool> = None;
        for figure in figures {
            let one = match at(row, figure)? {
                Some(Value::Bool(value)) => Some(*value),
                _ => number(row, figure)?.map(|count| count > 0.0),
            };
            has = one.map(|one| has.unwrap_or(false) || one).or(has);
        }
        if let (Some(level), Some(has)) = (number(row, x)?, has) {
            levels.push((level, has));
        }
    }
    let onset = engine_side::onset(&levels);
    to_script(&onset.map(|onset| written_onset(&rows, x, onset)))
}

fn written_onset(rows: &[Value], x: &str, onset: Onset) -> Value {
    let written = |level: f64| as_written(rows, x, level);
    json!({
        "last_without": onset.last_without.map(written),
        "first_with": written(onset.first_with),
        "contradicting": onset.contradicting.into_iter().map(written).collect::<Vec<_>>(),
    })
}

/// What the rows of a sweep say together, levels as they were written.
pub(super) fn findings(rows: &Array, axis: &str) -> Result<Dynamic> {
    let rows = values(rows)?;
    let mut levels = Vec::new();
    for row in &rows {
        let mut figures: LevelFigures = deserialize_as("key", row.clone())?;
        let Some(level) = number(row, axis)? else { continue };
        figures.level = level;
        levels.push(figures);
    }
    let found = SweepFindings::new(SweepAxis::named(axis), &levels);
    let written = |level: f64| as_written(&rows, axis, level);
    let onset = |onset: Onset| written_onset(&rows, axis, onset);
    to_script(&json!({
        "finding": found.finding,
        "notes": found.notes,
        "knee": found.knee.map(|knee| written_knee(&rows, axis, knee)),
        "preemption": found.preemption.map(onset),
        "queue": found.queue.map(onset),
        "waiting": found.waiting.map(onset),
        "best": found.best.map(written),
        "cheapest": found.cheapest.map(written),
    }))
}

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

/// Cost per token, from a map of rates.
pub(super) fn cost(produced: &Produced) -> Result<Dynamic> {
    to_script(&engine_side::Cost::new(
        produced.price_per_hour,
        engine_side::WindowThroughput {
            input_throughput: produced.input_throughput,
            output_throughput: produced.output_throughput,
            seconds: produced.duration,
            energy_wh: produced.energy_wh,
        },
    )?)
}

/// Argument of `load::cost`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Produced {
    price_per_hour: Option<f64>,
    input_throughput: f64,
    output_throughput: f64,
    duration: f64,
    energy_wh: Option<f64>,
}

/// The level as the script wrote it: an int stays an int.
fn as_written(rows: &[Value], x: &str, level: f64) -> Value {
    let mut values = rows.iter().filter_map(|row| at(row, x).ok().flatten());
    let same = values.find(|value| value.as_f64() == Some(level));
    same.cloned().unwrap_or_else(|| json!(level))
}

fn values(rows: &Array) -> Result<Vec<Value>> {
    rows.iter().map(from_script).collect()
}

fn number(row: &Value, path: &str) -> Result<Option<f64>> {
    let wrong = |value: &Value| Fault::usage(format!("`{path}` is {}, not a number", type_with_article(value)));
    let value = at(row, path)?;
    value
        .map(|value| value.as_f64().ok_or_else(|| wrong(value)))
        .transpose()
}

/// The value at a path such as `ttft_ms.p99`; `None` if it or a parent is `()`.
fn at<'a>(row: &'a Value, path: &str) -> Result<Option<&'a Value>> {
    let mut value = row;
    for key in path.split('.') {
        let map = match value {
            Value::Null => return Ok(None),
            Value::Object(map) => map,
            other => {
                let kind = type_with_article(other);
                return Err(Fault::usage(format!(
                    "`{path}` goes through {kind}, which is not a map"
                )));
            }
        };
        value = map.get(key).ok_or_else(|| {
            let fault = Fault::usage(format!("a row has no `{key}` (of `{path}`)"));
            let known = quoted(map.keys());
            suggest(fault, key, map.keys().map(String::as_str), format!("it has {known}"))
        })?;
    }
    Ok(Some(value).filter(|value| !value.is_null()))
}
