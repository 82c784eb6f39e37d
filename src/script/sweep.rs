//! Functions on the rows of a load sweep (maps with values at dotted paths); `load::engine_side` does the calculations.

use rhai::{Array, Dynamic, Map};
use serde::Deserialize;

use super::convert::{to_script, type_of};
use super::nearest::nearest;
use crate::fault::{Fault, Result};
use crate::load::engine_side::{self, Bend, Onset};

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
    let Some(knee) = engine_side::knee(&points, options.bend, options.noise) else {
        return Ok(Dynamic::UNIT);
    };
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
    let Some(Onset {
        last_without,
        first_with,
        contradicting,
    }) = engine_side::onset(&levels)
    else {
        return Ok(Dynamic::UNIT);
    };
    let written = |level: f64| as_written(rows, x, level);
    let contradicting = contradicting.into_iter().map(written).collect::<Result<Array>>()?;
    Ok(Map::from([
        ("last_without".into(), last_without.map_or(Ok(Dynamic::UNIT), written)?),
        ("first_with".into(), written(first_with)?),
        ("contradicting".into(), contradicting.into()),
    ])
    .into())
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
