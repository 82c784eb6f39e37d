//! Whole verifications, for any limit.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Answer, Boundary, BoundsReport, Cause, Class, Moves, Options, Point, Verdict};
use super::ReportedLimit;

const MOST: usize = 60;

fn lengths() -> Value {
    json!({ "input": [128, 8192], "output": [128, 4096] })
}

fn total(point: &Point) -> i64 {
    point.int("input").unwrap() + point.int("output").unwrap()
}

fn answer(fits: bool) -> Answer {
    Answer::from(if fits { Verdict::Ok } else { Verdict::Oom })
}

/// Verifies a report against a known limit.
fn verified(
    axes: &Value,
    report: BoundsReport,
    answer: impl Fn(&Point) -> Answer,
) -> (Boundary, ReportedLimit, bool, usize) {
    let mut map = Boundary::new(axes, Options::default()).unwrap();
    let mut limit = ReportedLimit::from(report);
    for _ in 0..MOST {
        let (step, newest) = map.verify_report(limit, None, false).unwrap().unwrap();
        limit = newest;
        let Some(next) = step.next else {
            return (map, limit, step.held, step.proven.len());
        };
        map.record(
            &next,
            &Answer {
                report: Some(report),
                ..answer(&next)
            },
        )
        .unwrap();
    }
    panic!("the verification does not end");
}

#[test]
fn a_right_report_takes_seven_probes_and_a_wrong_one_is_given_up_at_the_first_answer_that_differs() {
    let report = BoundsReport {
        tokens: Some(6000),
        ..BoundsReport::default()
    };
    let (map, _, held, proven) = verified(&lengths(), report, |p| answer(total(p) <= 6000));
    // Two sides of three places, and one look between them.
    assert_eq!((map.records().len(), held, proven), (7, true, 3));
    let (map, _, held, proven) = verified(&lengths(), report, |p| answer(total(p) <= 5000));
    assert_eq!((map.records().len(), held, proven), (1, false, 0));
    let (map, _, held, _) = verified(&lengths(), report, |p| answer(total(p) <= 7000));
    assert_eq!((map.records().len(), held), (4, false));
}

#[test]
fn a_limit_that_differs_between_the_places_is_noticed_by_the_last_look() {
    let report = BoundsReport {
        tokens: Some(6000),
        ..BoundsReport::default()
    };
    let (map, ..) = verified(&lengths(), report, |p| answer(total(p) <= 6000));
    let (looked, record) = map.records().last().unwrap();
    let fitted = record.moves == Moves::Fits;
    // Only there the limit is another one.
    let fits = |p: &Point| {
        let at_least_as_hard = |one: &Point, other: &Point| one.0.iter().all(|(axis, value)| *value >= other.0[axis]);
        if fitted {
            total(p) <= 6000 && !at_least_as_hard(p, &looked)
        } else {
            total(p) <= 6000 || at_least_as_hard(&looked, p)
        }
    };
    let (map, _, held, proven) = verified(&lengths(), report, |p| answer(fits(p)));
    assert_eq!((map.records().len(), held, proven), (7, false, 0));
}

#[test]
fn the_tokens_that_a_server_reserves_of_a_stated_length_are_found() {
    let report = BoundsReport {
        max_model_len: Some(6000),
        ..BoundsReport::default()
    };
    for reserved in 0..=2 {
        let refused = |p: &Point| {
            let fits = total(p) <= 6000 - reserved;
            let cause = (!fits).then(|| Cause::from("length_limit"));
            Answer {
                cause,
                ..Answer::from(if fits { Verdict::Ok } else { Verdict::Refused })
            }
        };
        let (_, limit, held, proven) = verified(&lengths(), report, refused);
        assert_eq!((limit.reserved, held, proven), (reserved.cast_unsigned(), true, 2));
        assert_eq!(limit.max_model_len, Some(6000 - reserved.cast_unsigned()));
    }
}

#[test]
fn a_report_that_does_not_bound_every_axis_is_not_verified() {
    let map = Boundary::new(&json!({ "input": [1, 100], "batch": [1, 8] }), Options::default()).unwrap();
    let report = BoundsReport {
        tokens: Some(60),
        ..BoundsReport::default()
    };
    assert!(map.verify_report(report.into(), None, false).unwrap().is_none());
}

#[test]
fn several_engines_get_both_sides_at_once_and_then_wait() {
    let mut map = Boundary::new(&lengths(), Options::default()).unwrap();
    let limit = ReportedLimit {
        tokens: Some(6000),
        ..ReportedLimit::default()
    };
    let mut asked = Vec::new();
    while let Some(next) = map.verify_report(limit, None, true).unwrap().unwrap().0.next {
        map.ask(&next).unwrap();
        asked.push(next);
        assert!(asked.len() <= 6, "{asked:?}");
    }
    assert!(asked.len() >= 3, "{asked:?}");
    assert!(
        asked
            .iter()
            .enumerate()
            .all(|(index, one)| !asked[..index].contains(one))
    );
}

#[test]
fn a_limit_is_narrowed_to_the_tolerance_at_its_places() {
    let axes = json!({ "input": { "range": [128, 8192], "tolerance": 1 }, "output": { "range": [128, 4096], "tolerance": 1 } });
    let limit = ReportedLimit {
        tokens: Some(6000),
        ..ReportedLimit::default()
    };
    let mut map = Boundary::new(&axes, Options::default()).unwrap();
    for round in 0..=200 {
        let narrowing = map.narrow_report(limit).unwrap();
        assert!(narrowing.held && round < 200, "{narrowing:?}");
        let Some(next) = narrowing.points.first() else {
            let within = map
                .certificate(&narrowing.places, "report", Some(&limit))
                .unwrap()
                .within;
            assert!(within.values().all(|within| within.as_f64() == 1.0), "{within:?}");
            break;
        };
        map.record(next, &answer(total(next) <= 5998)).unwrap();
    }
    map.record(
        &Point::default().with("input", 3000).with("output", 500),
        &answer(false),
    )
    .unwrap();
    assert!(!map.narrow_report(limit).unwrap().held);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_verified_limit_encloses_the_true_one(a in 0.2..3.0f64, b in 0.2..3.0f64, share in 0.1..0.9f64) {
        let most = share * (a * 8192.0 + b * 4096.0);
        let fits = |p: &Point| a * p.int("input").unwrap() as f64 + b * p.int("output").unwrap() as f64 <= most;
        let mut map = Boundary::new(&lengths(), Options::default()).unwrap();
        for corner in [map.largest(), map.smallest()] {
            map.record(&corner, &answer(fits(&corner))).unwrap();
        }
        let mut probes = 2;
        while let Some(step) = map.verify_fitted(None, 0.95).unwrap() {
            prop_assert!(step.held);
            let Some(next) = step.next else {
                let certificate = map.certificate(&step.proven, "fitted", None).unwrap();
                prop_assert_eq!(step.proven.len(), step.places.len());
                prop_assert!(certificate.within.values().all(|within| within.as_f64() <= 8192.0 / 8.0));
                for place in &step.places {
                    let Some(axis) = super::place::axis_of(&map, place) else { continue };
                    let bracket = map.bracket(&place.point, axis.name()).unwrap();
                    if let Some(inside) = bracket.fits {
                        prop_assert!(fits(&axis.moved(&place.point, inside.as_f64())));
                    }
                    if let Some(outside) = bracket.fails {
                        prop_assert!(!fits(&axis.moved(&place.point, outside.as_f64())));
                    }
                }
                break;
            };
            // No point is probed whose answer is known.
            prop_assert!(map.classify(&next).unwrap() == Class::Unknown && !map.recorded(&next).unwrap());
            map.record(&next, &answer(fits(&next))).unwrap();
            probes += 1;
            prop_assert!(probes < MOST, "it does not end");
        }
    }
}

/// As vLLM 0.24 reports a pool of 6,791 blocks of 16 tokens: as requests of its longest length.
#[test]
fn tokens_that_are_no_whole_number_of_blocks_are_read_as_the_pool_that_agrees() {
    let axes = json!({ "concurrency": [1, 256], "input": [256, 8192], "output": [200, 200] });
    let report = BoundsReport {
        tokens: Some(108_568),
        block: Some(16),
        ..BoundsReport::default()
    };
    let law = |state: i64, blocks: i64| {
        move |p: &Point| answer(p.int("concurrency").unwrap() * ((total(p) + 15) / 16 + state) <= blocks)
    };
    let (_, limit, held, proven) = verified(&axes, report, law(0, 6_791));
    assert_eq!((limit.tokens, limit.state_blocks), (Some(108_656), None));
    assert!(held && proven == 3);
    let (_, limit, held, proven) = verified(&axes, report, law(1, 6_804));
    assert_eq!(limit.state_blocks, Some(6_804));
    assert!(held && proven == 3);
    // For a while both readings agree with the answers.
    let report = BoundsReport {
        tokens: Some(1_481_434),
        block: Some(528),
        ..BoundsReport::default()
    };
    let hybrid = |p: &Point| answer(p.int("concurrency").unwrap() * ((total(p) + 527) / 528 + 1) <= 3_000);
    let (_, limit, held, proven) = verified(&axes, report, hybrid);
    assert_eq!(limit.state_blocks, Some(3_000));
    assert!(held && proven > 0);
}
