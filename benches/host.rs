//! Measures the cost of the host as a user sees it: the release binary, started as a process.
//!
//! `cargo bench --bench host` prints one Markdown table, which the README quotes: time to the first line of a script,
//! resident memory while a script waits, a primitive call from Rhai, one journal line, and 1000 probes of the simulated
//! engine without model time, journal included. It asserts nothing, because the figures depend on the machine.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops where it cannot measure"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CALLS: u32 = 200_000;
const PROBES: u32 = 1000;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    println!("| what | median | lowest | highest |");
    println!("|---|---|---|---|");
    row("start to the first script line, ms", 15, || {
        first_line(folder).as_secs_f64() * 1e3
    });
    row("resident memory of a waiting script, MiB", 5, || idle_memory(folder));
    row("one primitive call from Rhai, µs", 5, || {
        one_call(folder, "x = elapsed();")
    });
    row("one line of the journal that is not synced, µs", 5, || {
        one_call(folder, "record(\"x\", t);")
    });
    row(&format!("{PROBES} simulated probes, s"), 3, || {
        simulated_probes(folder).as_secs_f64()
    });
}

fn row(what: &str, repeats: usize, mut measure: impl FnMut() -> f64) {
    let mut values: Vec<f64> = (0..repeats).map(|_| measure()).collect();
    values.sort_by(f64::total_cmp);
    println!(
        "| {what} | {:.2} | {:.2} | {:.2} |",
        values[repeats / 2],
        values[0],
        values[repeats - 1]
    );
}

/// Time from the start of the process until its script has printed.
fn first_line(folder: &Path) -> Duration {
    let mut command = script(folder, r#"print("here");"#);
    let started = Instant::now();
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    wait_for_line(&mut child, "here");
    let time = started.elapsed();
    child.wait().unwrap();
    time
}

fn idle_memory(folder: &Path) -> f64 {
    let mut command = script(folder, r#"print("here"); sleep(60);"#);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    wait_for_line(&mut child, "here");
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

/// Time of one call: a loop that makes it, minus the same loop without it. `elapsed()` does almost nothing.
fn one_call(folder: &Path, call: &str) -> f64 {
    let seconds = |body: &str| {
        let text = format!("let t = elapsed(); let x = 0.0; for i in 0..{CALLS} {{ {body} }} elapsed() - t");
        let mut command = script(folder, &text);
        let output = command
            .arg("--json")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .output()
            .unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        document["result"].as_f64().unwrap()
    };
    (seconds(call) - seconds("x = t;")) * 1e6 / f64::from(CALLS)
}

/// Each repeat is a new run and includes the start of the simulated engine.
fn simulated_probes(folder: &Path) -> Duration {
    let text = format!(
        r#"
        import "std/engines" as engines;
        let engine = engines::describe("sim", #{{ sim: #{{ time_scale: 0.0 }}, limits: #{{ input: 2000, output: 8, total: 2008, concurrency: 1 }} }});
        for n in 0..{PROBES} {{
            let answer = engine.probe(#{{ input: 16 + n, output: 8 }});
            if answer.verdict != "ok" {{ throw answer; }}
        }}"#
    );
    let mut command = script(folder, &text);
    let started = Instant::now();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    started.elapsed()
}

fn script(folder: &Path, text: &str) -> Command {
    let path = folder.join("bench.rhai");
    fs::write(&path, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
    command
        .current_dir(folder)
        .arg("run")
        .arg(path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

fn wait_for_line(child: &mut Child, text: &str) {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let seen = lines.map_while(Result::ok).find(|line| line.contains(text)).is_some();
    assert!(seen, "the script printed nothing");
}
