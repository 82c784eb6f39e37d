//! Too low limits of this program are told before anything starts: exit 3 with what is needed. They are never a verdict,
//! a panic or a hang.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::script::bench::Bench;
use crate::support::temp;

/// Runs a search under a limit of the shell, as a user who is not root where that is possible.
fn under(limit: &str, command: &str) -> (i32, String) {
    let folder = temp();
    let mut words = vec!["timeout", "60", "bash", "-c"];
    if limit.contains("-u") && nix::unistd::geteuid().is_root() {
        words.splice(
            0..0,
            [
                "setpriv",
                "--reuid=65533",
                "--clear-groups",
                "--inh-caps=-all",
                "--bounding-set=-all",
            ],
        );
        std::os::unix::fs::chown(folder.path(), Some(65533), None).unwrap();
    }
    // As root, the program may lie where no other user may look.
    let line = format!("ulimit {limit} && exec /proc/self/fd/9 {command}");
    let program = env!("CARGO_BIN_EXE_profiler");
    let ran = Command::new("sh")
        .args(["-c", &format!("exec 9<{program}; exec \"$@\""), "sh"])
        .args(words)
        .arg(line)
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    (
        ran.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&ran.stderr).into_owned(),
    )
}

#[test]
fn a_limit_that_is_too_low_is_told_with_what_is_needed() {
    let run = "run adaptive --set engine=sim --set sim.time_scale=0.001 --out run";
    for (limit, command, needed) in [
        ("-n 6", run, "320"),
        ("-n 16", run, "320"),
        ("-n 24", run, "320"),
        ("-n 64", run, "320"),
        ("-n 6", "list", "64"),
        ("-n 20", "list", "64"),
        ("-u 1", run, "processes"),
        ("-u 2", run, "processes"),
        ("-u 16", run, "processes"),
        ("-u 1", "list", "processes"),
        ("-v 300000", run, "2.1 GiB"),
        ("-v 700000", run, "2.1 GiB"),
        ("-v 1000000", run, "2.1 GiB"),
        ("-v 2000000", run, "2.1 GiB"),
        ("-v 300000", "list", "640"),
    ] {
        let (code, said) = under(limit, command);
        assert!(
            code == 3 && said.contains(needed) && !said.contains("panicked"),
            "{limit} {command}: {code}: {said}"
        );
    }
    for (limit, command) in [
        ("-n 320", run),
        ("-v 2400000", run),
        ("-n 64", "list"),
        ("-v 700000", "list"),
    ] {
        let (code, said) = under(limit, command);
        assert_eq!(code, 0, "{limit} {command}: {said}");
    }
}

#[test]
#[ignore = "three minutes: `.ci/long` runs it"]
fn every_limit_is_told_or_enough() {
    let run = "run adaptive --set engine=sim --set sim.time_scale=0.001 --out run";
    let files = (6..=64)
        .chain([96, 128, 256, 319, 320])
        .map(|count| format!("-n {count}"));
    let threads = (1..=64).map(|count| format!("-u {count}"));
    let space = (300..=2400).step_by(100).map(|count| format!("-v {}", count * 1000));
    let (mut told, mut done) = (0, 0);
    for limit in files.chain(threads).chain(space) {
        for command in [run, "list", "estimate Qwen/Qwen3-8B"] {
            let (code, said) = under(&limit, command);
            // The model of an estimate cannot be fetched everywhere.
            let missing = code == 3 && said.contains("ulimit") || command.starts_with("estimate");
            assert!(!said.contains("panicked"), "{limit} {command}: {said}");
            assert!(
                code == 0 || missing && [1, 2, 3].contains(&code),
                "{limit} {command}: {code}: {said}"
            );
            *(if code == 0 { &mut done } else { &mut told }) += 1;
        }
    }
    eprintln!("{done} done, {told} told");
}

#[test]
fn a_point_that_is_too_much_to_send_is_not_tested_and_easier_ones_are() {
    // A million requests: this program cannot hold them.
    let found: Value = Bench::script(
        r#"import "std/engines" as engines;
        let map = boundary(#{ input: [64, 64], output: [2, 2], concurrency: [1, 1000000] }, #{});
        let engine = engines::describe("sim", #{ sim: #{ time_scale: 0.0 } });
        [1, 1000000].map(|concurrency| {
            let point = #{ input: 64, output: 2, concurrency: concurrency };
            let answer = engine.probe(point);
            map.record(point, answer);
            [answer.cause, map.classify(point)]
        })"#,
    )
    .value();
    assert_eq!(found, json!([[null, "fits"], ["client_limit", "unknown"]]));
}

#[test]
fn more_requests_than_this_machine_can_hold_are_refused_before_they_are_made() {
    let run = "run adaptive --set engine=sim --set sim.time_scale=0.001 --out run --set";
    let began = std::time::Instant::now();
    for count in ["20000000", "9223372036854775807"] {
        let (code, said) = under("-n 4096", &format!("{run} concurrency={count}"));
        assert!(code != 0 && code != 101 && code != 124, "{code}: {said}");
    }
    // Making them would take minutes.
    assert!(began.elapsed() < Duration::from_secs(120));
}
