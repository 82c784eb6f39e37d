//! Axes, marks, tables and tooltips shared by the charts of a sweep.

use crate::compare::LoadMetric;
use crate::load::engine_side::SweepFindings;
use crate::report::plot::{Axis, Colour, Entry, Layer, Panel, Scale, Sheet, TooltipPoint, Tooltips};
use crate::report::sections::format::number;
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

/// Vertical lines at the saturation point with its bracket and at the onset of preemption and queueing; `named` adds their labels.
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
                format!("saturation point ({} to {})", number(knee.low), number(knee.high)),
                Colour::Recommended,
            );
            bracket.extend([knee.low, knee.high].into_iter().filter(|end| *end != knee.x));
        } else {
            mark(knee.x, "saturation point".to_owned(), Colour::Recommended);
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
enum Column {
    Metric(&'static LoadMetric),
    /// One end of the range of output throughput over repeats.
    RepeatRange(&'static str, fn((f64, f64)) -> f64),
}

impl Column {
    /// All of them, in order.
    fn all() -> impl Iterator<Item = Self> {
        LoadMetric::all().iter().flat_map(|metric| {
            let repeats = metric.name == "output_throughput";
            let range = [
                Self::RepeatRange("output tokens/s, lowest repeat", |range| range.0),
                Self::RepeatRange("output tokens/s, highest repeat", |range| range.1),
            ];
            let range = range.into_iter().filter(move |_| repeats);
            std::iter::once(Self::Metric(metric)).chain(range)
        })
    }

    fn name(&self) -> &str {
        match self {
            Self::Metric(metric) => &metric.heading,
            Self::RepeatRange(name, _) => name,
        }
    }

    fn value(&self, level: &SweepLevel) -> Option<f64> {
        match self {
            Self::Metric(metric) => Some(metric.combined(&level.loads)? * metric.scale()),
            Self::RepeatRange(_, end) => level.repeat_range().map(end),
        }
    }

    /// The value, marked if it is thin.
    fn entry(&self, level: &SweepLevel) -> Entry {
        let value = self.value(level);
        match self {
            Self::Metric(metric) if level.loads.iter().any(|load| metric.thin(load)) => {
                value.map(|value| format!("~{}", number(value))).into()
            }
            _ => value.into(),
        }
    }

    /// Whether it says anything of these levels.
    fn is_filled<'a>(&self, mut levels: impl Iterator<Item = &'a SweepLevel>) -> bool {
        let rare = matches!(self, Self::Metric(metric) if metric.name == "cut_off");
        levels.any(|level| self.value(level).is_some_and(|value| !rare || value > 0.0))
    }
}

/// A row for each level, without empty columns.
pub(super) fn sheet(sweep: &Sweep) -> Sheet {
    sweeps_table(&[sweep])
}

/// A row for each level of each sweep; the sweep's name comes first if there are several.
pub(super) fn sweeps_table(sweeps: &[&Sweep]) -> Sheet {
    table_of(sweeps, |_| true)
}

fn table_of(sweeps: &[&Sweep], wanted: fn(&Column) -> bool) -> Sheet {
    let levels = || {
        sweeps
            .iter()
            .flat_map(|sweep| sweep.levels.iter().map(move |level| (*sweep, level)))
    };
    let filled: Vec<Column> = Column::all()
        .filter(|column| wanted(column) && column.is_filled(levels().map(|(_, level)| level)))
        .collect();
    let several = sweeps.len() > 1;
    let word = sweeps.first().map_or("", |sweep| sweep.axis.name());
    let head = several.then(String::new).into_iter().chain([word.to_owned()]);
    let columns = head.chain(filled.iter().map(|column| column.name().to_owned()));
    let rows = levels().map(|(sweep, level)| {
        let head = several
            .then(|| sweep.name.as_str().into())
            .into_iter()
            .chain([level.at.into()]);
        head.chain(filled.iter().map(|column| column.entry(level))).collect()
    });
    Sheet::new(columns, rows)
}

/// Tooltips at the points that `at` gives; levels without a point have none.
pub(super) fn spots(sweeps: &[&Sweep], at: impl Fn(&SweepLevel) -> Option<(f64, f64)>) -> Tooltips {
    let brief = |column: &Column| matches!(column, Column::Metric(metric) if TOOLTIP.contains(&metric.name.as_str()));
    let sheet = table_of(sweeps, brief);
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
    let rows = Column::all()
        .filter(|column| column.is_filled(std::iter::once(level)))
        .map(|column| vec![Entry::from(column.name()), column.entry(level)]);
    Sheet::new(["metric", "value"], rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::sweep::SweepAxis;
    use super::*;
    use crate::load::LoadAnswer;
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
                (
                    "saturation point (8 to 16), preemption from 16".to_owned(),
                    16.0,
                    Colour::Limit
                )
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
        let cell = |row: usize, name: &str| {
            sheet.rows[row][sheet.columns.iter().position(|column| column == name).unwrap()].clone()
        };
        assert_eq!(sheet.columns[..2], ["concurrency", "requests"]);
        assert!(
            !sheet
                .columns
                .iter()
                .any(|name| name.contains("TPOT") || name == "cut off"),
            "{:?}",
            sheet.columns
        );
        assert_eq!(
            (cell(0, "output tokens/s"), cell(0, "output tokens/s, lowest repeat")),
            (Entry::Number(10.0), Entry::None)
        );
        let of_both = ["requests", "output tokens/s", "output tokens/s, highest repeat"].map(|name| cell(1, name));
        assert_eq!(of_both, [40.0, 80.0, 90.0].map(Entry::Number));
    }

    #[test]
    fn thin_percentiles_are_marked() {
        let mut sweep = sweep("a");
        let ttft = &mut sweep.levels[0].loads[0].stats.latencies.ttft_ms;
        (ttft.p95, ttft.thin.p95) = (Some(410.4), true);
        let sheet = sheet(&sweep);
        let at = sheet
            .columns
            .iter()
            .position(|column| column == "p95 TTFT, ms")
            .unwrap();
        assert_eq!(
            (&sheet.rows[0][at], &sheet.rows[1][at]),
            (&Entry::from("~410"), &Entry::None)
        );
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
