//! A user's boundary agrees with known truths: nothing false is proven, volumes add up, and the search ends.

use profiler::boundary::{Answer, Boundary, Class, Options, Point, Scalar, Verdict};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A monotone truth: a point fits unless it lies at or above one of the walls, or its weighted sum exceeds a limit.
#[derive(Clone, Debug)]
struct Truth {
    axes: usize,
    side: i64,
    walls: Vec<Vec<i64>>,
    weights: Vec<i64>,
    limit: i64,
}

impl Truth {
    fn fits(&self, cell: &[i64]) -> bool {
        let over = |wall: &Vec<i64>| wall.iter().zip(cell).all(|(wall, at)| wall <= at);
        let sum: i64 = self.weights.iter().zip(cell).map(|(weight, at)| weight * at).sum();
        !self.walls.iter().any(over) && sum <= self.limit
    }

    fn verdict(&self, cell: &[i64]) -> Answer {
        Answer::from(if self.fits(cell) { Verdict::Ok } else { Verdict::Oom })
    }

    fn map(&self) -> Boundary {
        let axes: serde_json::Map<String, Value> = (0..self.axes)
            .map(|axis| (NAMES[axis].to_owned(), json!([0, self.side - 1])))
            .collect();
        Boundary::new(&Value::Object(axes), Options::default()).unwrap()
    }

    fn cells(&self) -> Vec<Vec<i64>> {
        (0..self.axes).fold(vec![Vec::new()], |cells, _| {
            let grown = |cell: Vec<i64>| (0..self.side).map(move |at| [cell.as_slice(), &[at]].concat());
            cells.into_iter().flat_map(grown).collect()
        })
    }
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn point(cell: &[i64]) -> Point {
    NAMES
        .iter()
        .zip(cell)
        .fold(Point::default(), |point, (axis, at)| point.with(axis, *at))
}

fn cell(point: &Point) -> Vec<i64> {
    point
        .0
        .values()
        .map(|value| match value {
            Scalar::Int(value) => *value,
            Scalar::Float(value) => panic!("{value} on an axis of integers"),
        })
        .collect()
}

fn truths() -> impl Strategy<Value = Truth> {
    (1usize..=4).prop_flat_map(|axes| {
        let side = [40, 14, 7, 5][axes - 1];
        (
            prop::collection::vec(prop::collection::vec(0..side, axes), 0..4),
            prop::collection::vec(0i64..4, axes),
            0..side * 6,
        )
            .prop_map(move |(walls, weights, limit)| Truth {
                axes,
                side,
                walls,
                weights,
                limit,
            })
    })
}

fn asked() -> impl Strategy<Value = (Truth, Vec<Vec<i64>>)> {
    truths().prop_flat_map(|truth| {
        let cells = prop::collection::vec(prop::collection::vec(0..truth.side, truth.axes), 0..30);
        (Just(truth), cells)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_what_follows_is_proven((truth, asked) in asked()) {
        let mut map = truth.map();
        for cell in &asked {
            map.record(&point(cell), &truth.verdict(cell)).unwrap();
        }
        prop_assert!(map.conflicts().is_empty());
        let (mut fits, mut fails) = (0, 0);
        for cell in truth.cells() {
            let below = |a: &[i64], b: &[i64]| a.iter().zip(b).all(|(a, b)| a <= b);
            match map.classify(&point(&cell)).unwrap() {
                Class::Fits => {
                    fits += 1;
                    prop_assert!(truth.fits(&cell));
                }
                Class::Fails => {
                    fails += 1;
                    prop_assert!(!truth.fits(&cell));
                }
                Class::NotSent | Class::Unknown => {
                    let follows = |known: &Vec<i64>| {
                        if truth.fits(known) { below(&cell, known) } else { below(known, &cell) }
                    };
                    prop_assert!(!asked.iter().any(follows));
                }
            }
        }
        let volume = map.volume().unwrap();
        prop_assert_eq!((volume.fits, volume.fails), (fits, fails));
        prop_assert_eq!(volume.fits + volume.fails + volume.open, volume.total);
        let frontier: Vec<Vec<i64>> = map.frontier().unwrap().iter().map(self::cell).collect();
        for (index, one) in frontier.iter().enumerate() {
            prop_assert!(asked.contains(one) && truth.fits(one));
            for other in &frontier[index + 1..] {
                prop_assert!(!one.iter().zip(other).all(|(a, b)| a <= b) && !other.iter().zip(one).all(|(a, b)| a <= b));
            }
        }
    }

    #[test]
    fn the_search_ends_with_the_coverage_it_says(truth in truths(), count in 1usize..4, coverage in 0.5..=1.0) {
        let mut map = truth.map();
        let mut asked = std::collections::HashSet::new();
        loop {
            let points = map.refine(count, coverage).unwrap();
            prop_assert!(points.len() <= count);
            prop_assert_eq!(points.is_empty(), map.done(coverage).unwrap());
            if points.is_empty() {
                break;
            }
            for point in points {
                prop_assert_eq!(map.classify(&point).unwrap(), Class::Unknown, "settled by another of the same batch");
                let cell = cell(&point);
                prop_assert!(cell.iter().all(|at| (0..truth.side).contains(at)));
                prop_assert!(asked.insert(cell.clone()), "asked twice");
                map.record(&point, &truth.verdict(&cell)).unwrap();
            }
        }
        if coverage == 1.0 {
            prop_assert_eq!(map.volume().unwrap().open, 0);
        }
    }

    #[test]
    fn the_order_of_recording_does_not_matter((truth, asked) in asked(), lies in prop::collection::vec(any::<bool>(), 30)) {
        // Some answers are false, so contradictions are resolved in every order too.
        let answers: Vec<_> = asked.iter().zip(&lies).map(|(cell, lie)| {
            let fits = truth.fits(cell) != (*lie && cell[0] % 3 == 0);
            (point(cell), Answer::from(if fits { Verdict::Ok } else { Verdict::Oom }))
        }).collect();
        let (mut forwards, mut backwards) = (truth.map(), truth.map());
        for (point, answer) in &answers {
            forwards.record(point, answer).unwrap();
        }
        for (point, answer) in answers.iter().rev() {
            backwards.record(point, answer).unwrap();
        }
        prop_assert_eq!(forwards.frontier().unwrap(), backwards.frontier().unwrap());
        prop_assert_eq!(forwards.conflicts(), backwards.conflicts());
        prop_assert_eq!(forwards.volume().unwrap(), backwards.volume().unwrap());
        // The number of most recent failures makes the search careful, and then makes it bisect. That changes its next
        // probe, and nothing that it proves. The first answer and those at the smallest point do not count.
        let smallest = point(&vec![0; truth.axes]);
        let manner = |recorded: &[&(Point, Answer)]| {
            let others = recorded.iter().skip(1).rev().filter(|(point, _)| *point != smallest);
            let failures = others.take_while(|(_, answer)| answer.verdict != Verdict::Ok).count();
            (failures >= 4, failures >= 10 && failures % 2 == 0)
        };
        let mut recorded: Vec<_> = answers.iter().collect();
        let before = manner(&recorded);
        recorded.reverse();
        if before == manner(&recorded) {
            prop_assert_eq!(forwards.refine(3, 0.95).unwrap(), backwards.refine(3, 0.95).unwrap());
        }
    }

    #[test]
    fn contradictions_are_found((truth, asked) in asked(), lie in any::<prop::sample::Index>()) {
        prop_assume!(!asked.is_empty());
        let lie = lie.index(asked.len());
        let mut map = truth.map();
        let mut answers = Vec::new();
        for (index, cell) in asked.iter().enumerate() {
            let fits = truth.fits(cell) != (index == lie);
            answers.push((cell, fits));
            map.record(&point(cell), &Answer::from(if fits { Verdict::Ok } else { Verdict::Oom })).unwrap();
        }
        let below = |a: &[i64], b: &[i64]| a.iter().zip(b).all(|(a, b)| a <= b);
        let contradiction = answers.iter().any(|(harder, fits)| {
            *fits && answers.iter().any(|(easier, fits)| !*fits && below(easier, harder))
        });
        prop_assert_eq!(!map.conflicts().is_empty(), contradiction);
        for (fits, fails) in map.conflicts() {
            prop_assert!(below(&cell(&fails), &cell(&fits)));
            prop_assert_eq!(map.classify(&fits).unwrap(), Class::Fails, "a contradicted point was called safe");
        }
    }
}

#[test]
fn a_boundary_holds_a_million_points() {
    let mut map = Boundary::new(&json!({ "a": [1, 10_000_000] }), Options::default()).unwrap();
    let mut record = |at| map.record(&point(&[at]), &Answer::from(Verdict::Ok));
    for at in 1..=1_000_000 {
        record(at).unwrap();
    }
    let error = record(1_000_001).unwrap_err();
    assert_eq!(error.message, "a boundary holds at most 1,000,000 points");
}
