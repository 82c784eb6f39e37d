//! A user's load accounts for every request exactly once, and a resumed run does not send it again.

use std::fs;

use serde_json::Value;

use super::{FAST, SLOW, finished, loaded, records, script};
use crate::support::{Profiler, temp, wait_for_text};

#[test]
fn the_engine_counts_what_we_count() {
    let load = loaded(
        FAST,
        "concurrency: 16, requests: 200, warmup: #{ requests: 16 }, input: 16, output: 3",
    );
    assert_eq!(load.counts(), [200, 200, 0, 0], "{}", load.answer);
    assert_eq!(load.records.len(), 216);
    let indices: Vec<u64> = load
        .records
        .iter()
        .map(|record| record["index"].as_u64().unwrap())
        .collect();
    assert_eq!(indices, (0..216).collect::<Vec<_>>(), "none lost, none twice");
    assert_eq!(
        load.answer["counted"]["generated_tokens"],
        216 * 3,
        "{}",
        load.answer["counted"]
    );
    // The client may warn that this machine is busy; the engine's counts must still agree.
    let warnings = load.answer["warnings"].to_string();
    assert!(
        !warnings.contains("the engine counts") && !warnings.contains("the metrics page counts"),
        "{warnings}"
    );
    assert_eq!(
        (&load.answer["died"], &load.answer["records"]),
        (&Value::Null, &"loads/1.jsonl".into())
    );
}

#[test]
fn a_resumed_run_takes_finished_loads_from_the_journal() {
    let folder = temp();
    let body = "let first = engine.load(#{ concurrency: 2, requests: 4, input: 16, output: 2 });
        let same = engine.load(#{ concurrency: 2, requests: 4, input: 16, output: 2 });
        if exists() { throw \"later\"; }
        [first.records, same.records, engine.load(#{ rate: 100, requests: 3, input: 16, output: 2 }).records]";
    let begin = "import \"std/engines\" as engines;\nlet engine = engines::describe(\"sim\", #{});\n";
    let text = |fails: bool| format!("fn exists() {{ {fails} }}\n{begin}{body}");
    fs::write(folder.path().join("main.rhai"), text(true)).unwrap();
    let run = |args: &[&str]| {
        Profiler::new()
            .current_dir(folder.path())
            .args(["run", "main.rhai", "--json"])
            .args(args)
            .run()
    };
    let _ = run(&["--out", "run"]).code(1);
    let first = fs::read(folder.path().join("run/loads/1.jsonl")).unwrap();
    fs::write(folder.path().join("main.rhai"), text(false)).unwrap();
    let refused = run(&["--resume", "run"]);
    // A changed script is refused. With the original script the resumed run fails as before, and sends nothing again.
    fs::write(folder.path().join("main.rhai"), text(true)).unwrap();
    drop(refused.code(2));
    let _ = run(&["--resume", "run"]).code(1).stderr("later");
    assert_eq!(fs::read(folder.path().join("run/loads/1.jsonl")).unwrap(), first);
    assert!(!folder.path().join("run/loads/1-2.jsonl").exists() && !folder.path().join("run/loads/3.jsonl").exists());
    assert_eq!(records(&folder.path().join("run/loads/2.jsonl")).len(), 4);
}

#[test]
fn an_interruption_ends_a_load_at_once_and_keeps_what_ended() {
    let folder = temp();
    let text = script(SLOW, "concurrency: 4, duration: 600, input: 16, output: 200");
    fs::write(folder.path().join("main.rhai"), text).unwrap();
    let (mut child, _home) = Profiler::new()
        .current_dir(folder.path())
        .args(["run", "main.rhai", "--out", "run"])
        .spawn();
    let kept = folder.path().join("run/loads/1.jsonl");
    wait_for_text(&kept, "\n", 8);
    let asked = std::time::Instant::now();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(
        asked.elapsed() < std::time::Duration::from_secs(4),
        "{:?}",
        asked.elapsed()
    );
    let kept = records(&kept);
    assert!(kept.iter().any(|record| record["outcome"] == "completed"));
    assert!(
        kept.iter().any(|record| record["outcome"] == "cut_off"),
        "requests in flight are reported too"
    );
}

#[test]
fn a_load_of_one_shape_is_what_it_was() {
    let load = finished(
        Profiler::new().file(
            "main.rhai",
            script("", "concurrency: 4, requests: 20, input: 128, output: 16"),
        ),
        &[],
    );
    assert_eq!(load.counts(), [20, 20, 0, 0], "{}", load.answer);
    assert!(load.answer["ttft_ms"]["thin"]["p99"] == true && load.answer["ttft_ms"]["mean"].is_number());
    assert!(load.outcome.stderr.contains("SIMULATED"));
}
