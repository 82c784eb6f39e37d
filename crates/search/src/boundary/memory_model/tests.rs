//! Tests of the memory model against engines with known memory, and against rows measured on an H200.

#![allow(clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use serde_json::Value;

use super::{FitError, Form, MemoryModel, PeakSample, Prior};
use crate::boundary::Point;

const MIB: f64 = 1_048_576.0;

fn point(input: i64, output: i64, concurrency: i64) -> Point {
    Point::default()
        .with("input", input)
        .with("output", output)
        .with("concurrency", concurrency)
}

/// The peak of an engine that frees activations before it decodes.
fn phases(point: &Point, base: f64, kv: f64, prefill: f64) -> f64 {
    let value = |axis| point.0[axis].as_f64();
    let (input, output, requests) = (value("input"), value("output"), value("concurrency"));
    base + requests * f64::max(kv * (input + output), (kv + prefill) * input)
}

/// Points as a search would probe them.
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

fn sampled(points: &[Point], peak: impl Fn(&Point) -> f64) -> Vec<PeakSample> {
    let sample = |point: &Point| PeakSample {
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
        let model = MemoryModel::fit(&sampled(&corners(16_384), |at| phases(at, base, kv, prefill)), &Prior::default()).unwrap();
        prop_assert_eq!(model.form(), Form::Phases);
        let [found_base, found_kv, found_prefill, squared] = model.coefficients();
        prop_assert!((found_base / base - 1.0).abs() < 1e-3, "{found_base} for {base}");
        prop_assert!((found_kv / kv - 1.0).abs() < 1e-3, "{found_kv} for {kv}");
        prop_assert!((found_prefill / prefill - 1.0).abs() < 1e-3 && squared * 16_384.0 < 1.0, "{found_prefill} for {prefill}");
        // The prediction also holds for a point far from all samples.
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
        let prior = Prior { block: 16.0, ..Prior::default() };
        let Ok(model) = MemoryModel::fit(&samples, &prior) else { return Ok(()) };
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
            // The sum of twelve uniform numbers minus six is nearly normal.
            let normal: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
            phases(at, 4e9, 65_536.0, 120_000.0) + 16.0 * MIB * normal
        };
        let samples: Vec<PeakSample> = corners(16_384)
            .iter()
            .map(|at| PeakSample {
                point: at.clone(),
                peak: noisy(at),
                at_most: false,
            })
            .collect();
        let model = MemoryModel::fit(&samples, &Prior::default()).unwrap();
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
    let prior = Prior {
        weights: 2e9,
        kv_bytes_per_token: 32_768.0,
        block: 1.0,
    };
    // No sample shows the cost of output tokens; the architecture gives it.
    let points: Vec<Point> = (1..8).map(|step| point(step * 1000, 8, 1)).collect();
    let samples = sampled(&points, |at| phases(at, 3e9, 32_768.0, 80_000.0));
    let model = MemoryModel::fit(&samples, &prior).unwrap();
    let long = point(128, 200_000, 1);
    assert!(model.predict(&long).unwrap().bytes >= 2e9 + 32_768.0 * 200_000.0);
    assert!(
        MemoryModel::fit(&samples, &Prior::default())
            .unwrap()
            .predict(&long)
            .is_some()
    );
}

#[test]
fn constant_few_or_inconsistent_peaks_give_no_model() {
    let fit = |samples: &[PeakSample]| MemoryModel::fit(samples, &Prior::default());
    assert_eq!(
        fit(&sampled(&corners(16_384), |_| 2e10)).unwrap_err(),
        FitError::ConstantPeaks
    );
    assert_eq!(fit(&[]).unwrap_err(), FitError::TooFewSamples(0));
    let honest = sampled(&corners(16_384), |at| phases(at, 4e9, 65_536.0, 120_000.0));
    assert_eq!(fit(&honest[..3]).unwrap_err(), FitError::TooFewSamples(3));
    let mut lying = honest;
    lying
        .iter_mut()
        .enumerate()
        .for_each(|(index, sample)| sample.peak = if index % 2 == 0 { 2e10 } else { 5e9 });
    assert!(matches!(fit(&lying).unwrap_err(), FitError::PoorFit(..)));
    let other = Point::default().with("rank", 8);
    assert!(matches!(
        fit(&sampled(&[other], |_| 1e9)).unwrap_err(),
        FitError::UnknownAxis(_)
    ));
}

#[test]
fn memory_in_use_before_makes_a_peak_an_upper_bound() {
    let mut samples = sampled(&corners(16_384), |at| phases(at, 4e9, 65_536.0, 120_000.0));
    let most = samples.iter().map(|sample| sample.peak).fold(0.0, f64::max);
    samples.push(PeakSample {
        point: point(200, 200, 1),
        peak: most,
        at_most: true,
    });
    let model = MemoryModel::fit(&samples, &Prior::default()).unwrap();
    let small = model.predict(&point(200, 200, 1)).unwrap();
    assert!(small.bytes < 4.2e9, "{small:?}");
}

/// The rows of plain `generate` under a cap of 12 GiB: point, peak bytes reserved, and whether it fitted.
fn measured() -> Vec<(Point, f64, bool)> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/generate-1b-12gib-cap.jsonl"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.map(|row| {
        let whole = |key: &str| row[key].as_i64().unwrap();
        let at = point(whole("i"), whole("o"), whole("b"));
        (at, row["res"].as_f64().unwrap(), row["ok"].as_bool().unwrap())
    })
    .collect()
}

/// Fits the rows that `choose` selects and tests the model on the others: asserts every verdict, and returns the
/// number of fitted rows, how many peaks lie in the interval, of how many, and the largest relative error.
fn held_out(choose: impl Fn(i64, i64, i64) -> bool) -> (usize, usize, usize, f64) {
    const CAP: f64 = 12_884_901_888.0;
    let of = |at: &Point, axis: &str| at.int(axis).unwrap();
    let chosen = |at: &Point| choose(of(at, "input"), of(at, "output"), of(at, "concurrency"));
    let (fitted, others): (Vec<_>, Vec<_>) = measured().into_iter().partition(|(at, ..)| chosen(at));
    assert!(fitted.iter().all(|(.., ok)| *ok));
    let sample = |(at, peak, _): &(Point, f64, bool)| PeakSample {
        point: at.clone(),
        peak: *peak,
        at_most: false,
    };
    let samples: Vec<PeakSample> = fitted.iter().map(sample).collect();
    let prior = Prior {
        weights: 2_208_436_224.0,
        kv_bytes_per_token: 32_768.0,
        block: 1.0,
    };
    let model = MemoryModel::fit(&samples, &prior).unwrap();
    let (mut covered, mut fits, mut worst) = (0, 0, 0.0_f64);
    for (at, peak, ok) in &others {
        let peak_at = model.predict(at).unwrap();
        assert_eq!(peak_at.bytes <= CAP, *ok, "{at}: {peak_at:?}");
        if *ok {
            fits += 1;
            covered += usize::from(peak_at.low <= *peak && *peak <= peak_at.high);
            worst = worst.max((peak_at.bytes / peak - 1.0).abs());
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
fn cheap_rows_of_an_h200_predict_which_others_fail() {
    // The fitted rows have up to 8,192 tokens, while a row that only just fits has 65,536. The allocator rounds large
    // blocks differently, which no interval of small ones covers. A search refits as it gets nearer.
    let (rows, _, fits, worst) = held_out(|input, output, requests| {
        output < 256 && (requests == 1 && input <= 8192 || input == 512 && output == 8)
    });
    assert_eq!((rows, fits), (7, 20));
    assert!(worst < 0.09, "{worst}");
    // Rows up to 32,768 tokens, half of the largest that fits. Rows of few tokens and long outputs are off, because no
    // fitted row shows the cost of output.
    let (rows, covered, fits, worst) =
        held_out(|input, output, requests| output < 256 && requests == 1 && input <= 32_768);
    assert_eq!((rows, fits), (10, 17));
    assert!(worst < 0.09 && covered * 10 >= fits * 6, "{covered} of {fits}, {worst}");
}
