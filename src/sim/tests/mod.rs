//! Recomputes the fits behind the shipped profiles from the measurements in `tests/data`, and compares them with what
//! is shipped.

mod dynamic;
mod vllm;

use std::path::Path;

fn data(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

/// Relative error of `found`.
fn off(found: f64, measured: f64) -> f64 {
    (found / measured - 1.0).abs()
}
