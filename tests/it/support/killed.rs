//! A run that is killed in the middle of its search, and gone on with.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::Profiler;

/// Kills a run into the folder `killed` once its journal has so many points, resumes it, and gives its result.
#[track_caller]
pub fn killed_and_resumed(run: Profiler, after: usize) -> Value {
    let (mut child, folder) = run.spawn();
    let journal = folder.path().join("killed/journal.jsonl");
    let points = || {
        let text = std::fs::read_to_string(&journal).unwrap_or_default();
        text.matches("\"event\":\"point\"").count()
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while points() < after {
        assert!(Instant::now() < deadline, "no {after} points in {}", journal.display());
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let resumed = Profiler::new()
        .current_dir(folder.path())
        .args(["run", "--resume", "killed", "--json"]);
    resumed.run().success().json()["result"].clone()
}
