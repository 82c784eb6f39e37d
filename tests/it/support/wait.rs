//! Waiting for an event that sends no signal.

use std::path::Path;
use std::time::{Duration, Instant};

/// Polls until `holds` is true. Fails after three minutes, so that a busy machine does not break a test.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(180);
    while !holds() {
        assert!(Instant::now() < deadline, "still not: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a file exists and contains `text` at least `times` times.
#[track_caller]
pub fn wait_for_text(file: &Path, text: &str, times: usize) {
    eventually(&format!("{times} × {text} in {}", file.display()), || {
        std::fs::read_to_string(file).is_ok_and(|written| written.matches(text).count() >= times)
    });
}
