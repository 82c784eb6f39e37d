//! Further figures over the levels of a sweep: engine load, requests that meet the SLO, and cost.

use serde::Deserialize;

use super::panel::{Column, finding_marks, level_axis, level_table, percent_axis, sweep_panel, zero_based_axis};
use super::sweep::{LoadValue, Sweep, SweepAxis, SweepLevel};
use crate::load::LoadAnswer;
use crate::load::engine_side::GaugeStats;
use crate::load::stats::Slo;
use crate::report::plot::{Axis, Bar, Colour, Layer, Panel, Plot, Scale};
use crate::report::sections::format::{list, number, tenths};
use crate::run::RecordedRun;
use crate::unit::Unit;

/// A gauge of the engine: its name, its colour, what its values are multiplied by, and where a load has it.
struct Gauge {
    name: &'static str,
    colour: Colour,
    factor: f64,
    stats: fn(&LoadAnswer) -> Option<GaugeStats>,
}

const RUNNING: Gauge = Gauge {
    name: "running",
    colour: Colour::Series(0),
    factor: 1.0,
    stats: |load| load.engine.running,
};
const WAITING: Gauge = Gauge {
    name: "waiting in the engine",
    colour: Colour::Series(1),
    factor: 1.0,
    stats: |load| load.engine.waiting,
};
const KV_CACHE: Gauge = Gauge {
    name: "KV cache used",
    colour: Colour::Series(2),
    factor: 100.0,
    stats: |load| load.engine.kv_usage,
};

impl Gauge {
    fn mean(&self, level: &SweepLevel) -> Option<f64> {
        Some(level.mean(|load| Some((self.stats)(load)?.mean))? * self.factor)
    }

    fn max(&self, level: &SweepLevel) -> Option<f64> {
        Some(level.mean(|load| Some((self.stats)(load)?.max))? * self.factor)
    }

    /// Columns of means and maxima.
    fn columns(&'static self, heading: &str) -> [Column; 2] {
        [
            Column::new(&format!("{heading}, mean"), |level| self.mean(level)),
            Column::new(&format!("{heading}, max"), |level| self.max(level)),
        ]
    }
}

/// Running and waiting requests, KV cache use and preemptions; none if the engine reports no metrics.
pub(super) fn engine_plot(sweep: &Sweep, name: String) -> Option<Plot> {
    let highest = [&RUNNING, &WAITING].map(|gauge| sweep.known(|level| gauge.max(level)));
    let requests = zero_based_axis("", Unit::Count, highest.iter().flatten().map(|known| known.1));
    let panels = [
        gauges_panel(sweep, "requests", &[&RUNNING, &WAITING], requests, true),
        gauges_panel(sweep, "KV cache used", &[&KV_CACHE], percent_axis(""), false),
        preemptions_panel(sweep),
    ];
    let columns = [
        RUNNING.columns("running"),
        WAITING.columns("waiting"),
        KV_CACHE.columns("KV cache used, %"),
    ];
    let columns = columns.into_iter().flatten().chain(Column::named(&["preemptions"]));
    let caption = "Lines are means over the measured time, shades reach to the highest value seen.";
    let plot = Plot::new(name, "Engine load", panels.into_iter().flatten())
        .with_words(engine_text(sweep), caption)
        .with_sheet(level_table(&[sweep], columns.collect()));
    Some(plot).filter(|plot| !plot.panels.is_empty())
}

fn gauges_panel(sweep: &Sweep, title: &str, gauges: &[&Gauge], y: Axis, named: bool) -> Option<Panel> {
    let mut layers = Vec::new();
    for gauge in gauges {
        let points = sweep.points(|level| gauge.mean(level));
        if points.iter().any(|point| point.1.is_some()) {
            let levels = sweep.levels.iter();
            let shade = levels.filter_map(|level| Some((level.at, gauge.mean(level)?, gauge.max(level)?)));
            layers.push(Layer::ribbon("", shade, gauge.colour));
            layers.push(Layer::line(gauge.name, points, gauge.colour).with_markers());
        }
    }
    (!layers.is_empty()).then(|| {
        let layers = finding_marks(sweep, named).into_iter().chain(layers).collect();
        sweep_panel(title, &[sweep], y, layers, |level| gauges[0].mean(level))
    })
}

/// Preemptions of a level, all loads together.
fn preemptions(level: &SweepLevel) -> Option<f64> {
    level.sum(|load| load.engine.preemptions)
}

/// Preemptions as bars; none if there were none.
fn preemptions_panel(sweep: &Sweep) -> Option<Panel> {
    let counts: Vec<Option<f64>> = sweep.levels.iter().map(preemptions).collect();
    if counts.iter().flatten().all(|count| *count == 0.0) {
        return None;
    }
    let bars = counts.iter().enumerate();
    let bars = bars.filter_map(|(at, count)| Some(Bar::new(at, (*count)?)));
    let x = Axis {
        label: level_axis(&[sweep]).label,
        ..Axis::categories(sweep.levels.iter().map(|level| number(level.at)))
    };
    let y = zero_based_axis("", Unit::Count, counts.iter().flatten().copied());
    Some(Panel::new("preemptions", x, y, [Layer::bars("", bars, Colour::Limit)]))
}

fn engine_text(sweep: &Sweep) -> String {
    let mut sentences = Vec::new();
    let usage = sweep.known(|level| KV_CACHE.max(level)).into_iter();
    if let Some((level, percent)) = usage.max_by(|a, b| a.1.total_cmp(&b.1)) {
        let (percent, at) = (tenths(percent), sweep.level_text(level.at));
        sentences.push(format!("The KV cache was used to {percent} % at most, at {at}."));
    }
    let first = |value: &dyn Fn(&SweepLevel) -> Option<f64>, least: f64| {
        let found = sweep.known(value).into_iter().find(|known| known.1 >= least);
        found.map(|(level, _)| sweep.level_text(level.at))
    };
    if let Some(level) = first(&|level| WAITING.mean(level), 1.0) {
        sentences.push(format!(
            "From {level} on, at least one request waited in the engine on average."
        ));
    }
    if let Some(level) = first(&preemptions, 1.0) {
        sentences.push(format!("Sequences were preempted from {level} on."));
    } else if sweep.levels.iter().all(|level| preemptions(level).is_some()) {
        sentences.push("Nothing was preempted.".to_owned());
    }
    sentences.join(" ")
}

/// The result of the script `slo`, which searches the largest level that meets an SLO.
#[derive(Deserialize)]
struct SloSearch {
    axis: String,
    /// Required share of good requests.
    attainment: f64,
    #[serde(default)]
    meets: Option<f64>,
    #[serde(default)]
    fails: Option<f64>,
    #[serde(default)]
    levels: Vec<SloLevel>,
}

/// A level, and the interval of the share of good requests.
#[derive(Deserialize)]
struct SloLevel {
    level: f64,
    low: f64,
    high: f64,
}

impl SloSearch {
    /// The search on this sweep; one on another engine has other levels.
    fn of(sweep: &Sweep, found: &RecordedRun) -> Option<Self> {
        let mut search = Self::deserialize(found.result()?).ok()?;
        let known = |one: &SloLevel| sweep.levels.iter().any(|level| level.at == one.level);
        search.levels.sort_by(|a, b| a.level.total_cmp(&b.level));
        (search.axis == sweep.axis.name() && search.levels.iter().all(known)).then_some(search)
    }
}

/// The share of requests that met the SLO, and the level that the script `slo` found; none without an SLO.
pub(super) fn slo_plot(sweep: &Sweep, found: &RecordedRun, name: String) -> Option<Plot> {
    let mut loads = sweep.levels.iter().flat_map(|level| &level.loads);
    let slo = loads.find_map(|load| load.stats.goodput.as_ref())?.slo;
    let search = SloSearch::of(sweep, found);
    // In an open loop, a request's latency is counted from when it was due.
    let good: fn(&LoadAnswer) -> Option<u64> = match sweep.axis {
        SweepAxis::Rate => |load| Some(load.stats.goodput.as_ref()?.response.good),
        _ => |load| Some(load.stats.goodput.as_ref()?.good),
    };
    let share = move |level: &SweepLevel| {
        let issued = level.sum(|load| Some(load.stats.issued))?;
        Some(100.0 * level.sum(good)? / issued).filter(|_| issued > 0.0)
    };
    let mut layers = Vec::new();
    if let Some(search) = &search {
        let required = 100.0 * search.attainment;
        layers.push(
            Layer::horizontal_rule(format!("{} % required", number(required)), required, Colour::Limit).dashed(true),
        );
        let rule = |at, what, colour| Layer::vertical_rule(format!("{} {what}", number(at)), at, colour);
        layers.extend(search.meets.map(|at| rule(at, "meets", Colour::Recommended)));
        layers.extend(search.fails.map(|at| rule(at, "fails", Colour::Limit).dashed(true)));
        let intervals = search
            .levels
            .iter()
            .map(|one| (one.level, 100.0 * one.low, 100.0 * one.high));
        layers.push(Layer::ribbon("95 % interval", intervals, Colour::Series(0)));
    }
    const LABEL: &str = "requests that meet the SLO";
    layers.push(Layer::line(LABEL, sweep.points(share), Colour::Series(0)).with_markers());
    let panel = sweep_panel("", &[sweep], percent_axis(LABEL), layers, share);
    let words = slo_text(sweep, &slo, search.as_ref(), &sweep.known(share));
    let plot = Plot::new(name, "Requests that meet the SLO", [panel])
        .with_words(words, "Failed and cut-off requests do not meet the SLO.")
        .with_sheet(level_table(&[sweep], vec![Column::new("goodput, %", share)]));
    Some(plot)
}

fn slo_text(sweep: &Sweep, slo: &Slo, search: Option<&SloSearch>, shares: &[(&SweepLevel, f64)]) -> String {
    let limits = [
        ("TTFT", slo.ttft_ms),
        ("TPOT", slo.tpot_ms),
        ("ITL", slo.itl_ms),
        ("E2E latency", slo.e2el_ms),
    ];
    let limits = limits
        .into_iter()
        .filter_map(|(name, limit)| Some(format!("{name} at most {} ms", number(limit?))));
    let limits = list(&limits.collect::<Vec<_>>());
    let result = match search {
        Some(search) => {
            let required = number(100.0 * search.attainment);
            let meets = search
                .meets
                .map(|at| format!("{} is the largest level shown to reach it", sweep.level_text(at)));
            let meets = meets.unwrap_or_else(|| "no level was shown to reach it".to_owned());
            let fails = search
                .fails
                .map(|at| format!("; {} was shown not to", sweep.level_text(at)));
            format!(
                "Required are {required} % of all requests: {meets}{}.",
                fails.unwrap_or_default()
            )
        }
        None => {
            let ends = [shares.first(), shares.last()].into_iter().flatten();
            let ends = ends.map(|(level, share)| format!("{} % at {}", tenths(*share), sweep.level_text(level.at)));
            format!("The SLO was met by {}.", list(&ends.collect::<Vec<_>>()))
        }
    };
    format!("A request meets the SLO with {limits}. {result}")
}

/// The cost of a million output tokens, and of a million of all: title of the panel, the two values, and a level's cost
/// in a sentence.
struct Cost {
    title: &'static str,
    output: LoadValue,
    total: LoadValue,
    sentence: fn(String, String, String, String) -> String,
}

const COSTS: [Cost; 2] = [
    Cost {
        title: "$ per million tokens",
        output: |load| load.cost.per_million_output,
        total: |load| load.cost.per_million_total,
        sentence: |low, at, high, and_at| format!("costs least at {at}, ${low}, and most at {and_at}, ${high}"),
    },
    Cost {
        title: "energy per million tokens, Wh",
        output: |load| load.cost.wh_per_million_output,
        total: |load| load.cost.wh_per_million_total,
        sentence: |low, at, high, and_at| format!("takes least at {at}, {low} Wh, and most at {and_at}, {high} Wh"),
    },
];

/// The cost of tokens: money if a price was given, and energy if power was measured; none if neither is known.
pub(super) fn cost_plot(sweep: &Sweep, name: String) -> Option<Plot> {
    let mut loads = sweep.levels.iter().flat_map(|level| &level.loads);
    let price = loads.find_map(|load| load.cost.price_per_hour);
    let panels = COSTS.iter().filter_map(|cost| cost_panel(sweep, cost));
    let sentences = COSTS.iter().filter_map(|cost| {
        let known = sweep.known(|level| level.mean(cost.output));
        let (cheapest, low) = known.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let (dearest, high) = known.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let at = |level: &SweepLevel| sweep.level_text(level.at);
        Some((cost.sentence)(number(*low), at(cheapest), number(*high), at(dearest)))
    });
    let caption = price.map(|price| {
        format!(
            "At ${} per hour for all GPUs together. Each curve divides the full price: they are two views, not parts of a sum.",
            number(price)
        )
    });
    let columns = Column::named(&["cost_output", "cost_total", "wh_output", "wh_total"]);
    let words = format!("A million output tokens {}.", list(&sentences.collect::<Vec<_>>()));
    let plot = Plot::new(name, "What a million tokens cost", panels)
        .with_words(words, caption.unwrap_or_default())
        .with_sheet(level_table(&[sweep], columns));
    Some(plot).filter(|plot| !plot.panels.is_empty())
}

fn cost_panel(sweep: &Sweep, cost: &Cost) -> Option<Panel> {
    let known = |value: LoadValue| move |level: &SweepLevel| level.mean(value).filter(|cost| *cost > 0.0);
    let curves = [("output tokens", cost.output), ("input and output tokens", cost.total)];
    let lines = curves.into_iter().enumerate().filter_map(|(index, (name, value))| {
        let points = sweep.points(known(value));
        let is_known = points.iter().any(|point| point.1.is_some());
        is_known.then(|| Layer::line(name, points, Colour::series(index)).with_markers())
    });
    let lines: Vec<Layer> = lines.collect();
    (!lines.is_empty()).then(|| {
        let y = Axis::new("", Unit::Count).with_scale(Scale::Log);
        let layers = finding_marks(sweep, true).into_iter().chain(lines).collect();
        sweep_panel(cost.title, &[sweep], y, layers, known(cost.output))
    })
}
