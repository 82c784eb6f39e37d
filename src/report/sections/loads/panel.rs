//! Axes, marks, tables and tooltips that the figures of a sweep share.

use crate::compare::LoadMetric;
use crate::report::plot::{Axis, Colour, Entry, Layer, Panel, Scale, Sheet, TooltipPoint, Tooltips};
use crate::report::sections::format::number;
use crate::report::sections::loads::sweep::{Sweep, SweepAxis, SweepLevel};
use crate::unit::Unit;

/// An axis is logarithmic if its largest value is at least this many times its smallest.
const LOG_LEVEL_RATIO: f64 = 8.0;
const LOG_VALUE_RATIO: f64 = 20.0;

/// The axis of the sweep's levels; logarithmic if they span a wide range, as doubling levels do.
pub(super) fn level_axis(sweeps: &[&Sweep]) -> Axis {
    let (label, unit) = match sweeps.first().map(|sweep| sweep.axis) {
        Some(SweepAxis::Rate) => ("request rate", Unit::RequestsPerSecond),
        _ => ("concurrent requests", Unit::Count),
    };
    let levels = sweeps.iter().flat_map(|sweep| &sweep.levels).map(|level| level.at);
    Axis::new(label, unit).with_scale(scale(levels, LOG_LEVEL_RATIO))
}

/// An axis of values; logarithmic if they span a wide range.
pub(super) fn value_axis(label: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Axis {
    Axis::new(label, unit).with_scale(scale(values, LOG_VALUE_RATIO))
}

pub(super) fn zero_based_axis(label: &str, unit: Unit, values: impl IntoIterator<Item = f64>) -> Axis {
    let top = values.into_iter().filter(|value| value.is_finite()).fold(0.0, f64::max);
    Axis::new(label, unit).with_range((top > 0.0).then_some((0.0, 1.06 * top)))
}

/// An axis from 0 to 100 %.
pub(super) fn percent_axis(label: &str) -> Axis {
    Axis::new(label, Unit::Percent).with_range((0.0, 100.0))
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

/// A panel over the levels of sweeps, with tooltips at the points that `value` gives.
pub(super) fn sweep_panel(
    title: &str,
    sweeps: &[&Sweep],
    y: Axis,
    layers: Vec<Layer>,
    value: impl Fn(&SweepLevel) -> Option<f64>,
) -> Panel {
    let tooltips = tooltips(sweeps, |level| Some((level.at, value(level)?)));
    Panel::new(title, level_axis(sweeps), y, layers).with_tooltips(tooltips)
}

/// Vertical lines at the saturation point with its bracket and at the onset of preemption and queueing; `named` adds
/// their labels.
pub(super) fn finding_marks(sweep: &Sweep, named: bool) -> Vec<Layer> {
    let findings = &sweep.findings;
    let mut marks: Vec<(f64, String, Colour)> = Vec::new();
    let mut bracket = Vec::new();
    if let Some(knee) = findings.knee {
        let mut label = "saturation point".to_owned();
        if knee.low < knee.high {
            label += &format!(" ({} to {})", number(knee.low), number(knee.high));
            bracket.extend([knee.low, knee.high].into_iter().filter(|end| *end != knee.x));
        }
        marks.push((knee.x, label, Colour::Recommended));
    }
    for (onset, what) in [(&findings.preemption, "preemption"), (&findings.queue, "queue grows")] {
        let Some(at) = onset.as_ref().map(|onset| onset.first_with) else {
            continue;
        };
        let label = format!("{what} from {}", number(at));
        match marks.iter_mut().find(|mark| mark.0 == at) {
            Some(mark) => (mark.1, mark.2) = (format!("{}, {label}", mark.1), Colour::Limit),
            None => marks.push((at, label, Colour::Limit)),
        }
    }
    let ends = bracket
        .into_iter()
        .map(|at| Layer::vertical_rule("", at, Colour::Recommended).dashed(true));
    let marks = marks.into_iter().map(|(at, label, colour)| {
        let label = if named { label } else { String::new() };
        Layer::vertical_rule(label, at, colour).dashed(colour == Colour::Limit)
    });
    ends.chain(marks).collect()
}

/// Diamonds at these saturation points; none if there are none.
pub(super) fn knee_marks(points: Vec<(f64, f64)>) -> Option<Layer> {
    use crate::report::plot::Shape::Diamond;
    (!points.is_empty()).then(|| Layer::dots("saturation point", points, Colour::Recommended, Diamond))
}

/// The metrics of a tooltip, which has little room.
const TOOLTIP: [&str; 17] = [
    "issued",
    "failed",
    "request_throughput",
    "output_throughput",
    "median_ttft_ms",
    "p95_ttft_ms",
    "p99_ttft_ms",
    "median_tpot_ms",
    "p95_tpot_ms",
    "median_itl_ms",
    "p95_itl_ms",
    "median_e2el_ms",
    "p95_e2el_ms",
    "kv_usage",
    "waiting",
    "preemptions",
    "cost_output",
];

/// A column of a table of levels.
pub(super) struct Column {
    heading: String,
    entry: Box<dyn Fn(&SweepLevel) -> Entry>,
}

impl Column {
    pub(super) fn new(heading: &str, value: impl Fn(&SweepLevel) -> Option<f64> + 'static) -> Self {
        Self {
            heading: heading.to_owned(),
            entry: Box::new(move |level| value(level).into()),
        }
    }

    /// A metric of loads. Percentiles that too few requests support are marked with `~`.
    fn metric(metric: &'static LoadMetric) -> Self {
        let entry = |level: &SweepLevel| {
            let value = metric.combined(&level.loads).map(|value| value * metric.scale());
            match value {
                Some(value) if level.loads.iter().any(|load| metric.thin(load)) => format!("~{}", number(value)).into(),
                value => value.into(),
            }
        };
        Self {
            heading: metric.heading.clone(),
            entry: Box::new(entry),
        }
    }

    /// The metrics of these names.
    pub(super) fn named(names: &[&str]) -> Vec<Self> {
        let metrics = names.iter().filter_map(|name| LoadMetric::named(name));
        metrics.map(Self::metric).collect()
    }

    /// All metrics, and the range of output throughput over repeats.
    fn all() -> Vec<Self> {
        let columns = LoadMetric::all().iter().flat_map(|metric| {
            let range = [
                Self::new("output tokens/s, lowest repeat", |level| Some(level.repeat_range()?.0)),
                Self::new("output tokens/s, highest repeat", |level| Some(level.repeat_range()?.1)),
            ];
            let repeats = metric.name == "output_throughput";
            std::iter::once(Self::metric(metric)).chain(range.into_iter().filter(move |_| repeats))
        });
        columns.collect()
    }

    /// Whether these entries say nothing.
    fn is_empty(&self, entries: &[Entry]) -> bool {
        let rare = self.heading == "cut off";
        entries
            .iter()
            .all(|entry| *entry == Entry::None || rare && *entry == Entry::Number(0.0))
    }
}

/// A row for each level of each sweep, with every metric that was measured.
pub(super) fn sweeps_table(sweeps: &[&Sweep]) -> Sheet {
    level_table(sweeps, Column::all())
}

/// A row for each level of each sweep, without empty columns; the sweep's name comes first if there are several.
pub(super) fn level_table(sweeps: &[&Sweep], columns: Vec<Column>) -> Sheet {
    let several = sweeps.len() > 1;
    let mut headings: Vec<String> = several.then(String::new).into_iter().collect();
    headings.push(sweeps.first().map_or("", |sweep| sweep.axis.name()).to_owned());
    let mut rows: Vec<Vec<Entry>> = Vec::new();
    for sweep in sweeps {
        let name = several.then(|| sweep.name.as_str().into());
        rows.extend(
            sweep
                .levels
                .iter()
                .map(|level| name.iter().cloned().chain([level.at.into()]).collect()),
        );
    }
    for column in columns {
        let levels = sweeps.iter().flat_map(|sweep| &sweep.levels);
        let entries: Vec<Entry> = levels.map(|level| (column.entry)(level)).collect();
        if !column.is_empty(&entries) {
            headings.push(column.heading);
            rows.iter_mut().zip(entries).for_each(|(row, entry)| row.push(entry));
        }
    }
    Sheet::new(headings, rows)
}

/// The metrics of a single load in two columns.
pub(super) fn load_table(sweep: &Sweep) -> Sheet {
    let Sheet { columns, rows, .. } = sweeps_table(&[sweep]);
    let values = rows.into_iter().next().unwrap_or_default();
    let rows = columns.into_iter().zip(values).skip(1);
    Sheet::new(["metric", "value"], rows.map(|(name, value)| vec![name.into(), value]))
}

/// Tooltips at the points that `at` gives; levels without a point have none.
pub(super) fn tooltips(sweeps: &[&Sweep], at: impl Fn(&SweepLevel) -> Option<(f64, f64)>) -> Tooltips {
    let sheet = level_table(sweeps, Column::named(&TOOLTIP));
    let levels = sweeps.iter().flat_map(|sweep| &sweep.levels);
    let spots = levels
        .zip(sheet.rows)
        .filter_map(|(level, entries)| Some(TooltipPoint::new(at(level)?, entries)));
    Tooltips::new(sheet.columns, spots)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::sweep::tests::sweep;
    use super::*;
    use crate::load::LoadAnswer;
    use crate::load::engine_side::{Knee, onset};

    #[test]
    fn marks_at_one_level_are_merged() {
        let mut sweep = sweep(&[]);
        assert!(finding_marks(&sweep, true).is_empty());
        sweep.findings.knee = Some(Knee {
            x: 16.0,
            y: 1.0,
            low: 8.0,
            high: 16.0,
            distance: 0.5,
        });
        sweep.findings.preemption = onset(&[(8.0, false), (16.0, true)]);
        let label = "saturation point (8 to 16), preemption from 16";
        assert_eq!(
            finding_marks(&sweep, true),
            [
                Layer::vertical_rule("", 8.0, Colour::Recommended).dashed(true),
                Layer::vertical_rule(label, 16.0, Colour::Limit).dashed(true),
            ]
        );
    }

    #[test]
    fn doubling_levels_have_a_logarithmic_axis() {
        assert_eq!(scale([1.0, 2.0, 8.0].into_iter(), LOG_LEVEL_RATIO), Scale::Log);
        assert_eq!(scale([0.0, 8.0].into_iter(), LOG_LEVEL_RATIO), Scale::Linear);
        assert_eq!(scale([4.0, 8.0].into_iter(), LOG_LEVEL_RATIO), Scale::Linear);
    }

    /// Two levels, of which the second was measured twice.
    fn repeated(name: &str) -> Sweep {
        let load = |tokens: f64| json!({ "issued": 20, "output_throughput": tokens });
        let mut sweep = sweep(&[(1.0, load(10.0)), (8.0, load(70.0))]);
        sweep.levels[1].loads.push(LoadAnswer::read(&load(90.0)));
        sweep.name = name.to_owned();
        sweep
    }

    #[test]
    fn table_has_filled_columns_summed_counts_and_marks_thin_percentiles() {
        let mut sweep = repeated("a");
        let ttft = &mut sweep.levels[0].loads[0].stats.latencies.ttft_ms;
        (ttft.p95, ttft.thin.p95) = (Some(410.4), true);
        let sheet = sweeps_table(&[&sweep]);
        let cell = |row: usize, name: &str| {
            sheet.rows[row][sheet.columns.iter().position(|column| column == name).unwrap()].clone()
        };
        assert_eq!(sheet.columns[..2], ["concurrency", "requests"]);
        let empty = |name: &String| name.contains("TPOT") || name == "cut off";
        assert!(!sheet.columns.iter().any(empty), "{:?}", sheet.columns);
        let names = [
            "requests",
            "output tokens/s",
            "output tokens/s, highest repeat",
            "p95 TTFT, ms",
        ];
        assert_eq!(
            names.map(|name| cell(0, name)),
            [20.0.into(), 10.0.into(), Entry::None, "~410".into()]
        );
        assert_eq!(
            names.map(|name| cell(1, name)),
            [40.0.into(), 80.0.into(), 90.0.into(), Entry::None]
        );
        let one = load_table(&sweep);
        assert_eq!(one.columns, ["metric", "value"]);
        assert_eq!(one.rows[0], ["requests".into(), 20.0.into()]);
    }

    #[test]
    fn several_sweeps_have_names_and_tooltips() {
        assert_eq!(
            Column::named(&TOOLTIP).len(),
            TOOLTIP.len(),
            "every name is that of a metric"
        );
        let sweeps = [repeated("a"), repeated("b")];
        let tooltips = tooltips(&[&sweeps[0], &sweeps[1]], |level| Some((level.at, level.throughput()?)));
        assert_eq!((tooltips.spots.len(), tooltips.columns[1].as_str()), (4, "concurrency"));
        let last = &tooltips.spots[3];
        assert_eq!((last.at, &last.entries[0]), ((8.0, 80.0), &Entry::from("b")));
    }
}
