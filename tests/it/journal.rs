//! A user resumes a run whose journal was changed: everything after the change is probed again, and nothing false is
//! proven.

use std::fs;
use std::path::Path;
use std::process::Command;

use profiler::run::RecordedRun;
use serde_json::Value;

use crate::support::temp;

/// A search for a known limit: 9,000 tokens of input and output together.
const SCRIPT: &str = r#"
    import "std/search" as search;
    let map = boundary(#{ input: [1, 8192], output: [1, 4096] }, #{});
    search::adaptive(map, |p| if p.input + p.output <= 9000 { "ok" } else { "oom" }, #{ coverage: 0.9 });
    report(map)
"#;

fn profiler(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
    let output = command
        .current_dir(folder)
        .env("HOME", folder)
        .args(args)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The frontier of the finished run in `out`. Fails if a recorded point is on the wrong side of the limit.
fn frontier(out: &Path) -> Value {
    let journal = fs::read_to_string(out.join("journal.jsonl")).unwrap();
    let events = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    for event in events.filter(|event| event["event"] == "point") {
        let sum = event["point"]["input"].as_i64().unwrap() + event["point"]["output"].as_i64().unwrap();
        assert_eq!(event["moves"] == "fits", sum <= 9000, "{event}");
    }
    let result: Value = serde_json::from_slice(&fs::read(out.join("result.json")).unwrap()).unwrap();
    result["result"]["frontier"].clone()
}

/// Changes digits spread evenly over the journal, whatever they mean: 16 of them, or `PROFILER_TEST_FLIPS`.
#[test]
fn a_changed_digit_is_noticed_and_proves_nothing() {
    let flips = std::env::var("PROFILER_TEST_FLIPS")
        .ok()
        .and_then(|flips| flips.parse().ok())
        .unwrap_or(16);
    let folder = temp();
    fs::write(folder.path().join("s.rhai"), SCRIPT).unwrap();
    let run = |args: &[&str]| profiler(folder.path(), &[&["run", "s.rhai"], args].concat());
    assert_eq!(run(&["--out", "out"]).0, Some(0));
    let out = folder.path().join("out");
    let path = out.join("journal.jsonl");
    let whole = frontier(&out);
    let text = fs::read_to_string(&path).unwrap();
    // As if the run had been killed after two thirds of its events.
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let text = &text[..ends[ends.len() * 2 / 3]];
    let digits: Vec<usize> = text
        .match_indices(|c: char| c.is_ascii_digit())
        .map(|(at, _)| at)
        .collect();
    for at in digits.iter().step_by((digits.len() / flips).max(1)) {
        let mut changed = text.as_bytes().to_vec();
        changed[*at] = if changed[*at] == b'9' { b'1' } else { changed[*at] + 1 };
        fs::write(&path, &changed).unwrap();
        let line = 1 + text[..*at].matches('\n').count();
        let noticed = format!("line {line} was changed after it was written");
        let (code, shown, _) = profiler(folder.path(), &["show", "out"]);
        assert!(code == Some(0) && shown.contains(&noticed), "{shown}");
        let (code, _, stderr) = run(&["--resume", "out"]);
        assert!(code == Some(0) && stderr.contains(&noticed), "{stderr}");
        assert_eq!(frontier(&out), whole, "digit at {at}");
        let kept = fs::read(out.join("journal.damaged.jsonl")).unwrap();
        assert!(changed.ends_with(&kept) && !kept.is_empty());
        fs::remove_file(out.join("journal.damaged.jsonl")).unwrap();
    }
}

/// Covers 1,000 bits and 200 cuts, spread evenly over the bytes of a journal.
#[test]
fn a_bit_or_an_end_that_is_lost_anywhere_is_noticed_and_adds_nothing() {
    let folder = temp();
    fs::write(folder.path().join("s.rhai"), SCRIPT).unwrap();
    assert_eq!(profiler(folder.path(), &["run", "s.rhai", "--out", "out"]).0, Some(0));
    let out = folder.path().join("out");
    let path = out.join("journal.jsonl");
    let whole = RecordedRun::read(&out).unwrap();
    assert!(whole.missing.is_empty(), "{:?}", whole.missing);
    let points = &whole.boundaries[0].points;
    let text = fs::read(&path).unwrap();
    for number in 0..1200 {
        let at = number * text.len() / 1200;
        let mut changed = text.clone();
        match number % 6 {
            0 => changed.truncate(at),
            _ => changed[at] ^= 1 << (number % 8),
        }
        fs::write(&path, &changed).unwrap();
        let read = RecordedRun::read(&out).unwrap();
        assert!(!read.missing.is_empty(), "number {number}, byte {at}: not noticed");
        let left = read.boundaries.first().map_or(&[][..], |map| &map.points);
        assert!(points.starts_with(left), "number {number}, byte {at}: {left:?}");
    }
}

/// Regression: seed 1938 of the simulation.
#[test]
fn a_first_line_whose_checksum_is_damaged_is_not_taken_for_one_of_an_older_version() {
    let folder = temp();
    fs::write(folder.path().join("s.rhai"), SCRIPT).unwrap();
    assert_eq!(profiler(folder.path(), &["run", "s.rhai", "--out", "out"]).0, Some(0));
    let path = folder.path().join("out/journal.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let (first, second) = text.split_once('\n').unwrap();
    let changed = format!("{}\n{}", first.replacen(r#","sum""#, r#",#sum""#, 1), &second[..20]);
    fs::write(&path, changed).unwrap();
    let (code, _, stderr) = profiler(folder.path(), &["run", "s.rhai", "--resume", "out"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("line 1 was changed after it was written"), "{stderr}");
}
