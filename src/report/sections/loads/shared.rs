//! Axes, marks, tables and tooltips shared by the charts of a sweep.

use crate::load::LoadAnswer;
use crate::load::engine_side::Onset;
use crate::report::plot::{Axis, Colour, Entry, Layer, Panel, Scale, Sheet, TooltipPoint, Tooltips};
use crate::report::sections::format::{GIB, list, number};
use crate::report::sections::loads::findings::SweepFindings;
use crate::report::sections::loads::sweep::{Sweep, SweepAxis, SweepLevel};
use crate::unit::Unit;

/// An axis is logarithmic if its largest value is at least this many times its smallest.
const LOG_LEVEL_RATIO: f64 = 8.0;
const LOG_VALUE_RATIO: f64 = 20.0;

/// The axis of the sweep's levels; logarithmic if they span a wide range, as doubling levels do.
pub(super) fn level_axis(sweeps: &[&Sweep]) -> Axis {
    let axis = sweeps.first().map_or(SweepAxis::Other, |sweep| sweep.axis);
    let all = sweeps
        .iter()
        .flat_map(|sweep| sweep.levels.iter().map(|level| level.at));
    let (label, unit) = match axis {
        SweepAxis::Rate => ("request rate", Unit::RequestsPerSecond),
        SweepAxis::Concurrency | SweepAxis::Other => ("concurrent requests", Unit::Count),
    };
    Axis::new(label, unit).with_scale(scale(all, LOG_LEVEL_RATIO))
}

/// An axis of values; logarithmic if they span a wide range.
pub(super) fn value_axis(label: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Axis {
    Axis::new(label, unit).with_scale(scale(values, LOG_VALUE_RATIO))
}

pub(super) fn zero_based_axis(label: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Axis {
    let top = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    Axis::new(label, unit).with_range((top > 0.0).then_some((0.0, 1.06 * top)))
}

/// An axis from 0 to 100 %.
pub(super) fn percent_axis(label: &str) -> Axis {
    Axis::new(label, Unit::Percent).with_range((0.0, 100.0))
}

/// A panel over the levels of sweeps, with tooltips at the points that `value` gives.
pub(super) fn sweep_panel(
    title: &str,
    sweeps: &[&Sweep],
    y: Axis,
    layers: Vec<Layer>,
    value: impl Fn(&SweepLevel) -> Option<f64>,
) -> Panel {
    Panel {
        title: title.to_owned(),
        x: level_axis(sweeps),
        y,
        layers,
        spots: spots(sweeps, |level| Some((level.at, value(level)?))),
        ..Panel::default()
    }
}

fn scale(values: impl Iterator<Item = f64>, wide: f64) -> Scale {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low > 0.0 && high >= wide * low {
        Scale::Log
    } else {
        Scale::Linear
    }
}

/// Vertical lines at the knee with its bracket and at the onset of preemption and queueing; `named` adds their labels.
pub(super) fn finding_marks(findings: &SweepFindings, named: bool) -> Vec<Layer> {
    let mut lines: Vec<(f64, Vec<String>, Colour)> = Vec::new();
    let mut mark = |at: f64, label: String, colour| match lines.iter_mut().find(|line| line.0 == at) {
        Some(line) => {
            line.1.push(label);
            line.2 = colour;
        }
        None => lines.push((at, vec![label], colour)),
    };
    let mut bracket = Vec::new();
    if let Some(knee) = findings.knee {
        if knee.low < knee.high {
            mark(
                knee.x,
                format!("knee ({} to {})", number(knee.low), number(knee.high)),
                Colour::Recommended,
            );
            bracket.extend([knee.low, knee.high].into_iter().filter(|end| *end != knee.x));
        } else {
            mark(knee.x, "knee".to_owned(), Colour::Recommended);
        }
    }
    for (onset, what) in [(&findings.preemption, "preemption"), (&findings.queue, "queue grows")] {
        if let Some(onset) = onset {
            mark(
                onset.first_with,
                format!("{what} from {}", number(onset.first_with)),
                Colour::Limit,
            );
        }
    }
    let rule = |at: f64, name: String, colour: Colour, dashed: bool| {
        Layer::vertical_rule(if named { name } else { String::new() }, at, colour).dashed(dashed)
    };
    let ends = bracket
        .into_iter()
        .map(|at| rule(at, String::new(), Colour::Recommended, true));
    let marked = lines
        .into_iter()
        .map(|(at, label, colour)| rule(at, label.join(", "), colour, colour == Colour::Limit));
    ends.chain(marked).collect()
}

/// Where something begins: `between concurrency 64 and 128`.
pub(super) fn onset_text(onset: &Onset, axis: SweepAxis) -> String {
    let first = number(onset.first_with);
    let text = match onset.last_without {
        Some(last) => format!("between {}", axis.level_text(&format!("{} and {first}", number(last)))),
        None => format!("at {}, the lowest level", axis.level_text(&first)),
    };
    match onset.contradicting.as_slice() {
        [] => text,
        others => {
            let others: Vec<String> = others.iter().map(|level| number(*level)).collect();
            format!("{text} (though not at {})", list(&others))
        }
    }
}

/// How the loads of a level are combined into one value.
enum Aggregate {
    Mean(fn(&LoadAnswer) -> Option<f64>),
    Sum(fn(&LoadAnswer) -> Option<u64>),
    /// One end of the range of output throughput.
    RepeatRange(fn((f64, f64)) -> f64),
}

/// The columns in their order.
const METRICS: [(&str, Aggregate); 28] = [
    ("requests", Aggregate::Sum(|load| Some(load.stats.issued))),
    ("failed", Aggregate::Sum(|load| Some(load.stats.failed))),
    (
        "cut off",
        Aggregate::Sum(|load| Some(load.stats.cut_off).filter(|count| *count > 0)),
    ),
    (
        "seconds",
        Aggregate::Mean(|load| Some(load.stats.duration).filter(|seconds| *seconds > 0.0)),
    ),
    (
        "requests/s",
        Aggregate::Mean(|load| load.stats.rates.request_throughput),
    ),
    (
        "output tokens/s",
        Aggregate::Mean(|load| load.stats.rates.output_throughput),
    ),
    ("min", Aggregate::RepeatRange(|range| range.0)),
    ("max", Aggregate::RepeatRange(|range| range.1)),
    (
        "all tokens/s",
        Aggregate::Mean(|load| load.stats.rates.total_token_throughput),
    ),
    ("p50 TTFT, ms", Aggregate::Mean(|load| load.stats.latencies.ttft_ms.p50)),
    ("p90 TTFT, ms", Aggregate::Mean(|load| load.stats.latencies.ttft_ms.p90)),
    ("p99 TTFT, ms", Aggregate::Mean(|load| load.stats.latencies.ttft_ms.p99)),
    ("p50 TPOT, ms", Aggregate::Mean(|load| load.stats.latencies.tpot_ms.p50)),
    ("p99 TPOT, ms", Aggregate::Mean(|load| load.stats.latencies.tpot_ms.p99)),
    ("p50 ITL, ms", Aggregate::Mean(|load| load.stats.latencies.itl_ms.p50)),
    ("p99 ITL, ms", Aggregate::Mean(|load| load.stats.latencies.itl_ms.p99)),
    ("p50 E2EL, ms", Aggregate::Mean(|load| load.stats.latencies.e2el_ms.p50)),
    ("p90 E2EL, ms", Aggregate::Mean(|load| load.stats.latencies.e2el_ms.p90)),
    ("p99 E2EL, ms", Aggregate::Mean(|load| load.stats.latencies.e2el_ms.p99)),
    (
        "KV cache used, %, max",
        Aggregate::Mean(|load| Some(100.0 * load.engine.kv_usage?.max)),
    ),
    ("waiting, mean", Aggregate::Mean(|load| Some(load.engine.waiting?.mean))),
    ("preemptions", Aggregate::Sum(|load| load.engine.preemptions)),
    (
        "goodput, %",
        Aggregate::Mean(|load| Some(100.0 * load.stats.goodput.as_ref()?.share?)),
    ),
    (
        "peak memory, GiB",
        Aggregate::Mean(|load| Some(load.engine.memory.as_ref()?.peak? as f64 / GIB)),
    ),
    (
        "power, W",
        Aggregate::Mean(|load| Some(load.engine.power.as_ref()?.mean)),
    ),
    (
        "cost per 1M output tokens",
        Aggregate::Mean(|load| load.cost.per_million_output),
    ),
    (
        "cost per 1M tokens",
        Aggregate::Mean(|load| load.cost.per_million_total),
    ),
    (
        "Wh per 1M tokens",
        Aggregate::Mean(|load| load.cost.wh_per_million_total),
    ),
];

impl Aggregate {
    fn value(&self, level: &SweepLevel) -> Option<f64> {
        match self {
            Self::Mean(figure) => level.mean(figure),
            Self::Sum(count) => level.sum(count),
            Self::RepeatRange(end) => level.repeat_range().map(end),
        }
    }
}

/// A row for each level, without empty columns.
pub(super) fn sheet(sweep: &Sweep) -> Sheet {
    sweeps_table(&[sweep])
}

/// A row for each level of each sweep; the sweep's name comes first if there are several.
pub(super) fn sweeps_table(sweeps: &[&Sweep]) -> Sheet {
    let levels = || {
        sweeps
            .iter()
            .flat_map(|sweep| sweep.levels.iter().map(move |level| (*sweep, level)))
    };
    let filled: Vec<&(&str, Aggregate)> = METRICS
        .iter()
        .filter(|(_, aggregate)| levels().any(|(_, level)| aggregate.value(level).is_some()))
        .collect();
    let several = sweeps.len() > 1;
    let word = sweeps.first().map_or("", |sweep| sweep.axis.name());
    let head = several.then(String::new).into_iter().chain([word.to_owned()]);
    let columns = head.chain(filled.iter().map(|(name, _)| (*name).to_owned()));
    let rows = levels().map(|(sweep, level)| {
        let head = several
            .then(|| sweep.name.as_str().into())
            .into_iter()
            .chain([level.at.into()]);
        head.chain(filled.iter().map(|(_, aggregate)| aggregate.value(level).into()))
            .collect()
    });
    Sheet::new(columns, rows)
}

/// Tooltips at the points that `at` gives; levels without a point have none.
pub(super) fn spots(sweeps: &[&Sweep], at: impl Fn(&SweepLevel) -> Option<(f64, f64)>) -> Tooltips {
    let sheet = sweeps_table(sweeps);
    let levels = sweeps.iter().flat_map(|sweep| &sweep.levels);
    let spots = levels.zip(sheet.rows).filter_map(|(level, entries)| {
        Some(TooltipPoint {
            at: at(level)?,
            entries,
        })
    });
    Tooltips::new(sheet.columns, spots)
}

/// The metrics of a single load in two columns.
pub(super) fn load_table(level: &SweepLevel) -> Sheet {
    let rows = METRICS
        .iter()
        .filter_map(|(name, aggregate)| Some(vec![Entry::from(*name), aggregate.value(level)?.into()]));
    Sheet::new(["metric", "value"], rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::sweep::SweepAxis;
    use super::*;
    use crate::load::engine_side::{Knee, onset};

    #[test]
    fn marks_at_one_level_are_merged() {
        let knee = Knee {
            x: 16.0,
            y: 1.0,
            low: 8.0,
            high: 16.0,
            distance: 0.5,
        };
        let preemption = onset(&[(8.0, false), (16.0, true)]);
        let findings = SweepFindings {
            knee: Some(knee),
            preemption,
            ..SweepFindings::default()
        };
        let expected: Vec<(String, f64, Colour)> = finding_marks(&findings, true)
            .into_iter()
            .filter_map(|layer| match layer {
                Layer::Rule { name, at, colour, .. } => Some((name, at, colour)),
                _ => None,
            })
            .collect();
        assert_eq!(
            expected,
            [
                (String::new(), 8.0, Colour::Recommended),
                ("knee (8 to 16), preemption from 16".to_owned(), 16.0, Colour::Limit)
            ]
        );
        assert!(finding_marks(&SweepFindings::default(), true).is_empty());
    }

    #[test]
    fn doubling_levels_have_a_logarithmic_axis() {
        assert_eq!(scale([1.0, 2.0, 8.0].into_iter(), LOG_LEVEL_RATIO), Scale::Log);
        assert_eq!(scale([0.0, 8.0].into_iter(), LOG_LEVEL_RATIO), Scale::Linear);
        assert_eq!(scale([4.0, 8.0].into_iter(), LOG_LEVEL_RATIO), Scale::Linear);
    }

    fn sweep(name: &str) -> Sweep {
        let load = |tokens: f64| LoadAnswer::read(&json!({ "issued": 20, "output_throughput": tokens }));
        let levels = vec![
            SweepLevel {
                at: 1.0,
                loads: vec![load(10.0)],
            },
            SweepLevel {
                at: 8.0,
                loads: vec![load(70.0), load(90.0)],
            },
        ];
        Sweep {
            name: name.into(),
            axis: SweepAxis::Concurrency,
            settings: serde_json::Map::new(),
            levels,
        }
    }

    #[test]
    fn table_has_filled_columns_and_summed_counts() {
        let sheet = sheet(&sweep("a"));
        assert_eq!(
            sheet.columns,
            ["concurrency", "requests", "failed", "output tokens/s", "min", "max"]
        );
        let number = Entry::Number;
        assert_eq!(
            sheet.rows[0],
            [
                number(1.0),
                number(20.0),
                number(0.0),
                number(10.0),
                Entry::None,
                Entry::None
            ]
        );
        assert_eq!(sheet.rows[1], [8.0, 40.0, 0.0, 80.0, 70.0, 90.0].map(number));
    }

    #[test]
    fn several_sweeps_have_names_and_tooltips() {
        let sweeps = [sweep("a"), sweep("b")];
        let spots = spots(&[&sweeps[0], &sweeps[1]], |level| {
            Some((level.at, level.mean(|load| load.stats.rates.output_throughput)?))
        });
        assert_eq!((spots.spots.len(), spots.columns[1].as_str()), (4, "concurrency"));
        assert_eq!(
            (spots.spots[3].at, &spots.spots[3].entries[0]),
            ((8.0, 80.0), &Entry::from("b"))
        );
    }
}
