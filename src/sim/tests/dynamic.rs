//! `llama-1b-12gib-transformers`: two lines fitted to the rows with batch size 1; batch size 8 is held out.

use serde::Deserialize;

use super::{data, off};
use crate::sim::memory::DynamicMemory;
use crate::sim::profile::{Dynamic, MemoryProfile, Profile};

/// Batch size used for the fit; batch size 8 is only predicted.
const FITTED: u64 = 1;

#[derive(Deserialize)]
struct Row {
    b: u64,
    i: u64,
    ok: bool,
    alloc: f64,
    res: f64,
    err: String,
}

fn rows() -> Vec<Row> {
    data("generate-1b-12gib-cap.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn shipped() -> Dynamic {
    match Profile::load("llama-1b-12gib-transformers").unwrap().memory {
        MemoryProfile::Dynamic(profile) => profile,
        other => panic!("not dynamic: {other:?}"),
    }
}

/// Intercept and slope with the smallest relative errors.
fn line(points: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (x, y) in points {
        let weight = 1.0 / (y * y);
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    let slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
    ((wy - slope * wx) / w, slope)
}

#[test]
fn the_shipped_numbers_are_the_fit() {
    let rows = rows();
    let fitted = || rows.iter().filter(|row| row.ok && row.b == FITTED);
    let (base, slope) = line(fitted().map(|row| ((row.b * row.i) as f64, row.alloc)));
    let (cached, cached_slope) = line(fitted().map(|row| ((row.b * row.i) as f64, row.res)));
    let shipped = shipped();
    assert!((base - shipped.base_bytes as f64).abs() < 1.0, "base {base}");
    assert!(
        (slope - shipped.prefill_bytes_per_token as f64).abs() < 0.001,
        "prefill {slope}"
    );
    assert!(
        (cached - base - shipped.cache_bytes as f64).abs() < 1.0,
        "cache {}",
        cached - base
    );
    assert!(
        (cached_slope / slope - shipped.cache_ratio).abs() < 1e-5,
        "ratio {}",
        cached_slope / slope
    );
}

#[test]
fn allocated_and_reserved_are_within_three_percent_on_every_row_the_held_out_ones_too() {
    let memory = DynamicMemory::new(&shipped(), None);
    let mut held_out = 0;
    for row in rows().iter().filter(|row| row.ok) {
        let allocated = memory.prefill(row.b * row.i, 0);
        let reserved = memory.reserved_for(allocated);
        assert!(
            off(allocated as f64, row.alloc) < 0.03,
            "b {} i {}: allocated {allocated}",
            row.b,
            row.i
        );
        assert!(
            off(reserved as f64, row.res) < 0.03,
            "b {} i {}: reserved {reserved}",
            row.b,
            row.i
        );
        held_out += u32::from(row.b != FITTED);
    }
    assert_eq!(held_out, 9);
}

#[test]
fn every_row_fits_or_fails_with_the_measured_message() {
    for row in rows() {
        let mut memory = DynamicMemory::new(&shipped(), None);
        let grown = memory.grow(memory.prefill(row.b * row.i, 0));
        assert_eq!(grown.is_ok(), row.ok, "b {} i {}", row.b, row.i);
        if let Err(oom) = grown {
            let message = oom.to_string();
            let words = |text: &str| text.chars().filter(|c| c.is_alphabetic()).take(180).collect::<String>();
            let units = |text: &str| words(&text.replace("MiB", "GiB"));
            assert_eq!(units(&message), units(&row.err), "message: {message}");
        }
    }
}

#[test]
fn the_model_has_at_most_eight_parameters_and_the_context_that_failures_report() {
    let shipped = shipped();
    let fields = serde_json::to_value(&shipped).unwrap();
    // The device's two sizes are not parameters of the model; no row depends on them.
    let parameters = fields
        .as_object()
        .unwrap()
        .keys()
        .filter(|name| !["total_mib", "reserved_mib"].contains(&name.as_str()));
    assert!(parameters.count() <= 8);

    let pattern = regex::Regex::new(
        r"this process has ([\d.]+) GiB .* memory ([\d.]+) GiB is allocated by PyTorch, and ([\d.]+) (GiB|MiB)",
    )
    .unwrap();
    let contexts: Vec<f64> = rows()
        .iter()
        .filter_map(|row| {
            let found = pattern.captures(&row.err)?;
            let number = |at: usize| found[at].parse::<f64>().unwrap();
            let cached = if &found[4] == "MiB" {
                number(3) / 1024.0
            } else {
                number(3)
            };
            Some(number(1) - number(2) - cached)
        })
        .collect();
    let mean = contexts.iter().sum::<f64>() / contexts.len() as f64;
    assert_eq!(contexts.len(), 5);
    assert!(
        (mean - shipped.context_bytes as f64 / 1_073_741_824.0).abs() < 0.01,
        "context {mean} GiB"
    );
}
