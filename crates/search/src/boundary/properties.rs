//! Properties of a search as a whole, for any rule that proposes points. Uses only the public API.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Answer, Boundary, Class, Options, Point, Scalar, Verdict};

/// Probes for two axes, whatever the limit.
const MOST_PROBES: usize = 250;

/// Axes of every kind, the first `count` of them; small, so that every point can be checked.
fn axes(count: usize) -> Value {
    let axes = [
        ("a", json!([1, 8])),
        ("b", json!({ "range": [2, 6], "easier": "up" })),
        ("c", json!({ "range": [1, 4], "scale": "log" })),
        ("d", json!({ "range": [0.0, 1.0], "tolerance": 0.5, "easier": "up" })),
    ];
    axes.into_iter()
        .take(count)
        .map(|(name, axis)| (name.to_owned(), axis))
        .collect()
}

/// The distance of each coordinate from its easiest value, 0 to 1.
fn hardness(point: &Point) -> Vec<f64> {
    let ranges = [("a", 1.0, 8.0), ("b", 6.0, 2.0), ("c", 1.0, 4.0), ("d", 1.0, 0.0)];
    let of = |(name, easiest, hardest): &(&str, f64, f64)| {
        point
            .0
            .get(*name)
            .map(|value| (value.as_f64() - easiest) / (hardest - easiest))
    };
    ranges.iter().filter_map(of).collect()
}

/// Every point of the search range.
fn all(count: usize) -> Vec<Point> {
    let values: [(&str, Vec<Scalar>); 4] = [
        ("a", (1..=8).map(Scalar::Int).collect()),
        ("b", (2..=6).map(Scalar::Int).collect()),
        ("c", (1..=4).map(Scalar::Int).collect()),
        ("d", (0..=2).map(|step| Scalar::Float(f64::from(step) / 2.0)).collect()),
    ];
    values
        .iter()
        .take(count)
        .fold(vec![Point::default()], |points, (name, values)| {
            let with = |point: &Point, value: &Scalar| {
                let mut point = point.clone();
                point.0.insert((*name).to_owned(), *value);
                point
            };
            points
                .iter()
                .flat_map(|point| values.iter().map(move |value| with(point, value)))
                .collect()
        })
}

/// The region below some corners: every monotone limit is one.
#[derive(Clone, Debug)]
struct Region(Vec<Vec<f64>>);

impl Region {
    fn fits(&self, point: &Point) -> bool {
        let at = hardness(point);
        self.0
            .iter()
            .any(|corner| at.iter().zip(corner).all(|(at, corner)| at <= corner))
    }
}

fn region() -> impl Strategy<Value = Region> {
    prop::collection::vec(prop::collection::vec(0.0..1.2f64, 4), 0..6).prop_map(Region)
}

/// Continues a search until nothing is left to probe, and calls `check` after each answer.
fn search(map: &mut Boundary, answer: impl Fn(&Point, usize) -> Verdict, check: impl Fn(&Boundary)) {
    let most = map.lattice().total() as usize + 2;
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for (point, _) in map.records() {
        *times.entry(point.to_string()).or_default() += 1;
    }
    let mut probe = |map: &mut Boundary, point: &Point| {
        let probed = times.entry(point.to_string()).or_default();
        *probed += 1;
        map.record(point, &Answer::from(answer(point, *probed))).unwrap();
        check(map);
    };
    for corner in [map.largest(), map.smallest()] {
        if map.classify(&corner).unwrap() == Class::Unknown && !map.recorded(&corner).unwrap() {
            probe(map, &corner);
        }
    }
    let coverage = map.options().coverage;
    while let Some(point) = map.refine(1, coverage).unwrap().first() {
        probe(map, point);
        assert!(map.records().len() <= most, "more probes than the range has points");
    }
}

fn empty(count: usize, coverage: f64) -> Boundary {
    Boundary::new(
        &axes(count),
        Options {
            coverage,
            ..Options::default()
        },
    )
    .unwrap()
}

/// A pseudo-random number from a point, the number of the probe, and a seed: 0 to 1.
fn drawn(point: &Point, times: usize, seed: u64) -> f64 {
    let mixed = format!("{point} {times}")
        .bytes()
        .fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f64 / (1u64 << 24) as f64
}

/// Repeats a search, but rebuilds the boundary from the recorded points after `kept` of them.
fn resumed(whole: &Boundary, count: usize, kept: usize, answer: impl Fn(&Point, usize) -> Verdict) -> Boundary {
    let mut map = empty(count, whole.options().coverage);
    for (point, record) in whole.records().take(kept) {
        map.record(&point, &Answer::from(record.verdict)).unwrap();
    }
    search(&mut map, answer, |_| {});
    map
}

/// As many cases as take a minute in a test build; `PROPTEST_CASES` sets another number.
fn cases() -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(16),
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn nothing_false_is_proven_and_the_search_ends(count in 2usize..=4, region in region(), coverage in 0.8..1.0f64, silent in 0.0..0.2f64, seed: u64) {
        // Some points never answer: they say nothing, and must not hold the search up.
        let answer = |point: &Point, _: usize| match (drawn(point, 0, seed) < silent, region.fits(point)) {
            (true, _) => Verdict::Timeout,
            (_, true) => Verdict::Ok,
            (_, false) => Verdict::Oom,
        };
        let mut map = empty(count, coverage);
        search(&mut map, answer, |map| {
            assert!(map.frontier().unwrap().iter().all(|point| region.fits(point)));
            assert!(!map.failing().unwrap().iter().any(|point| region.fits(point)));
        });
        let volume = map.volume().unwrap();
        let (mut fits, mut fails) = (0, 0);
        for point in all(count) {
            match map.classify(&point).unwrap() {
                Class::Fits => { fits += 1; prop_assert!(region.fits(&point), "{point} was called fitting"); }
                Class::Fails => { fails += 1; prop_assert!(!region.fits(&point), "{point} was called failing"); }
                Class::NotSent | Class::Unknown => {}
            }
        }
        prop_assert_eq!((volume.fits, volume.fails), (fits, fails));
        prop_assert!(silent > 0.0 || map.coverage().unwrap() >= coverage);
    }

    #[test]
    fn any_limit_is_found_in_a_bounded_number_of_probes(region in region()) {
        // A range of a million points: probing neighbour after neighbour would not end.
        let axes = json!({ "a": [0, 999], "b": [0, 999] });
        let fits = |point: &Point| {
            let at = ["a", "b"].map(|name| point.0[name].as_f64() / 999.0);
            region.0.iter().any(|corner| at.iter().zip(corner).all(|(at, corner)| at <= corner))
        };
        let mut map = Boundary::new(&axes, Options::default()).unwrap();
        let answer = |point: &Point, _: usize| if fits(point) { Verdict::Ok } else { Verdict::Oom };
        search(&mut map, answer, |map| assert!(map.records().len() <= MOST_PROBES, "{region:?}"));
    }

    #[test]
    fn an_axis_of_one_value_changes_nothing_of_what_is_asked(region in region(), name in prop::sample::select(vec!["A", "aa", "z"]), axes in 1usize..=3) {
        let all = json!({ "a": [0, 999], "b": [0, 499], "c": [0, 99] });
        let mut plain: serde_json::Map<String, Value> = all.as_object().unwrap().clone().into_iter().take(axes).collect();
        let last: Vec<(String, f64)> = plain.iter().map(|(name, range)| (name.clone(), range[1].as_f64().unwrap())).collect();
        let fits = |point: &Point| {
            let at = last.iter().map(|(name, last)| point.0[name].as_f64() / last);
            let at: Vec<f64> = at.collect();
            region.0.iter().any(|corner| at.iter().zip(corner).all(|(at, corner)| at <= corner))
        };
        let probed = |axes: Value| {
            let mut map = Boundary::new(&axes, Options::default()).unwrap();
            let mut expected = Vec::new();
            for _ in 0..24 {
                let Some(point) = map.refine(1, 0.95).unwrap().pop() else { break };
                expected.push(map.expected(map.records().len() as u64, 0.95).unwrap());
                let verdict = if fits(&point) { Verdict::Ok } else { Verdict::Oom };
                map.record(&point, &Answer::from(verdict)).unwrap();
            }
            let strip = |(mut point, record): (Point, &super::Record)| {
                point.0.remove(name);
                (point, record.verdict)
            };
            (map.records().map(strip).collect::<Vec<_>>(), expected, map.predicted().unwrap().len())
        };
        let without = probed(Value::Object(plain.clone()));
        plain.insert(name.to_owned(), json!([256, 256]));
        prop_assert_eq!(probed(Value::Object(plain)), without);
    }

    #[test]
    fn a_search_taken_up_anywhere_ends_with_the_same_frontier(count in 2usize..=4, region in region(), coverage in 0.8..1.0f64, seed: u64, places in prop::collection::vec(0.0..1.0f64, 2)) {
        // One answer in twenty is wrong, wherever it is: a resume must not depend on answers being right.
        let answer = |point: &Point, times: usize| {
            if region.fits(point) == (drawn(point, times, seed) >= 0.05) { Verdict::Ok } else { Verdict::Oom }
        };
        let mut whole = empty(count, coverage);
        search(&mut whole, answer, |_| {});
        for place in places {
            let kept = (place * whole.records().len() as f64) as usize;
            let again = resumed(&whole, count, kept, answer);
            prop_assert_eq!(again.records().len(), whole.records().len(), "from {}", kept);
            prop_assert_eq!(again.frontier().unwrap(), whole.frontier().unwrap(), "from {}", kept);
        }
    }

    #[test]
    fn wrong_answers_near_the_boundary_stay_near_it(
        count in 2usize..=4, weights in prop::collection::vec(0.1..1.0f64, 4), limit in 0.2..1.5f64, coverage in 0.8..1.0f64, seed: u64,
    ) {
        // One tolerance: a step of the finest axis.
        let value = |point: &Point| hardness(point).iter().zip(&weights).map(|(at, weight)| at * weight).sum::<f64>() - limit;
        let tolerance = 1.0 / 7.0;
        let answer = |point: &Point, times: usize| {
            let wrong = value(point).abs() <= tolerance && drawn(point, times, seed) < 0.05;
            if (value(point) <= 0.0) == wrong { Verdict::Oom } else { Verdict::Ok }
        };
        let mut map = empty(count, coverage);
        search(&mut map, answer, |_| {});
        for point in all(count) {
            match map.classify(&point).unwrap() {
                Class::Fits => prop_assert!(value(&point) <= tolerance, "{point} was called fitting"),
                Class::Fails => prop_assert!(value(&point) > -tolerance - 1e-9, "{point} was called failing"),
                Class::NotSent | Class::Unknown => {}
            }
        }
        // Where answers contradict each other, nothing is called safe.
        for (_, fails) in map.conflicts() {
            prop_assert!(map.classify(&fails).unwrap() != Class::Fits);
        }
    }
}
