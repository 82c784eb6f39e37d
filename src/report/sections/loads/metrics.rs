//! The metrics of a level, as table columns and tooltips.

use super::load::LoadResult;
use super::sweep::{Sweep, SweepLevel};
use crate::report::plot::{Entry, Sheet, TooltipPoint, Tooltips};

/// How the loads of a level are combined into one value.
enum Aggregate {
    Mean(fn(&LoadResult) -> Option<f64>),
    Sum(fn(&LoadResult) -> Option<u64>),
    /// One end of the range of output throughput.
    RepeatRange(fn((f64, f64)) -> f64),
}

/// The columns in their order.
const METRICS: [(&str, Aggregate); 28] = [
    ("requests", Aggregate::Sum(|load| Some(load.issued))),
    ("failed", Aggregate::Sum(|load| Some(load.failed))),
    (
        "cut off",
        Aggregate::Sum(|load| Some(load.cut_off).filter(|count| *count > 0)),
    ),
    ("seconds", Aggregate::Mean(|load| load.duration)),
    ("requests/s", Aggregate::Mean(|load| load.request_throughput)),
    ("output tokens/s", Aggregate::Mean(|load| load.output_throughput)),
    ("min", Aggregate::RepeatRange(|range| range.0)),
    ("max", Aggregate::RepeatRange(|range| range.1)),
    ("all tokens/s", Aggregate::Mean(|load| load.total_throughput)),
    ("p50 TTFT, ms", Aggregate::Mean(|load| load.ttft.p50)),
    ("p90 TTFT, ms", Aggregate::Mean(|load| load.ttft.p90)),
    ("p99 TTFT, ms", Aggregate::Mean(|load| load.ttft.p99)),
    ("p50 TPOT, ms", Aggregate::Mean(|load| load.tpot.p50)),
    ("p99 TPOT, ms", Aggregate::Mean(|load| load.tpot.p99)),
    ("p50 ITL, ms", Aggregate::Mean(|load| load.itl.p50)),
    ("p99 ITL, ms", Aggregate::Mean(|load| load.itl.p99)),
    ("p50 E2EL, ms", Aggregate::Mean(|load| load.e2el.p50)),
    ("p90 E2EL, ms", Aggregate::Mean(|load| load.e2el.p90)),
    ("p99 E2EL, ms", Aggregate::Mean(|load| load.e2el.p99)),
    (
        "KV cache used, %, max",
        Aggregate::Mean(|load| Some(100.0 * load.kv_usage?.max)),
    ),
    ("waiting, mean", Aggregate::Mean(|load| Some(load.waiting?.mean))),
    ("preemptions", Aggregate::Sum(|load| load.preemptions)),
    (
        "goodput, %",
        Aggregate::Mean(|load| Some(100.0 * load.goodput.as_ref()?.share?)),
    ),
    (
        "peak memory, GiB",
        Aggregate::Mean(|load| Some(gib(load.memory.as_ref()?.peak?))),
    ),
    ("power, W", Aggregate::Mean(|load| Some(load.power.as_ref()?.mean))),
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

fn gib(bytes: u64) -> f64 {
    bytes as f64 / 1_073_741_824.0
}

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
pub(in crate::report::sections) fn sweeps_table(sweeps: &[&Sweep]) -> Sheet {
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
    Sheet {
        title: String::new(),
        columns: columns.collect(),
        rows: rows.collect(),
    }
}

/// Tooltips at the points that `at` gives; levels without a point have none.
pub(in crate::report::sections) fn spots(
    sweeps: &[&Sweep],
    at: impl Fn(&SweepLevel) -> Option<(f64, f64)>,
) -> Tooltips {
    let sheet = sweeps_table(sweeps);
    let levels = sweeps.iter().flat_map(|sweep| &sweep.levels);
    let spots = levels.zip(sheet.rows).filter_map(|(level, entries)| {
        Some(TooltipPoint {
            at: at(level)?,
            entries,
        })
    });
    Tooltips {
        spots: spots.collect(),
        columns: sheet.columns,
    }
}

/// The metrics of a single load in two columns.
pub(super) fn load_table(level: &SweepLevel) -> Sheet {
    let rows = METRICS
        .iter()
        .filter_map(|(name, aggregate)| Some(vec![Entry::from(*name), aggregate.value(level)?.into()]));
    Sheet {
        title: String::new(),
        columns: vec!["figure".to_owned(), "value".to_owned()],
        rows: rows.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sweep::SweepAxis;
    use super::*;

    fn sweep(name: &str) -> Sweep {
        let load = |tokens| LoadResult {
            issued: 20,
            output_throughput: Some(tokens),
            ..LoadResult::default()
        };
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
            Some((level.at, level.mean(|load| load.output_throughput)?))
        });
        assert_eq!((spots.spots.len(), spots.columns[1].as_str()), (4, "concurrency"));
        assert_eq!(
            (spots.spots[3].at, &spots.spots[3].entries[0]),
            ((8.0, 80.0), &Entry::from("b"))
        );
    }
}
