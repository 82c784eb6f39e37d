//! Measures the time that a search takes to propose the next point, with many recorded points on three axes.
//!
//! `cargo bench --bench search` prints two Markdown tables. Recorded points lie close to both sides of a limit, as in a
//! real search, so that nearly all of them count. Random points would be cheap, because few of them matter. Each figure
//! covers one new answer: recording it, updating the state, and choosing the next point. The first proposal, as after a
//! resume, computes the state from scratch. The second table has one limit a row, and a batch of four as four engines
//! get it: one point after the other, each with those before in flight. Times are those of the CPU. It asserts nothing,
//! because the figures depend on the machine.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops where it cannot measure"
)]

use nix::time::{ClockId, clock_gettime};
use profiler::boundary::{Answer, Boundary, Options, Point, Verdict};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

const AXES: [(&str, i64, i64); 3] = [("concurrency", 1, 512), ("input", 128, 32768), ("output", 128, 16384)];
const REPEATS: usize = 100;

/// Answers of the second table, the last of which are measured.
const ANSWERS: usize = 200;
const LAST: usize = 20;
const BATCH: usize = 4;

/// Whether a point fits: a concurrency, an input and an output.
type Truth = fn([i64; 3]) -> bool;

const LIMITS: [(&str, Truth); 5] = [
    ("tokens", |[count, input, output]| count * (input + output) <= 400_000),
    ("blocks of 16", |[count, input, output]| {
        count * ((input + output + 15) / 16 * 16) <= 400_000
    }),
    ("blocks of 1,568 and one for the state", |[count, input, output]| {
        count * ((input + output + 1567) / 1568 + 1) <= 204
    }),
    ("no family: curved", |point| {
        let [count, input, output] = point.map(|value| value as f64);
        let alone = (input / 30e3).powi(5) + (output / 14e3).powi(3) + (count / 400.0).powf(1.6);
        alone + (count * input / 900e3).powf(2.2) <= 1.0
    }),
    ("no family: four bounds, one with a step", |[count, input, output]| {
        count * (input + output) <= 400_000
            && 10 * count * input + 37 * count * output <= 6_000_000
            && input + 400 * count + 2 * output <= 60_000
            && count * input + if input > 9000 { 90_000 } else { 0 } <= 300_000
    }),
];

fn main() {
    println!("| recorded points, three axes | first, ms | median | 99 of 100 | highest |");
    println!("|---|---|---|---|---|");
    let prefill: Truth = |[count, input, output]| count * (input + output) + 2 * input <= 400_000;
    for points in [100, 1_000, 10_000] {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut map = empty();
        for _ in 0..points {
            record(&mut map, prefill, &mut random);
        }
        let first = milliseconds(|| propose(&map));
        let mut next = || {
            let next = record_and_propose(&mut map, prefill, &mut random);
            assert!(next.is_some(), "nothing is left to propose");
        };
        let mut times: Vec<f64> = (0..REPEATS).map(|_| milliseconds(&mut next)).collect();
        times.sort_by(f64::total_cmp);
        println!(
            "| {points} | {first:.2} | {:.2} | {:.2} | {:.2} |",
            times[REPEATS / 2],
            times[REPEATS * 99 / 100 - 1],
            times[REPEATS - 1]
        );
    }
    println!("\n| limit, {ANSWERS} answers | one point, ms: median | highest | {BATCH} points: median | highest |");
    println!("|---|---|---|---|---|");
    for (name, truth) in LIMITS {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut map = empty();
        for _ in 0..ANSWERS - LAST {
            record(&mut map, truth, &mut random);
        }
        let (mut one, mut batch) = (Vec::new(), Vec::new());
        for _ in 0..LAST {
            let mut next = None;
            let alone = milliseconds(|| next = record_and_propose(&mut map, truth, &mut random));
            assert!(next.is_some(), "nothing is left to propose");
            let mut busy = map.clone();
            let others = milliseconds(|| {
                for _ in 1..BATCH {
                    // With few large regions left, the answers in flight may decide all that is open.
                    let Some(in_flight) = next.take() else { break };
                    busy.ask(&in_flight).unwrap();
                    next = propose(&busy);
                }
            });
            one.push(alone);
            batch.push(alone + others);
        }
        let [one, batch] = [one, batch].map(|mut times| {
            times.sort_by(f64::total_cmp);
            format!("{:.1} | {:.1}", times[LAST / 2], times[LAST - 1])
        });
        println!("| {name} | {one} | {batch} |");
    }
}

fn empty() -> Boundary {
    let axes = AXES
        .iter()
        .map(|(name, low, high)| ((*name).to_owned(), json!([low, high])));
    Boundary::new(&axes.collect(), Options::default()).unwrap()
}

/// The CPU time of this thread, which no other load prolongs much.
fn milliseconds<T>(run: impl FnOnce() -> T) -> f64 {
    let now = || {
        let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
        now.tv_sec() as f64 * 1e3 + now.tv_nsec() as f64 * 1e-6
    };
    let began = now();
    run();
    now() - began
}

fn propose(map: &Boundary) -> Option<Point> {
    map.refine(1, 1.0).unwrap().pop()
}

/// From an answer to the next point.
fn record_and_propose(map: &mut Boundary, fits: Truth, random: &mut ChaCha8Rng) -> Option<Point> {
    record(map, fits, random);
    propose(map)
}

/// Records the correct verdict of a point slightly inside or outside the limit.
fn record(map: &mut Boundary, fits: Truth, random: &mut ChaCha8Rng) {
    let towards: [f64; 3] = [random.random(), random.random(), random.random()];
    let at = |share: f64| -> [i64; 3] {
        std::array::from_fn(|axis| {
            let (_, low, high) = AXES[axis];
            low + ((high - low) as f64 * towards[axis] * share).round() as i64
        })
    };
    let (mut low, mut high) = (0.0, 1.0 / towards.iter().copied().fold(1e-9, f64::max));
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        (low, high) = if fits(at(middle)) {
            (middle, high)
        } else {
            (low, middle)
        };
    }
    let near = at(low * (1.0 + 0.02 * (random.random::<f64>() - 0.5)));
    let values: [i64; 3] = std::array::from_fn(|axis| near[axis].clamp(AXES[axis].1, AXES[axis].2));
    let named = AXES.iter().zip(values);
    let point = named.fold(Point::default(), |point, ((name, ..), value)| point.with(name, value));
    let verdict = if fits(values) { Verdict::Ok } else { Verdict::Oom };
    map.record(&point, &Answer::from(verdict)).unwrap();
}
