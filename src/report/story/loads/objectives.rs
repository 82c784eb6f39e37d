//! The share of requests that met the user's limits along the levels of a sweep, and the level to which a search of `slo` came.

use serde_json::Value;

use super::axes::levels;
use super::figures::spots;
use super::say::{list, number, tenths};
use super::sweep::{Along, Point, Sweep};
use crate::load::figures::Slo;
use crate::report::plot::{Axis, Colour, Layer, Panel, Plot, Sheet};
use crate::run::Found;
use crate::unit::Unit;

/// The picture; nothing where no limits were set.
pub(super) fn plot(sweep: &Sweep, found: &Found, name: String) -> Option<Plot> {
    let slo = sweep
        .levels
        .iter()
        .flat_map(|level| &level.loads)
        .find_map(|load| load.goodput.as_ref())?
        .slo;
    let limits = limits(&slo);
    let asked = Asked::of(found, sweep);
    let share = |level: &Point| {
        let good = level.sum(|load| {
            let goodput = load.goodput.as_ref()?;
            // Of an open loop, a request's time begins when it was due.
            Some(if sweep.along == Along::Rate {
                goodput.response.good
            } else {
                goodput.good
            })
        })?;
        let issued = level.sum(|load| Some(load.issued)).filter(|issued| *issued > 0.0)?;
        Some(100.0 * good / issued)
    };
    let points: Vec<(f64, Option<f64>)> = sweep.levels.iter().map(|level| (level.at, share(level))).collect();
    let mut layers = Vec::new();
    if let Some(asked) = &asked {
        layers.push(rule(
            &format!("{} % must be good", number(asked.attainment)),
            asked.attainment,
            false,
            Colour::Limit,
        ));
        layers.extend(
            asked
                .meets
                .map(|at| rule(&format!("{} meets", number(at)), at, true, Colour::Recommended)),
        );
        layers.extend(
            asked
                .fails
                .map(|at| rule(&format!("{} fails", number(at)), at, true, Colour::Limit)),
        );
    }
    if let Some(asked) = &asked {
        layers.push(Layer::Ribbon {
            name: "95 % interval".to_owned(),
            points: asked.intervals.clone(),
            colour: Colour::Series(0),
            solid: false,
            steps: false,
            right: false,
        });
    }
    layers.push(Layer::Line {
        name: "good requests".to_owned(),
        points,
        colour: Colour::Series(0),
        dashed: false,
        steps: false,
        dots: true,
        right: false,
    });
    let panel = Panel {
        x: levels(&[sweep]),
        y: Axis {
            label: "good requests".to_owned(),
            unit: Unit::Percent,
            range: Some((0.0, 100.0)),
            ..Axis::default()
        },
        layers,
        spots: spots(&[sweep], |level| Some((level.at, share(level)?))),
        ..Panel::default()
    };
    Some(Plot {
        name,
        title: "Requests within the limits".to_owned(),
        words: words(sweep, &limits, asked.as_ref(), &share),
        caption: "A request that failed or was cut off met nothing.".to_owned(),
        panels: vec![panel],
        sheet: Sheet {
            title: String::new(),
            columns: vec![sweep.along.word().to_owned(), "good, %".to_owned()],
            rows: sweep
                .levels
                .iter()
                .map(|level| vec![level.at.into(), share(level).into()])
                .collect(),
        },
        ..Plot::default()
    })
}

fn rule(name: &str, at: f64, upright: bool, colour: Colour) -> Layer {
    Layer::Rule {
        name: name.to_owned(),
        at,
        upright,
        colour,
        dashed: colour == Colour::Limit,
        right: false,
    }
}

/// `TTFT at most 200 ms and TPOT at most 50 ms`.
fn limits(slo: &Slo) -> String {
    let all = [
        ("TTFT", slo.ttft_ms),
        ("TPOT", slo.tpot_ms),
        ("ITL", slo.itl_ms),
        ("E2EL", slo.e2el_ms),
    ];
    let told = all
        .into_iter()
        .filter_map(|(name, limit)| Some(format!("{name} at most {} ms", number(limit?))));
    list(&told.collect::<Vec<_>>())
}

/// What a search for the largest level found, as it recorded it.
struct Asked {
    /// Hundredths of requests that had to be good.
    attainment: f64,
    meets: Option<f64>,
    fails: Option<f64>,
    /// The level, and in hundredths the interval of the share of good requests.
    intervals: Vec<(f64, f64, f64)>,
}

impl Asked {
    fn of(found: &Found, sweep: &Sweep) -> Option<Self> {
        let result = found.result()?;
        let attainment = 100.0 * result["attainment"].as_f64()?;
        if result["axis"] != sweep.along.word() {
            return None;
        }
        let rows = result["levels"].as_array().map_or(&[] as &[Value], Vec::as_slice);
        let interval = |row: &Value| {
            Some((
                row["level"].as_f64()?,
                100.0 * row["low"].as_f64()?,
                100.0 * row["high"].as_f64()?,
            ))
        };
        let mut intervals: Vec<(f64, f64, f64)> = rows.iter().filter_map(interval).collect();
        intervals.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Levels of another engine's search are not those of this sweep.
        let known = |at: f64| sweep.levels.iter().any(|level| level.at == at);
        intervals.iter().all(|one| known(one.0)).then(|| Self {
            attainment,
            meets: result["meets"].as_f64(),
            fails: result["fails"].as_f64(),
            intervals,
        })
    }
}

fn words(sweep: &Sweep, limits: &str, asked: Option<&Asked>, share: &dyn Fn(&Point) -> Option<f64>) -> String {
    let behind = sweep.along.behind();
    let mut told = vec![format!("A request is good with {limits}.")];
    match asked {
        Some(asked) => {
            let meets = asked.meets.map_or_else(
                || "no level was shown to have".to_owned(),
                |at| format!("{}{behind} is the most that was shown to have", number(at)),
            );
            let fails = asked
                .fails
                .map_or_else(String::new, |at| format!("; {}{behind} was shown not to", number(at)));
            told.push(format!(
                "Of all requests {} % must be good: {meets} that{fails}.",
                number(asked.attainment)
            ));
        }
        None => {
            let ends = [sweep.levels.first(), sweep.levels.last()];
            let ends = ends
                .into_iter()
                .flatten()
                .filter_map(|level| Some(format!("{} % at {}{behind}", tenths(share(level)?), number(level.at))));
            told.push(format!("Good were {}.", list(&ends.collect::<Vec<_>>())));
        }
    }
    told.join(" ")
}
