//! The figures of a level, as columns of a table and as what is told of its place in a picture.

use super::load::Load;
use super::sweep::{Point, Sweep};
use crate::report::plot::{Entry, Sheet, Spot, Spots};

/// How the loads of a level make one figure.
enum How {
    /// Their mean.
    Mean(fn(&Load) -> Option<f64>),
    /// Their sum.
    Sum(fn(&Load) -> Option<u64>),
    /// The range of output throughput over them: its lower or its upper end.
    Apart(fn((f64, f64)) -> f64),
}

/// The figures, in the order in which they are read.
const FIGURES: [(&str, How); 28] = [
    ("requests", How::Sum(|load| Some(load.issued))),
    ("failed", How::Sum(|load| Some(load.failed))),
    (
        "cut off",
        How::Sum(|load| Some(load.cut_off).filter(|count| *count > 0)),
    ),
    ("seconds", How::Mean(|load| load.duration)),
    ("requests/s", How::Mean(|load| load.request_throughput)),
    ("output tokens/s", How::Mean(|load| load.output_throughput)),
    ("at least", How::Apart(|range| range.0)),
    ("at most", How::Apart(|range| range.1)),
    ("all tokens/s", How::Mean(|load| load.total_throughput)),
    ("p50 TTFT, ms", How::Mean(|load| load.ttft.p50)),
    ("p90 TTFT, ms", How::Mean(|load| load.ttft.p90)),
    ("p99 TTFT, ms", How::Mean(|load| load.ttft.p99)),
    ("p50 TPOT, ms", How::Mean(|load| load.tpot.p50)),
    ("p99 TPOT, ms", How::Mean(|load| load.tpot.p99)),
    ("p50 ITL, ms", How::Mean(|load| load.itl.p50)),
    ("p99 ITL, ms", How::Mean(|load| load.itl.p99)),
    ("p50 E2EL, ms", How::Mean(|load| load.e2el.p50)),
    ("p90 E2EL, ms", How::Mean(|load| load.e2el.p90)),
    ("p99 E2EL, ms", How::Mean(|load| load.e2el.p99)),
    (
        "KV cache used, %, at most",
        How::Mean(|load| Some(100.0 * load.kv_usage?.max)),
    ),
    ("waiting, mean", How::Mean(|load| Some(load.waiting?.mean))),
    ("preemptions", How::Sum(|load| load.preemptions)),
    ("good, %", How::Mean(|load| Some(100.0 * load.goodput.as_ref()?.share?))),
    (
        "memory at most, GiB",
        How::Mean(|load| Some(gib(load.memory.as_ref()?.peak?))),
    ),
    ("power, W", How::Mean(|load| Some(load.power.as_ref()?.mean))),
    ("1M output tokens cost", How::Mean(|load| load.cost.per_million_output)),
    ("1M tokens cost", How::Mean(|load| load.cost.per_million_total)),
    ("1M tokens, Wh", How::Mean(|load| load.cost.wh_per_million_total)),
];

fn gib(bytes: u64) -> f64 {
    bytes as f64 / 1_073_741_824.0
}

impl How {
    fn of(&self, level: &Point) -> Option<f64> {
        match self {
            Self::Mean(figure) => level.mean(figure),
            Self::Sum(count) => level.sum(count),
            Self::Apart(end) => level.apart().map(end),
        }
    }
}

/// The sweep as a table, a row for each level; columns that no level fills are left out.
pub(super) fn sheet(sweep: &Sweep) -> Sheet {
    together(&[sweep])
}

/// Several sweeps as one table: each level of each, the sweep's name first where there are several.
pub(in crate::report::story) fn together(sweeps: &[&Sweep]) -> Sheet {
    let levels = || {
        sweeps
            .iter()
            .flat_map(|sweep| sweep.levels.iter().map(move |level| (*sweep, level)))
    };
    let filled: Vec<&(&str, How)> = FIGURES
        .iter()
        .filter(|(_, how)| levels().any(|(_, level)| how.of(level).is_some()))
        .collect();
    let several = sweeps.len() > 1;
    let word = sweeps.first().map_or("", |sweep| sweep.along.word());
    let head = several.then(String::new).into_iter().chain([word.to_owned()]);
    let columns = head.chain(filled.iter().map(|(name, _)| (*name).to_owned()));
    let rows = levels().map(|(sweep, level)| {
        let head = several
            .then(|| sweep.name.as_str().into())
            .into_iter()
            .chain([level.at.into()]);
        head.chain(filled.iter().map(|(_, how)| how.of(level).into())).collect()
    });
    Sheet {
        title: String::new(),
        columns: columns.collect(),
        rows: rows.collect(),
    }
}

/// What is told of each level, at the place that `at` gives it; a level without a place is not told of.
pub(in crate::report::story) fn spots(sweeps: &[&Sweep], at: impl Fn(&Point) -> Option<(f64, f64)>) -> Spots {
    let sheet = together(sweeps);
    let levels = sweeps.iter().flat_map(|sweep| &sweep.levels);
    let spots = levels.zip(sheet.rows).filter_map(|(level, entries)| {
        Some(Spot {
            at: at(level)?,
            entries,
        })
    });
    Spots {
        spots: spots.collect(),
        columns: sheet.columns,
    }
}

/// The single figures of a load, in a table of two columns: of one that has no others beside it.
pub(super) fn alone(level: &Point) -> Sheet {
    let rows = FIGURES
        .iter()
        .filter_map(|(name, how)| Some(vec![Entry::from(*name), how.of(level)?.into()]));
    Sheet {
        title: String::new(),
        columns: vec!["figure".to_owned(), "value".to_owned()],
        rows: rows.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sweep::Along;
    use super::*;

    fn sweep(name: &str) -> Sweep {
        let load = |tokens| Load {
            issued: 20,
            output_throughput: Some(tokens),
            ..Load::default()
        };
        let levels = vec![
            Point {
                at: 1.0,
                loads: vec![load(10.0)],
            },
            Point {
                at: 8.0,
                loads: vec![load(70.0), load(90.0)],
            },
        ];
        Sweep {
            name: name.into(),
            along: Along::Concurrency,
            common: serde_json::Map::new(),
            levels,
        }
    }

    #[test]
    fn a_table_has_what_any_level_has_and_counts_add_up() {
        let sheet = sheet(&sweep("a"));
        assert_eq!(
            sheet.columns,
            [
                "concurrency",
                "requests",
                "failed",
                "output tokens/s",
                "at least",
                "at most"
            ]
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
    fn several_sweeps_are_named_and_places_told() {
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
