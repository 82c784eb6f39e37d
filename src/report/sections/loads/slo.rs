//! The share of requests that met the SLO by level, and the level that the script `slo` found.

use serde_json::Value;

use super::super::format::{list, number, tenths};
use super::shared::{percent_axis, sweep_panel};
use super::sweep::{Sweep, SweepAxis, SweepLevel};
use crate::load::stats::Slo;
use crate::report::plot::{Colour, Layer, Plot, Sheet};
use crate::run::RecordedRun;

/// The chart; none without an SLO.
pub(super) fn plot(sweep: &Sweep, found: &RecordedRun, name: String) -> Option<Plot> {
    let slo = sweep
        .levels
        .iter()
        .flat_map(|level| &level.loads)
        .find_map(|load| load.stats.goodput.as_ref())?
        .slo;
    let limits = limits_text(&slo);
    let search = SloSearch::new(found, sweep);
    let share = |level: &SweepLevel| {
        let good = level.sum(|load| {
            let goodput = load.stats.goodput.as_ref()?;
            // In an open loop, a request's latency is counted from when it was due.
            Some(if sweep.axis == SweepAxis::Rate {
                goodput.response.good
            } else {
                goodput.good
            })
        })?;
        let issued = level
            .sum(|load| Some(load.stats.issued))
            .filter(|issued| *issued > 0.0)?;
        Some(100.0 * good / issued)
    };
    let mut layers = Vec::new();
    if let Some(search) = &search {
        let required = format!("{} % required", number(search.attainment));
        layers.push(Layer::horizontal_rule(required, search.attainment, Colour::Limit).dashed(true));
        layers.extend(
            search
                .meets
                .map(|at| Layer::vertical_rule(format!("{} meets", number(at)), at, Colour::Recommended)),
        );
        layers.extend(
            search
                .fails
                .map(|at| Layer::vertical_rule(format!("{} fails", number(at)), at, Colour::Limit).dashed(true)),
        );
        layers.push(Layer::ribbon(
            "95 % interval",
            search.intervals.iter().copied(),
            Colour::Series(0),
        ));
    }
    layers.push(Layer::line("requests that meet the SLO", sweep.points(share), Colour::Series(0)).with_markers());
    let panel = sweep_panel("", &[sweep], percent_axis("requests that meet the SLO"), layers, share);
    Some(Plot {
        name,
        title: "Requests that meet the SLO".to_owned(),
        words: alt_text(sweep, &limits, search.as_ref(), &share),
        caption: "Failed and cut-off requests do not meet the SLO.".to_owned(),
        panels: vec![panel],
        sheet: Sheet::new(
            [sweep.axis.name(), "goodput, %"],
            sweep
                .levels
                .iter()
                .map(|level| vec![level.at.into(), share(level).into()]),
        ),
        ..Plot::default()
    })
}

/// `TTFT at most 200 ms and TPOT at most 50 ms`.
fn limits_text(slo: &Slo) -> String {
    let all = [
        ("TTFT", slo.ttft_ms),
        ("TPOT", slo.tpot_ms),
        ("ITL", slo.itl_ms),
        ("E2E latency", slo.e2el_ms),
    ];
    let limits = all
        .into_iter()
        .filter_map(|(name, limit)| Some(format!("{name} at most {} ms", number(limit?))));
    list(&limits.collect::<Vec<_>>())
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
