//! The fits behind the shipped profiles, recomputed from the measurements in `tests/data` and compared with what ships.

mod dynamic;
mod served;
mod vllm;

use std::path::Path;

/// A file of `tests/data`.
fn data(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

/// How far `found` is from `measured`, as a share of it.
fn off(found: f64, measured: f64) -> f64 {
    (found / measured - 1.0).abs()
}
