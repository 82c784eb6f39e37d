//! A user's shell reads the exit status: every status that the program promises, signals included.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Profiler, temp};

fn run(script: &str) -> Profiler {
    Profiler::new().file("s.rhai", script).args(["run", "s.rhai"])
}

#[test]
fn zero_when_done() {
    let _ = run("42").run().success().stdout("42");
}

#[test]
fn one_when_the_script_fails_or_nothing_fits() {
    let _ = run(r#"throw "no""#).run().code(1).stderr("no");
    let nothing = r#"let map = boundary(#{ input: [1, 9] }, #{}); map.record(#{ input: 1 }, "oom"); report(map)"#;
    let _ = run(nothing).run().code(1).stdout("nothing fits");
    let something = r#"let map = boundary(#{ input: [1, 9] }, #{}); map.record(#{ input: 1 }, "ok"); map.record(#{ input: 2 }, "oom"); 0"#;
    let _ = run(something).run().success();
}

#[test]
fn two_for_wrong_usage_and_scripts_that_do_not_compile() {
    let _ = Profiler::new().run().code(2).stderr("Usage");
    let _ = Profiler::new().args(["run", "--nonsense"]).run().code(2);
    let _ = Profiler::new().args(["run"]).run().code(2).stderr("profiler list");
    let outcome = run("let x = ;").run().code(2).stderr("s.rhai:1:9");
    assert!(
        !outcome.folder().join("runs").exists(),
        "what does not compile leaves no folder"
    );
    let _ = run("1").args(["--params", "no.json"]).run().code(2).stderr("`no.json`");
    let wrong = run("params(#{})").args(["--set", "a=1"]).run().code(2);
    let _ = wrong.nowhere("--resume");
    let _ = run("1").args(["--set", "a=1"]).run().code(2).stderr("no parameters");
    let _ = run("1")
        .args(["--allow", "everything"])
        .run()
        .code(2)
        .stderr("everything");
    let _ = Profiler::new()
        .args(["show", "."])
        .run()
        .code(2)
        .stderr("is not the folder of a run");
    let own = Profiler::new().file("mine.rhai", "1").args(["run", "mine"]).run();
    let _ = own.code(2).stderr("the file here is `mine.rhai`");
    let above = Profiler::new()
        .file("runs/b/manifest.json", "{}")
        .file("runs/a/manifest.json", "{}");
    let _ = above.args(["show", "runs"]).run().code(2).stderr("such as runs/b");
}

#[test]
fn help_and_version_are_results() {
    let _ = Profiler::new().arg("--help").run().success().stdout("Usage: profiler");
    let _ = Profiler::new()
        .arg("--version")
        .run()
        .success()
        .stdout(env!("CARGO_PKG_VERSION"));
}

fn spawn(script: &str) -> (Child, tempfile::TempDir) {
    let folder = temp();
    std::fs::write(folder.path().join("s.rhai"), script).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_profiler"))
        .current_dir(folder.path())
        .args(["run", "s.rhai", "--out", "out"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 1];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    (child, folder)
}

fn status_after(script: &str, signals: &[Signal]) -> (Option<i32>, Duration, tempfile::TempDir) {
    let (mut child, folder) = spawn(script);
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let begun = Instant::now();
    for signal in signals {
        kill(pid, *signal).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    let status = child.wait().unwrap();
    (status.code(), begun.elapsed(), folder)
}

#[test]
fn signals_end_the_run_and_are_told() {
    let waits = r#"print("go"); try { sleep(60.0); } catch { sleep(60.0); }"#;
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let (status, took, folder) = status_after(waits, &[signal]);
        assert_eq!(status, Some(code));
        assert!(took < Duration::from_secs(2), "{took:?}");
        let manifest = std::fs::read_to_string(folder.path().join("out/manifest.json")).unwrap();
        assert!(manifest.contains("\"interrupted\""), "{manifest}");
    }
    let (status, took, _) = status_after(r#"print("go"); loop { }"#, &[Signal::SIGINT]);
    assert_eq!(status, Some(130));
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = temp();
    std::fs::write(folder.path().join("s.rhai"), r#"for n in 0..2000 { print("line"); } 1"#).unwrap();
    let program = env!("CARGO_BIN_EXE_profiler");
    let output = Command::new("bash")
        .current_dir(folder.path())
        .args(["-c", &format!("set -o pipefail; {program} run s.rhai | head -1")])
        .output()
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.stdout, b"line\n");
}

#[test]
fn a_tokenizer_that_is_not_there_is_missed_before_the_engine_starts() {
    for named in [
        ["--set", "engine=sim", "--set", "tokenizer=some/where"],
        ["--set", "engine=tgi", "--set", "model=some/where"],
    ] {
        let _ = Profiler::new()
            .args(["run", "adaptive", "--set", "output=[8,16]", "--set", "runtime=sim"])
            .args(named)
            .env("HF_HUB_OFFLINE", "1")
            .run()
            .code(3)
            .stderr("lacks `tokenizer.json` of `some/where`")
            .stderr("give a folder with the file as `tokenizer`")
            .nowhere("ready");
    }
}
