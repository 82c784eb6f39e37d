//! A user searches an engine whose answers contradict each other, gets the contradictions as a band, and nothing in the
//! band is called safe.

use profiler::boundary::{Answer, Boundary, Class, Options, Point};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::script::bench::Bench;
use crate::support::Profiler;

/// How often a contradictory point is probed again, and how many points are confirmed: the default of `confirm`.
const CONFIRM: usize = 3;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Fits if `Σ weight × value ≤ limit`, in a box with equal sides. Within `tolerance` of the limit, `wrong` of a thousand
/// answers are wrong.
#[derive(Clone, Debug)]
struct Noisy {
    weights: Vec<i64>,
    side: i64,
    limit: i64,
    tolerance: i64,
    wrong: u32,
    seed: u32,
}

impl Noisy {
    /// Distance of a point beyond the limit; zero or negative if it truly fits.
    fn beyond(&self, point: &Point) -> i64 {
        let values = self
            .weights
            .iter()
            .zip(NAMES)
            .map(|(weight, axis)| weight * point.int(axis).unwrap());
        values.sum::<i64>() - self.limit
    }

    fn axes(&self) -> Value {
        let range = json!([0, self.side - 1]);
        NAMES[..self.weights.len()]
            .iter()
            .map(|name| (*name, range.clone()))
            .collect()
    }

    /// The map after `std/search` has searched it.
    fn searched(&self) -> Boundary {
        let text = format!(
            r#"import "std/search" as search;
            let map = boundary(parse_json(`{axes}`), #{{}});
            let weights = {weights:?};
            let draw = |point, times| {{
                let mixed = {seed};
                for part in point.values() + [times] {{
                    mixed = (mixed * 1103515245 + part * 12345 + 12345) % 2147483648;
                }}
                (mixed / 65536) % 1000
            }};
            search::adaptive(map, |point| {{
                let beyond = -{limit};
                for (value, index) in point.values() {{ beyond += weights[index] * value; }}
                let times = map.points().filter(|row| row.point == point).len();
                let wrong = beyond.abs() <= {tolerance} && draw.call(point, times) < {wrong};
                if (beyond <= 0) != wrong {{ "ok" }} else {{ "oom" }}
            }}, #{{ proof: "coverage" }});
            map.points().map(|row| #{{ point: row.point, verdict: row.verdict }})"#,
            axes = self.axes(),
            weights = self.weights,
            seed = self.seed,
            limit = self.limit,
            tolerance = self.tolerance,
            wrong = self.wrong,
        );
        let mut map = Boundary::new(&self.axes(), Options::default()).unwrap();
        for row in Bench::script(&text).value().as_array().unwrap() {
            let point: Point = serde_json::from_value(row["point"].clone()).unwrap();
            map.record(&point, &Answer::parse(&row["verdict"]).unwrap()).unwrap();
        }
        map
    }

    /// Every point of the box.
    fn points(&self) -> Vec<Point> {
        NAMES[..self.weights.len()]
            .iter()
            .fold(vec![Point::default()], |points, name| {
                let grown = |point: Point| (0..self.side).map(move |at| point.clone().with(name, at));
                points.into_iter().flat_map(grown).collect()
            })
    }
}

/// Checks a map after a noisy search. The band holds the contradictory points. Points called safe lie outside the band,
/// and at most `tolerance` beyond the true limit.
fn check(map: &Boundary, truth: &Noisy) {
    let band = map.band();
    assert_eq!(band.is_none(), map.conflicts().is_empty());
    for point in truth.points() {
        let beyond = truth.beyond(&point);
        match map.classify(&point).unwrap() {
            Class::Fits => {
                assert!(beyond <= truth.tolerance, "{point} is called safe");
                assert!(
                    !map.is_in_band(&point).unwrap(),
                    "{point} is in the band, and called safe"
                );
            }
            Class::Fails => assert!(beyond >= -truth.tolerance, "{point} is called failing"),
            Class::NotSent | Class::Unknown => assert!(
                !map.is_in_band(&point).unwrap(),
                "{point} is contradictory, and called unknown"
            ),
        }
        if map.is_in_band(&point).unwrap() {
            assert!(
                beyond.abs() <= truth.tolerance,
                "{point} is in a band where no answer can be wrong"
            );
        }
    }
    for told in band.into_iter().flat_map(|band| band.answers).take(2 * CONFIRM) {
        assert!(told.fits + told.fails > CONFIRM, "{told:?} was not asked again");
    }
}

fn noisy() -> impl Strategy<Value = Noisy> {
    (2usize..=3, any::<u32>(), 0.3..0.9f64, 1i64..=3).prop_flat_map(|(axes, seed, share, spread)| {
        let side = [20, 7][axes - 2];
        prop::collection::vec(1i64..4, axes).prop_map(move |weights| {
            let all: i64 = weights.iter().map(|weight| weight * (side - 1)).sum();
            Noisy {
                limit: (all as f64 * share) as i64,
                // A few steps of the finest axis.
                tolerance: spread * weights.iter().copied().max().unwrap_or(1),
                weights,
                side,
                wrong: 50,
                seed,
            }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_noisy_search_ends_and_stays_outside_of_its_band(truth in noisy()) {
        check(&truth.searched(), &truth);
    }
}

/// A probe of `input + output <= 6000`. Within `WITHIN` tokens of the limit, `WRONG` of a thousand answers are wrong.
/// The answer depends only on the point and on how often the map has recorded it, so a resumed search gets the same
/// answers.
const NOISY: &str = r#"
    let draw = |point, times| {
        let mixed = SEED;
        for part in [point.input, point.output, times] {
            mixed = (mixed * 1103515245 + part * 12345 + 12345) % 2147483648;
        }
        (mixed / 65536) % 1000
    };
    let asked = |point| map.points().filter(|row| row.point == point).len();
    let noisy = |point| {
        let over = point.input + point.output - 6000;
        let wrong = over.abs() <= WITHIN && draw.call(point, asked.call(point)) < WRONG;
        if (over <= 0) != wrong { "ok" } else { "oom" }
    };
"#;

fn script(seed: u32, wrong: u32, within: i64, rest: &str) -> String {
    format!(
        "import \"std/search\" as search;
        let map = boundary(#{{ input: [128, 8192], output: [128, 4096] }}, #{{}});
        {}
        {rest}",
        NOISY
            .replace("SEED", &seed.to_string())
            .replace("WRONG", &wrong.to_string())
            .replace("WITHIN", &within.to_string())
    )
}

#[test]
fn every_strategy_keeps_what_it_calls_safe_outside_of_the_band() {
    let mut bands = 0;
    for (seed, wrong, within) in [(1, 50, 64), (4, 400, 512), (6, 400, 512)] {
        for (strategy, options) in [
            ("adaptive", "#{}"),
            ("adaptive", "#{ coverage: 0.97 }"),
            ("grid", "#{}"),
            ("bisect", "#{}"),
        ] {
            let result = Bench::script(&script(
                seed,
                wrong,
                within,
                &format!(
                    "let done = search::{strategy}(map, noisy, {options});
                    #{{ done: done, found: report(map), band: map.band() }}"
                ),
            ))
            .value();
            let told = format!("{strategy}, seed {seed}: {result}");
            assert_eq!(result["done"]["band"], result["band"], "{told}");
            let tokens = |point: &Value| point["input"].as_i64().unwrap() + point["output"].as_i64().unwrap();
            for point in result["found"]["frontier"].as_array().unwrap() {
                assert!(tokens(point) <= 6000 + within, "{told}");
            }
            assert!(
                tokens(&result["found"]["recommended"]) <= 6000 + within - 5 * 6000 / 100,
                "{told}"
            );
            if result["band"].is_null() {
                continue;
            }
            bands += 1;
            let at_or_below = |a: &Value, b: &Value| {
                ["input", "output"]
                    .iter()
                    .all(|axis| a[axis].as_i64() <= b[axis].as_i64())
            };
            for low in result["band"]["from"].as_array().unwrap() {
                let fits = result["found"]["frontier"].as_array().unwrap();
                assert!(!fits.iter().any(|fit| at_or_below(low, fit)), "{told}");
                assert!((tokens(low) - 6000).abs() <= within, "{told}");
            }
            for answered in result["band"]["answers"].as_array().unwrap() {
                let times = answered["fits"].as_u64().unwrap() + answered["fails"].as_u64().unwrap();
                assert!(times >= 4, "{told}");
            }
            assert_eq!(result["found"]["band"], result["band"], "{told}");
        }
    }
    assert!(bands > 0, "no search met a wrong answer: the test tests nothing");
}

#[test]
fn a_point_that_fits_only_sometimes_is_asked_again_and_not_called_safe() {
    // Points near the limit fit on the first probe and then fail every second time, as with a cache that was cold.
    let result = Bench::script(
        r#"import "std/search" as search;
        let map = boundary(#{ input: [0, 1000] }, #{});
        let warm = 0;
        let probe = |p| {
            if p.input <= 500 { return "ok"; }
            if p.input >= 600 { return "oom"; }
            warm += 1;
            if warm % 2 == 1 { "ok" } else { "oom" }
        };
        let done = search::adaptive(map, probe, #{ coverage: 0.999 });
        #{ done: done, found: report(map) }"#,
    )
    .value();
    let band = &result["done"]["band"];
    assert!(!band.is_null(), "{result}");
    let safe = result["found"]["frontier"][0]["input"].as_i64().unwrap();
    let from = band["from"][0]["input"].as_i64().unwrap();
    assert!(safe < from && (500..600).contains(&from), "{result}");
    assert_eq!(result["done"]["stopped"], "coverage", "{result}");
}

#[test]
fn nothing_is_looked_at_where_it_is_not_wanted_or_there_is_no_boundary() {
    for (truth, options, most) in [
        ("true", "#{}", 2),
        // With one length, the smallest point comes after four failures, and is probed twice.
        ("false", "#{}", 6),
        ("p.input <= 300", "#{ confirm: 0, coverage: 0.999 }", 12),
    ] {
        let result = Bench::script(&format!(
            r#"import "std/search" as search;
            let map = boundary(#{{ input: [0, 1000] }}, #{{}});
            search::adaptive(map, |p| {{
                assert(map.classify(p) == "unknown" || p == map.largest() || p == map.smallest());
                if {truth} {{ "ok" }} else {{ "oom" }}
            }}, {options})"#
        ))
        .value();
        assert!(result["probes"].as_u64().unwrap() <= most, "{result}");
        assert!(result["band"].is_null());
    }
}

#[test]
fn a_killed_noisy_search_ends_as_an_undisturbed_one() {
    let text = script(
        3,
        400,
        512,
        r#"let done = search::adaptive(map, |p| { sleep(0.01); noisy.call(p) }, #{ coverage: 0.96 });
        #{ frontier: map.frontier(), points: map.points().len(), band: done.band, stopped: done.stopped }"#,
    );
    let undisturbed = Bench::script(&text).value();
    let run = Profiler::new()
        .args(["run", "main.rhai", "--out", "killed"])
        .file("main.rhai", &text);
    assert_eq!(crate::support::killed_and_resumed(run, 20), undisturbed);
}

#[test]
fn an_engine_is_really_asked_again_after_a_resume_too() {
    // Probes one point three times with an engine whose answers the journal keeps. The run is killed after the second.
    let script = r#"import "std/engines" as engines;
        let map = boundary(#{ input: [128, 8192], output: [16, 64] }, #{});
        let engine = engines::describe("sim", #{});
        let point = #{ input: 500, output: 16 };
        while map.points().len() < 3 {
            if map.points().len() == 2 && map.resumed() == 0 { throw "killed"; }
            if map.recorded(point) { map.again(point); }
            map.record(point, engine.probe(point));
        }
        map.points().len()"#;
    let first = Profiler::new()
        .file("main.rhai", script)
        .args(["run", "main.rhai", "--out", "run"])
        .run()
        .code(1);
    let resumed = Profiler::new()
        .current_dir(first.folder())
        .args(["run", "--resume", "run", "--json"])
        .run()
        .success();
    assert_eq!(resumed.json()["result"], json!(3));
    let journal = std::fs::read_to_string(first.folder().join("run/journal.jsonl")).unwrap();
    let probes = journal
        .lines()
        .filter(|line| line.contains(r#""event":"done""#))
        .count();
    assert_eq!(probes, 3, "the third answer is a new one");
}
