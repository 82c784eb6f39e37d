//! A user's search is killed, or its terminal closed, at random instants, and resumed each time: nothing of it keeps
//! running.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;

use crate::runtime::containers_of;
use crate::support::engines::{container, in_process, process, processes_of};
use crate::support::{eventually, needs_docker, temp};

/// A search on the test's engine, without randomness.
const SEARCH: [&str; 10] = [
    "run",
    "adaptive.rhai",
    "--json",
    "--seed",
    "3",
    "--set",
    "engine=./mine.rhai",
    "--set",
    "model=",
    "--allow=process,image=profiler-test",
];

/// Random instants from a seed. A failing test shows the seed, and `PROFILER_TEST_SEED` sets it.
struct Instants(u64);

impl Instants {
    fn draw() -> Self {
        let given = std::env::var("PROFILER_TEST_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one("instants") >> 32);
        eprintln!("PROFILER_TEST_SEED={seed}");
        Self(seed)
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014), scaled to `most`.
    fn up_to(&mut self, most: Duration) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let share = (mixed >> 11) as f64 / (1_u64 << 53) as f64;
        most.mul_f64(share)
    }
}

/// A search of this coverage: a search of a few seconds already contains most of the starts of a longer one.
fn program(folder: &Path, (runtime, coverage): (&str, f64), args: &[&str]) -> Command {
    // `nohup` ignores SIGHUP, and the tests may have been started under it.
    let mut command = Command::new("env");
    command
        .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_profiler")])
        .current_dir(folder)
        .env("HOME", folder)
        .args(SEARCH)
        .args(["--set", &format!("runtime={runtime}")])
        .args(["--set", &format!("search.coverage={coverage}")])
        .args(args);
    command
}

/// The lines and events of the journal; a torn last line is left out.
fn journal(folder: &Path) -> (Vec<String>, Vec<Value>) {
    let text = fs::read_to_string(folder.join("journal.jsonl")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let lines: Vec<String> = whole.lines().map(str::to_owned).collect();
    let events = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    (lines, events)
}

/// The number of times that each probe was finished.
fn finished(events: &[Value]) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for event in events.iter().filter(|event| event["event"] == "done") {
        *counts.entry(event["args"].to_string()).or_default() += 1;
    }
    counts
}

fn begun(events: &[Value]) -> usize {
    events.iter().filter(|event| event["event"] == "began").count()
}

/// The id of a run, as soon as its folder has a manifest.
fn id(folder: &Path) -> Option<String> {
    let manifest: Value = serde_json::from_slice(&fs::read(folder.join("manifest.json")).ok()?).ok()?;
    Some(manifest["run"].as_str()?.to_owned())
}

/// Waits until no process and no container of the run is left.
fn nothing_is_left(run: &str, runtime: &str) {
    eventually("no process is left", || processes_of(run).is_empty());
    eventually("no container is left", || {
        runtime != "docker" || containers_of(run).is_empty()
    });
}

/// The option that resumes a search, or starts it anew if it was killed before it had a manifest.
fn how(out: &Path) -> &'static str {
    if out.join("manifest.json").exists() {
        return "--resume";
    }
    let _ = fs::remove_dir_all(out);
    "--out"
}

/// Kills per search.
const KILLS: u32 = 10;

/// Kills `PROFILER_TEST_ROUNDS` searches, `KILLS` times each: one search by default, ten for 100 kills on each runtime.
fn kill(runtime: &str, adapter: &str, coverage: f64) {
    let rounds = std::env::var("PROFILER_TEST_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    for _ in 0..rounds {
        kill_a_search(runtime, adapter, coverage);
    }
}

/// Kills a search again and again, every fourth time by closing its terminal, and compares its final result with that
/// of an undisturbed search.
fn kill_a_search(runtime: &str, adapter: &str, coverage: f64) {
    let folder = temp();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/adaptive.rhai");
    fs::copy(script, folder.path().join("adaptive.rhai")).unwrap();
    fs::write(folder.path().join("mine.rhai"), adapter).unwrap();
    let start = Instant::now();
    let undisturbed = program(folder.path(), (runtime, coverage), &["--out", "whole"])
        .output()
        .unwrap();
    let took = start.elapsed();
    let stderr = String::from_utf8_lossy(&undisturbed.stderr);
    assert_eq!(undisturbed.status.code(), Some(0), "{stderr}");
    let whole: Value = serde_json::from_slice(&undisturbed.stdout).unwrap();
    let needed = finished(&journal(&folder.path().join("whole")).1);

    let out = folder.path().join("out");
    let mut instants = Instants::draw();
    let mut before = Vec::new();
    let mut hit = 0;
    while hit < KILLS {
        let mut child = program(folder.path(), (runtime, coverage), &[how(&out), "out"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // On average, the killed attempts together last half as long as the whole search.
        std::thread::sleep(instants.up_to(took / KILLS));
        let signal = if hit % 4 == 3 { Signal::SIGHUP } else { Signal::SIGKILL };
        kill_by(signal, &child);
        let killed = !child.wait().unwrap().success();
        if let Some(run) = id(&out) {
            nothing_is_left(&run, runtime);
        }
        let (lines, events) = journal(&out);
        assert_eq!(lines[..before.len()], before[..], "no line is lost or changed");
        before = lines;
        if !killed || events.last().is_some_and(|event| event["status"] == "done") {
            // The search is done: the undisturbed one was slower, because other tests ran at the same time.
            break;
        }
        hit += 1;
    }
    assert!(2 * hit >= KILLS, "only {hit} kills hit a living run");
    eprintln!("{runtime}: {hit} kills of a search that takes {took:?}");
    let last = program(folder.path(), (runtime, coverage), &[how(&out), "out"])
        .output()
        .unwrap();
    assert_eq!(last.status.code(), Some(0), "{}", String::from_utf8_lossy(&last.stderr));
    let resumed: Value = serde_json::from_slice(&last.stdout).unwrap();
    assert_eq!(resumed["result"]["frontier"], whole["result"]["frontier"]);

    let (lines, events) = journal(&out);
    assert_eq!(lines[..before.len()], before[..], "no line is lost or changed");
    let done = finished(&events);
    assert!(done.values().all(|count| *count == 1), "finished again: {done:?}");
    let asked = |counts: &HashMap<String, usize>| counts.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(asked(&done), asked(&needed), "the same points are asked");
    assert!(
        begun(&events) <= needed.len() + hit as usize,
        "{} probes began, {hit} kills",
        begun(&events)
    );
    nothing_is_left(resumed["run"].as_str().unwrap(), runtime);
}

fn kill_by(signal: Signal, child: &Child) {
    nix::sys::signal::kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

#[test]
fn a_search_on_the_simulated_engine() {
    kill("sim", &in_process(0.001), 0.85);
}

#[test]
fn a_search_on_a_process() {
    kill("process", &process(0.001, "[]"), 0.85);
}

#[test]
fn a_search_on_a_container() {
    if needs_docker() {
        kill("docker", &container(0.0, "[]"), 0.6);
    }
}
