//! The model against engines whose memory is known, and against the rows measured on an H200.

#![allow(clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use serde_json::Value;

use super::{Form, Known, MemoryModel, Sample, Untold};
use crate::boundary::Point;

const MIB: f64 = 1_048_576.0;

fn point(input: i64, output: i64, concurrency: i64) -> Point {
    Point::default()
        .with("input", input)
        .with("output", output)
        .with("concurrency", concurrency)
}

/// The peak of an engine that gives activations back before it decodes.
fn phases(point: &Point, base: f64, kv: f64, prefill: f64) -> f64 {
    let value = |axis| point.0[axis].as_f64();
    let (input, output, requests) = (value("input"), value("output"), value("concurrency"));
    base + requests * f64::max(kv * (input + output), (kv + prefill) * input)
}

/// Corners below, as a search asks them.
fn corners(most: i64) -> Vec<Point> {
    let mut points = vec![point(128, 128, 1)];
    for share in [8, 4] {
        points.push(point(128, most / share, 1));
        points.push(point(most / share, 128, 1));
        points.push(point(most / share, most / share, 1));
        points.push(point(most / share, most / share, 2));
    }
    points
}

fn sampled(points: &[Point], peak: impl Fn(&Point) -> f64) -> Vec<Sample> {
    let sample = |point: &Point| Sample {
        point: point.clone(),
        peak: peak(point),
        at_most: false,
    };
    points.iter().map(sample).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn known_coefficients_are_found(base in 1e9_f64..2e10, kv in 2e4_f64..2e5, prefill in 2e4_f64..4e5) {
        let model = MemoryModel::fit(&sampled(&corners(16_384), |at| phases(at, base, kv, prefill)), &Known::default()).unwrap();
        prop_assert_eq!(model.form(), Form::Phases);
        let [found_base, found_kv, found_prefill, squared] = model.coefficients();
        prop_assert!((found_base / base - 1.0).abs() < 1e-3, "{found_base} for {base}");
        prop_assert!((found_kv / kv - 1.0).abs() < 1e-3, "{found_kv} for {kv}");
        prop_assert!((found_prefill / prefill - 1.0).abs() < 1e-3 && squared * 16_384.0 < 1.0, "{found_prefill} for {prefill}");
        // And so at a point far from all of them.
        let far = point(60_000, 100, 3);
        let peak = model.predict(&far).unwrap();
        prop_assert!((peak.bytes / phases(&far, base, kv, prefill) - 1.0).abs() < 1e-3);
        prop_assert!(peak.low <= phases(&far, base, kv, prefill) && phases(&far, base, kv, prefill) <= peak.high);
    }

    #[test]
    fn a_prediction_never_falls_as_a_point_grows(
        kv in 2e4_f64..2e5, prefill in 0.0_f64..4e5, noise in prop::collection::vec(-20.0_f64..20.0, 9),
        at in (0_i64..50_000, 0_i64..50_000, 1_i64..32), more in (0_i64..5_000, 0_i64..5_000, 0_i64..4),
    ) {
        let mut samples = sampled(&corners(16_384), |at| phases(at, 4e9, kv, prefill));
        samples.iter_mut().zip(noise).for_each(|(sample, noise)| sample.peak += noise * MIB);
        let known = Known { block: 16.0, ..Known::default() };
        let Ok(model) = MemoryModel::fit(&samples, &known) else { return Ok(()) };
        let small = model.predict(&point(at.0, at.1, at.2)).unwrap();
        let large = model.predict(&point(at.0 + more.0, at.1 + more.1, at.2 + more.2)).unwrap();
        prop_assert!(small.bytes <= large.bytes);
        prop_assert!(small.low <= small.bytes && small.bytes <= small.high);
    }
}

#[test]
fn the_interval_covers_what_was_not_seen() {
    use rand::{RngExt as _, SeedableRng as _};
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(7);
    let (mut covered, mut all) = (0, 0);
    for _ in 0..200 {
        let mut noisy = |at: &Point| {
            // Twelve uniform draws less six are nearly normal.
            let normal: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
            phases(at, 4e9, 65_536.0, 120_000.0) + 16.0 * MIB * normal
        };
        let samples: Vec<Sample> = corners(16_384)
            .iter()
            .map(|at| Sample {
                point: at.clone(),
                peak: noisy(at),
                at_most: false,
            })
            .collect();
        let model = MemoryModel::fit(&samples, &Known::default()).unwrap();
        for far in [point(32_768, 512, 1), point(512, 32_768, 1), point(16_384, 8_192, 2)] {
            let (peak, seen) = (model.predict(&far).unwrap(), noisy(&far));
            covered += usize::from(peak.low <= seen && seen <= peak.high);
            all += 1;
        }
    }
    assert!(covered * 100 >= all * 93, "{covered} of {all}");
}

#[test]
fn the_architecture_bounds_the_model_from_below() {
    let known = Known {
        weights: 2e9,
        kv_bytes_per_token: 32_768.0,
        block: 1.0,
    };
    // No sample has an output that shows; the architecture knows what it takes.
    let points: Vec<Point> = (1..8).map(|step| point(step * 1000, 8, 1)).collect();
    let samples = sampled(&points, |at| phases(at, 3e9, 32_768.0, 80_000.0));
    let model = MemoryModel::fit(&samples, &known).unwrap();
    let long = point(128, 200_000, 1);
    assert!(model.predict(&long).unwrap().bytes >= 2e9 + 32_768.0 * 200_000.0);
    assert!(
        MemoryModel::fit(&samples, &Known::default())
            .unwrap()
            .predict(&long)
            .is_some()
    );
}

#[test]
fn nothing_is_told_by_flat_few_or_lying_peaks() {
    let fit = |samples: &[Sample]| MemoryModel::fit(samples, &Known::default());
    assert_eq!(fit(&sampled(&corners(16_384), |_| 2e10)).unwrap_err(), Untold::Flat);
    assert_eq!(fit(&[]).unwrap_err(), Untold::Few(0));
    let honest = sampled(&corners(16_384), |at| phases(at, 4e9, 65_536.0, 120_000.0));
    assert_eq!(fit(&honest[..3]).unwrap_err(), Untold::Few(3));
    let mut lying = honest;
    lying
        .iter_mut()
        .enumerate()
        .for_each(|(index, sample)| sample.peak = if index % 2 == 0 { 2e10 } else { 5e9 });
    assert!(matches!(fit(&lying).unwrap_err(), Untold::Poor(..)));
    let other = Point::default().with("rank", 8);
    assert!(matches!(fit(&sampled(&[other], |_| 1e9)).unwrap_err(), Untold::Axis(_)));
}

#[test]
fn memory_that_was_in_use_before_only_bounds_a_peak() {
    let mut samples = sampled(&corners(16_384), |at| phases(at, 4e9, 65_536.0, 120_000.0));
    let most = samples.iter().map(|sample| sample.peak).fold(0.0, f64::max);
    samples.push(Sample {
        point: point(200, 200, 1),
        peak: most,
        at_most: true,
    });
    let model = MemoryModel::fit(&samples, &Known::default()).unwrap();
    let small = model.predict(&point(200, 200, 1)).unwrap();
    assert!(small.bytes < 4.2e9, "{small:?}");
}

/// The rows of plain `generate` under a cap of 12 GiB: point, peak bytes reserved, and whether it fitted.
fn measured() -> Vec<(Point, f64, bool)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/generate-1b-12gib-cap.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.map(|row| {
        let whole = |key: &str| row[key].as_i64().unwrap();
        let at = point(whole("i"), whole("o"), whole("b"));
        (at, row["res"].as_f64().unwrap(), row["ok"].as_bool().unwrap())
    })
    .collect()
}

/// Fits the rows that `choose` takes, and holds the model against the others: each verdict, how many peaks lie in the interval, of how many, and the worst share by which
/// one is off.
fn held_out(choose: impl Fn(i64, i64, i64) -> bool) -> (usize, usize, usize, f64) {
    const CAP: f64 = 12_884_901_888.0;
    let of = |at: &Point, axis: &str| at.int(axis).unwrap();
    let chosen = |at: &Point| choose(of(at, "input"), of(at, "output"), of(at, "concurrency"));
    let (fitted, others): (Vec<_>, Vec<_>) = measured().into_iter().partition(|(at, ..)| chosen(at));
    assert!(fitted.iter().all(|(.., ok)| *ok));
    let sample = |(at, peak, _): &(Point, f64, bool)| Sample {
        point: at.clone(),
        peak: *peak,
        at_most: false,
    };
    let samples: Vec<Sample> = fitted.iter().map(sample).collect();
    let known = Known {
        weights: 2_208_436_224.0,
        kv_bytes_per_token: 32_768.0,
        block: 1.0,
    };
    let model = MemoryModel::fit(&samples, &known).unwrap();
    let (mut covered, mut fits, mut worst) = (0, 0, 0.0_f64);
    for (at, peak, ok) in &others {
        let told = model.predict(at).unwrap();
        assert_eq!(told.bytes <= CAP, *ok, "{at}: {told:?}");
        if *ok {
            fits += 1;
            covered += usize::from(told.low <= *peak && *peak <= told.high);
            worst = worst.max((told.bytes / peak - 1.0).abs());
        }
    }
    eprintln!(
        "{} rows: {covered} of {fits} in the interval, {worst:.4} off: {:?}",
        samples.len(),
        model.coefficients()
    );
    (samples.len(), covered, fits, worst)
}

#[test]
fn cheap_rows_of_an_h200_tell_which_of_the_others_fail() {
    // Up to 8192 tokens, where a row that only just fits has 65,536: the allocator keeps other shares of large blocks, which no interval of small ones covers. A search fits anew
    // when it has come nearer.
    let (rows, _, fits, worst) = held_out(|input, output, requests| {
        output < 256 && (requests == 1 && input <= 8192 || input == 512 && output == 8)
    });
    assert_eq!((rows, fits), (7, 20));
    assert!(worst < 0.09, "{worst}");
    // Up to 32,768, half of what fits: those of few tokens and long outputs are off, as no fitted row has an output that shows.
    let (rows, covered, fits, worst) =
        held_out(|input, output, requests| output < 256 && requests == 1 && input <= 32_768);
    assert_eq!((rows, fits), (10, 17));
    assert!(worst < 0.09 && covered * 10 >= fits * 6, "{covered} of {fits}, {worst}");
}
