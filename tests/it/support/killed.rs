//! Kills a run in the middle of its work and resumes it.

use serde_json::Value;

use super::{Profiler, eventually};

/// Kills a run with `--out killed` once its journal has `after` points, resumes it, and returns its result.
#[track_caller]
pub fn killed_and_resumed(run: Profiler, after: usize) -> Value {
    killed_and_resumed_at(run, "\"event\":\"point\"", after).0
}

/// Kills a run with `--out killed` once its journal has `text` this many times. Resumes it, and returns its result and
/// its whole journal.
#[track_caller]
pub fn killed_and_resumed_at(run: Profiler, text: &str, times: usize) -> (Value, String) {
    killed_and_resumed_with(run, text, times, &[])
}

/// As [`killed_and_resumed_at`], with further arguments of the resume.
#[track_caller]
pub fn killed_and_resumed_with(run: Profiler, text: &str, times: usize, with: &[&str]) -> (Value, String) {
    let (mut child, folder) = run.spawn();
    let journal = folder.path().join("killed/journal.jsonl");
    // A line that is being written when the run is killed is lost.
    eventually(
        &format!("{times} × {text} in whole lines of {}", journal.display()),
        || {
            std::fs::read_to_string(&journal).is_ok_and(|written| {
                let whole = written.rfind('\n').map_or("", |end| &written[..end]);
                whole.matches(text).count() >= times
            })
        },
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let resumed = Profiler::new()
        .current_dir(folder.path())
        .args(["run", "--resume", "killed", "--json"])
        .args(with);
    let result = resumed.run().success().json()["result"].clone();
    (result, std::fs::read_to_string(&journal).unwrap())
}
