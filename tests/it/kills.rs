//! Runs and fleets that are killed at any instant and resumed: nothing that was answered is lost or sent again, and
//! nothing is left behind.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::liars::SSH;
use crate::support::{Profiler, eventually, temp};

/// How often each answered operation stands in the journals below a folder. An outermost experiment counts as one with
/// all within it, unless its parts do (`in_parts`): where it was cut, all of it is measured anew.
fn answered(folder: &Path) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for journal in journals(folder) {
        let text = fs::read_to_string(&journal).unwrap_or_default();
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let (mut depth, mut in_parts) = (0_usize, false);
        for event in events {
            let is_experiment = event["kind"] == "experiment";
            match event["event"].as_str() {
                Some("resumed") => depth = 0,
                Some("began") if is_experiment => {
                    if depth == 0 {
                        in_parts = event["in_parts"] == true;
                    }
                    depth += 1;
                }
                Some("given_up") => depth = depth.saturating_sub(1),
                Some("done") => {
                    depth = depth.saturating_sub(usize::from(is_experiment));
                    if depth > 0 && !in_parts {
                        continue;
                    }
                    let place = journal.strip_prefix(folder).unwrap().display();
                    *found
                        .entry(format!("{place} {} {}", event["kind"], event["args"]))
                        .or_default() += 1;
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn a_program_within_a_trial_hides_nothing_that_comes_after_it() {
    let place = temp();
    let (began, done) = (r#""event":"began","kind":"experiment""#, r#""event":"done","kind""#);
    let journal = format!(
        r#"{{{began},"args":1,"in_parts":true}}
{{{began},"args":2}}
{{{done}:"load","args":3}}
{{{done}:"experiment","args":2}}
{{{done}:"probe","args":4}}
{{"event":"resumed"}}
{{{began},"args":5}}
{{{began},"args":6}}
{{{done}:"experiment","args":6}}
{{{done}:"probe","args":7}}
{{"event":"given_up"}}
{{{done}:"probe","args":8}}
"#
    );
    fs::write(place.path().join("journal.jsonl"), journal).unwrap();
    let found: Vec<String> = answered(place.path()).into_keys().collect();
    let args = found.iter().map(|one| one.rsplit(' ').next().unwrap());
    assert_eq!(args.collect::<String>(), "2348", "{found:?}");
}

fn journals(folder: &Path) -> Vec<PathBuf> {
    let jobs = fs::read_dir(folder.join("jobs")).into_iter().flatten().flatten();
    let inner = jobs.map(|job| job.path().join("journal.jsonl"));
    inner
        .chain([folder.join("journal.jsonl")])
        .filter(|path| path.is_file())
        .collect()
}

/// Processes whose command line or environment has this text.
fn running(text: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let line = |process: fs::DirEntry| {
        let of = |name| fs::read(process.path().join(name)).unwrap_or_default();
        let all = [of("cmdline"), of("environ")].concat();
        let line = String::from_utf8_lossy(&all).replace('\0', " ");
        line.contains(text).then_some(line)
    };
    all.filter_map(line).collect()
}

struct Killed {
    kills: usize,
    runs: usize,
}

/// Kills `command` at random instants until that was done `kills` times, and lets each run end. `same` says whether
/// its operations are the same each time.
fn kill(what: &str, kills: usize, longest: f64, same: bool, start: &dyn Fn(&Path) -> Profiler) -> Killed {
    let mut rng = ChaCha8Rng::seed_from_u64(41);
    let mut killed = Killed { kills: 0, runs: 0 };
    let mut first: Option<BTreeMap<String, usize>> = None;
    while killed.kills < kills {
        let place = temp();
        let (home, temporary, run) = (place.path(), place.path().join("tmp"), place.path().join("run"));
        fs::create_dir(&temporary).unwrap();
        let mut known = BTreeMap::new();
        let mut lives = 0;
        loop {
            let mut program = start(home).current_dir(home).env("TMPDIR", &temporary);
            program = if run.join("manifest.json").exists() || run.join("journal.jsonl").exists() {
                match what {
                    "fleet" => program.args(["fleet", "--follow", "run", "--allow", "command=ssh,process"]),
                    _ => program.args(["run", "--resume", "run"]),
                }
            } else {
                let _ = fs::remove_dir_all(&run);
                begin(program, what)
            };
            let (mut child, _folder) = program.spawn();
            // The first run of each kind is not killed: it says what there is to do. Later ones come to their end too.
            let wait = if first.is_none() && same || lives == 12 {
                3600.0
            } else {
                rng.random_range(0.05..longest)
            };
            let until = std::time::Instant::now() + Duration::from_secs_f64(wait);
            let ended = loop {
                if let Some(status) = child.try_wait().unwrap() {
                    break Some(status);
                }
                if std::time::Instant::now() > until {
                    break None;
                }
                std::thread::sleep(Duration::from_millis(5));
            };
            if ended.is_none() {
                child.kill().unwrap();
                child.wait().unwrap();
                (killed.kills, lives) = (killed.kills + 1, lives + 1);
            }
            let now = answered(&run);
            for (operation, count) in &known {
                let kept = now.get(operation).copied().unwrap_or(0);
                assert!(
                    kept >= *count,
                    "{what}, seed 41, kill {}: lost: {operation}",
                    killed.kills
                );
            }
            known = now;
            if let Some(status) = ended {
                assert!(status.success(), "{what}: {status}");
                break;
            }
        }
        killed.runs += 1;
        if same {
            let all = first.get_or_insert_with(|| known.clone());
            assert_eq!(
                known.keys().collect::<Vec<_>>(),
                all.keys().collect::<Vec<_>>(),
                "{what}"
            );
            for (operation, count) in &known {
                assert_eq!(count, &all[operation], "{what}: sent again: {operation}");
            }
        }
        let at = home.display().to_string();
        eventually("no process is left", || running(&at).is_empty());
        let left: Vec<_> = fs::read_dir(&temporary)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert!(left.is_empty(), "{what}: {left:?} is left");
    }
    killed
}

fn begin(program: Profiler, what: &str) -> Profiler {
    let words: &[&str] = match what {
        "batch" => &[
            "run",
            "batch",
            "--set",
            "engine=sim",
            "--set",
            "sim.time_scale=0.01",
            "--set",
            "input=[64,128,256]",
            "--set",
            "output=[16]",
            "--set",
            "concurrency=[1,2]",
            "--set",
            "min_requests=4",
            "--seed",
            "3",
        ],
        "tune" => &[
            "run",
            "tune",
            "--set",
            "engine=sim",
            "--set",
            "sim.time_scale=0.001",
            "--set",
            r#"space={"max_num_seqs":[16,64]}"#,
            "--set",
            "most=8",
            "--set",
            "input=64",
            "--set",
            "output=8",
            "--set",
            "min_requests=8",
            "--set",
            "requests_per_slot=2",
            "--set",
            "hold=1",
            "--set",
            "attainment=0.5",
        ],
        _ => &[
            "fleet",
            "jobs.yaml",
            "--cluster",
            "ssh",
            "--allow",
            "command=ssh,process",
            "--set",
            "attempts=30",
            "--params",
            "options.json",
        ],
    };
    program.args(words).args(["--out", "run"])
}

#[test]
#[ignore = "minutes: `.ci/long` runs it"]
fn a_batch_that_is_killed_eighty_times() {
    let killed = kill("batch", 80, 1.5, true, &|_| Profiler::new());
    eprintln!("batch: {} kills of {} runs", killed.kills, killed.runs);
}

#[test]
#[ignore = "minutes: `.ci/long` runs it"]
fn a_tuning_that_is_killed_sixty_times() {
    let killed = kill("tune", 60, 2.0, false, &|_| Profiler::new());
    eprintln!("tune: {} kills of {} runs", killed.kills, killed.runs);
}

#[test]
#[ignore = "minutes: `.ci/long` runs it"]
fn a_fleet_that_is_killed_sixty_times() {
    let killed = kill("fleet", 60, 4.0, false, &|home| {
        let bin = home.join("bin");
        if !bin.exists() {
            fs::create_dir(&bin).unwrap();
            fs::write(bin.join("ssh"), SSH).unwrap();
            fs::set_permissions(bin.join("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
            let script = "let p = params(#{ n: param(0, \"a number\") }); let map = boundary(#{ input: [1, 9] }, #{}); \
                for i in 1..6 { sleep(0.1); map.record(#{ input: i }, \"ok\"); } record(\"n\", p.n);";
            fs::write(home.join("one.rhai"), script).unwrap();
            fs::write(
                home.join("jobs.yaml"),
                "jobs:\n  - script: one.rhai\n    matrix: {n: [1, 2, 3, 4, 5, 6]}\n",
            )
            .unwrap();
            let options = serde_json::json!({ "options": {
                "hosts": ["good-1", "good-2", "good-3"], "program": env!("CARGO_BIN_EXE_profiler"), "gone": 3,
            } });
            fs::write(home.join("options.json"), options.to_string()).unwrap();
        }
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        Profiler::new().env("PATH", path).env("HOSTS", home.join("hosts"))
    });
    eprintln!("fleet: {} kills of {} runs", killed.kills, killed.runs);
}
