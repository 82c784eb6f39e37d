//! Measures the time that a search takes to propose the next point, with many recorded points on three axes.
//!
//! `cargo bench --bench search` prints one Markdown table. Recorded points lie close to both sides of a limit, as in a
//! real search, so that nearly all of them count. Random points would be cheap, because few of them matter. Each figure
//! covers one new answer: recording it, updating the state, and choosing the next point. The first proposal, as after a
//! resume, computes the state from scratch. It asserts nothing, because the figures depend on the machine.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops where it cannot measure"
)]

use std::time::Instant;

use profiler::boundary::{Answer, Boundary, Options, Point, Verdict};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

const AXES: [(&str, i64, i64); 3] = [("concurrency", 1, 512), ("input", 128, 32768), ("output", 128, 16384)];
const REPEATS: usize = 100;

fn main() {
    println!("| recorded points, three axes | first, ms | median | 99 of 100 | highest |");
    println!("|---|---|---|---|---|");
    for points in [100, 1_000, 10_000] {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut map = empty();
        for _ in 0..points {
            record(&mut map, &mut random);
        }
        let began = Instant::now();
        map.refine(1, 1.0).unwrap();
        let first = began.elapsed().as_secs_f64() * 1e3;
        let mut times: Vec<f64> = (0..REPEATS).map(|_| proposal(&mut map, &mut random)).collect();
        times.sort_by(f64::total_cmp);
        println!(
            "| {points} | {first:.2} | {:.2} | {:.2} | {:.2} |",
            times[REPEATS / 2],
            times[REPEATS * 99 / 100 - 1],
            times[REPEATS - 1]
        );
    }
}

fn empty() -> Boundary {
    let axes = AXES
        .iter()
        .map(|(name, low, high)| ((*name).to_owned(), json!([low, high])));
    Boundary::new(&axes.collect(), Options::default()).unwrap()
}

/// Milliseconds from an answer to the next point.
fn proposal(map: &mut Boundary, random: &mut ChaCha8Rng) -> f64 {
    let began = Instant::now();
    record(map, random);
    assert_eq!(map.refine(1, 1.0).unwrap().len(), 1, "nothing is left to propose");
    began.elapsed().as_secs_f64() * 1e3
}

/// Records the correct verdict of a point slightly inside or outside the limit.
fn record(map: &mut Boundary, random: &mut ChaCha8Rng) {
    let towards: [f64; 3] = [random.random(), random.random(), random.random()];
    let at = |share: f64| {
        AXES.map(|(_, low, high)| (low, high))
            .into_iter()
            .zip(towards)
            .map(move |((low, high), towards)| low + ((high - low) as f64 * towards * share).round() as i64)
    };
    let fits = |share: f64| {
        let point: Vec<i64> = at(share).collect();
        point[0] * (point[1] + point[2]) + 2 * point[1] <= 400_000
    };
    let (mut low, mut high) = (0.0, 1.0 / towards.iter().copied().fold(1e-9, f64::max));
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        (low, high) = if fits(middle) { (middle, high) } else { (low, middle) };
    }
    let share = low * (1.0 + 0.02 * (random.random::<f64>() - 0.5));
    let names = AXES.iter().map(|(name, ..)| *name);
    let within = at(share)
        .zip(AXES)
        .map(|(value, (_, low, high))| value.clamp(low, high));
    let point = names
        .zip(within)
        .fold(Point::default(), |point, (name, value)| point.with(name, value));
    let answer = |point: &Point| {
        let value = |name| point.int(name).unwrap();
        let used = value("concurrency") * (value("input") + value("output")) + 2 * value("input");
        if used <= 400_000 { Verdict::Ok } else { Verdict::Oom }
    };
    map.record(&point, &Answer::from(answer(&point))).unwrap();
}
