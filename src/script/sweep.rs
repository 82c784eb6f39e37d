//! Functions on the rows of a load sweep (maps with values at dotted paths); `load::engine_side` does the calculations.

use rhai::{Array, Dynamic, Map};
use serde::Deserialize;
use serde_json::json;

use super::convert::{from_script, to_script, type_of};
use super::nearest::nearest;
use super::options::deserialize_as;
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
    let mut points = Vec::new();
    for row in rows {
        if let (Some(x), Some(y)) = (number(row, x)?, number(row, y)?) {
            points.push((x, y));
        }
    }
    match engine_side::knee(&points, options.bend, options.noise) {
        Some(knee) => written_knee(rows, x, knee),
        None => Ok(Dynamic::UNIT),
    }
}

fn written_knee(rows: &Array, x: &str, knee: Knee) -> Result<Dynamic> {
    Ok(Map::from([
        ("x".into(), as_written(rows, x, knee.x)?),
        ("y".into(), knee.y.into()),
        ("low".into(), as_written(rows, x, knee.low)?),
        ("high".into(), as_written(rows, x, knee.high)?),
        ("distance".into(), knee.distance.into()),
    ])
    .into())
}

/// Where any of these values (a count or a bool) becomes positive over `x`. Rows where all are `()` are skipped.
pub(super) fn onset(rows: &Array, x: &str, figures: &[&str]) -> Result<Dynamic> {
    let mut levels = Vec::new();
    for row in rows {
        let mut has: Option<bool> = None;
        for figure in figures {
            if let Some(one) = truth(row, figure)? {
                has = Some(has.unwrap_or(false) || one);
            }
        }
        if let (Some(level), Some(has)) = (number(row, x)?, has) {
            levels.push((level, has));
        }
    }
    match engine_side::onset(&levels) {
        Some(onset) => written_onset(rows, x, onset),
        None => Ok(Dynamic::UNIT),
    }
}

fn written_onset(rows: &Array, x: &str, onset: Onset) -> Result<Dynamic> {
    let Onset {
        last_without,
        first_with,
        contradicting,
    } = onset;
    let written = |level: f64| as_written(rows, x, level);
    let contradicting = contradicting.into_iter().map(written).collect::<Result<Array>>()?;
    Ok(Map::from([
        ("last_without".into(), last_without.map_or(Ok(Dynamic::UNIT), written)?),
        ("first_with".into(), written(first_with)?),
        ("contradicting".into(), contradicting.into()),
    ])
    .into())
}

/// What the rows of a sweep say together, levels as they were written.
pub(super) fn findings(rows: &Array, axis: &str) -> Result<Dynamic> {
    let mut levels = Vec::new();
    for row in rows {
        let mut figures: LevelFigures = deserialize_as("key", from_script(row)?)?;
        let Some(level) = number(row, axis)? else { continue };
        figures.level = level;
        levels.push(figures);
    }
    let found = SweepFindings::new(SweepAxis::named(axis), &levels);
    let written = |level: Option<f64>| level.map_or(Ok(Dynamic::UNIT), |level| as_written(rows, axis, level));
    let onset = |onset: Option<Onset>| onset.map_or(Ok(Dynamic::UNIT), |onset| written_onset(rows, axis, onset));
    let notes: Array = found.notes.into_iter().map(Dynamic::from).collect();
    Ok(Map::from([
        ("finding".into(), found.finding.into()),
        ("notes".into(), notes.into()),
        (
            "knee".into(),
            found
                .knee
                .map_or(Ok(Dynamic::UNIT), |knee| written_knee(rows, axis, knee))?,
        ),
        ("preemption".into(), onset(found.preemption)?),
        ("queue".into(), onset(found.queue)?),
        ("waiting".into(), onset(found.waiting)?),
        ("best".into(), written(found.best)?),
        ("cheapest".into(), written(found.cheapest)?),
    ])
    .into())
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

/// The x value as the script wrote it: an int stays an int.
fn as_written(rows: &Array, x: &str, level: f64) -> Result<Dynamic> {
    for row in rows {
        if number(row, x)? == Some(level) {
            return Ok(at(row, x)?.unwrap_or_default());
        }
    }
    Ok(level.into())
}

fn number(row: &Dynamic, path: &str) -> Result<Option<f64>> {
    let Some(value) = at(row, path)? else { return Ok(None) };
    let number = value.as_float().or_else(|_| value.as_int().map(|whole| whole as f64));
    number
        .map(Some)
        .map_err(|_| Fault::usage(format!("`{path}` is {}, not a number", type_of(&value))))
}

/// A bool, or whether a count is positive.
fn truth(row: &Dynamic, path: &str) -> Result<Option<bool>> {
    match at(row, path)? {
        Some(value) if value.is_bool() => Ok(value.as_bool().ok()),
        _ => Ok(number(row, path)?.map(|count| count > 0.0)),
    }
}

/// The value at a path such as `ttft_ms.p99`; `None` if it or a parent is `()`.
fn at(row: &Dynamic, path: &str) -> Result<Option<Dynamic>> {
    let mut value = row.clone();
    for key in path.split('.') {
        if value.is_unit() {
            return Ok(None);
        }
        let Some(map) = value.clone().try_cast::<Map>() else {
            return Err(Fault::usage(format!(
                "`{path}` goes through {}, which is not a map",
                type_of(&value)
            )));
        };
        value = match map.get(key) {
            Some(value) => value.clone(),
            None => {
                let fault = Fault::usage(format!("a row has no `{key}` (of `{path}`)"));
                let known = nearest(key, map.keys().map(|key| key.as_str()));
                return Err(match known {
                    Some(known) => fault.hint(format!("did you mean `{known}`?")),
                    None => fault,
                });
            }
        };
    }
    Ok((!value.is_unit()).then_some(value))
}
