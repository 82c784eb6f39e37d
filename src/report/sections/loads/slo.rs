//! The share of requests that met the SLO by level, and the level that the script `slo` found.

use serde_json::Value;

use super::axes::level_axis;
use super::format::{list, number, tenths};
use super::metrics::spots;
use super::sweep::{Sweep, SweepAxis, SweepLevel};
use crate::load::stats::Slo;
use crate::report::plot::{Axis, Colour, Layer, Panel, Plot, Sheet};
use crate::run::RecordedRun;
use crate::unit::Unit;

/// The chart; none without an SLO.
pub(super) fn plot(sweep: &Sweep, found: &RecordedRun, name: String) -> Option<Plot> {
    let slo = sweep
        .levels
        .iter()
        .flat_map(|level| &level.loads)
        .find_map(|load| load.goodput.as_ref())?
        .slo;
    let limits = limits_text(&slo);
    let search = SloSearch::new(found, sweep);
    let share = |level: &SweepLevel| {
        let good = level.sum(|load| {
            let goodput = load.goodput.as_ref()?;
            // In an open loop, a request's latency is counted from when it was due.
            Some(if sweep.axis == SweepAxis::Rate {
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
    if let Some(search) = &search {
        layers.push(rule(
            &format!("{} % required", number(search.attainment)),
            search.attainment,
            false,
            Colour::Limit,
        ));
        layers.extend(
            search
                .meets
                .map(|at| rule(&format!("{} meets", number(at)), at, true, Colour::Recommended)),
        );
        layers.extend(
            search
                .fails
                .map(|at| rule(&format!("{} fails", number(at)), at, true, Colour::Limit)),
        );
    }
    if let Some(search) = &search {
        layers.push(Layer::Ribbon {
            name: "95 % interval".to_owned(),
            points: search.intervals.clone(),
            colour: Colour::Series(0),
            solid: false,
            steps: false,
            right: false,
        });
    }
    layers.push(Layer::Line {
        name: "requests that meet the SLO".to_owned(),
        points,
        colour: Colour::Series(0),
        dashed: false,
        steps: false,
        dots: true,
        right: false,
    });
    let panel = Panel {
        x: level_axis(&[sweep]),
        y: Axis {
            label: "requests that meet the SLO".to_owned(),
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
        title: "Requests that meet the SLO".to_owned(),
        words: alt_text(sweep, &limits, search.as_ref(), &share),
        caption: "Failed and cut-off requests do not meet the SLO.".to_owned(),
        panels: vec![panel],
        sheet: Sheet {
            title: String::new(),
            columns: vec![sweep.axis.name().to_owned(), "goodput, %".to_owned()],
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
fn limits_text(slo: &Slo) -> String {
    let all = [
        ("TTFT", slo.ttft_ms),
        ("TPOT", slo.tpot_ms),
        ("ITL", slo.itl_ms),
        ("E2EL", slo.e2el_ms),
    ];
    let sentences = all
        .into_iter()
        .filter_map(|(name, limit)| Some(format!("{name} at most {} ms", number(limit?))));
    list(&sentences.collect::<Vec<_>>())
}

/// The result of a search for the largest level, as recorded.
struct SloSearch {
    /// Required share of good requests, in per cent.
    attainment: f64,
    meets: Option<f64>,
    fails: Option<f64>,
    /// Level, and the interval of the share of good requests in per cent.
    intervals: Vec<(f64, f64, f64)>,
}

impl SloSearch {
    fn new(found: &RecordedRun, sweep: &Sweep) -> Option<Self> {
        let result = found.result()?;
        let attainment = 100.0 * result["attainment"].as_f64()?;
        if result["axis"] != sweep.axis.name() {
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
        // A search on another engine has other levels.
        let known = |at: f64| sweep.levels.iter().any(|level| level.at == at);
        intervals.iter().all(|one| known(one.0)).then(|| Self {
            attainment,
            meets: result["meets"].as_f64(),
            fails: result["fails"].as_f64(),
            intervals,
        })
    }
}

fn alt_text(
    sweep: &Sweep,
    limits: &str,
    search: Option<&SloSearch>,
    share: &dyn Fn(&SweepLevel) -> Option<f64>,
) -> String {
    let mut sentences = vec![format!("A request meets the SLO with {limits}.")];
    match search {
        Some(search) => {
            let meets = search.meets.map_or_else(
                || "no level was shown to reach it".to_owned(),
                |at| format!("{} is the largest level shown to reach it", sweep.level_text(at)),
            );
            let fails = search
                .fails
                .map_or_else(String::new, |at| format!("; {} was shown not to", sweep.level_text(at)));
            sentences.push(format!(
                "Required are {} % of all requests: {meets}{fails}.",
                number(search.attainment)
            ));
        }
        None => {
            let ends = [sweep.levels.first(), sweep.levels.last()];
            let ends = ends
                .into_iter()
                .flatten()
                .filter_map(|level| Some(format!("{} % at {}", tenths(share(level)?), sweep.level_text(level.at))));
            sentences.push(format!("The SLO was met by {}.", list(&ends.collect::<Vec<_>>())));
        }
    }
    sentences.join(" ")
}
