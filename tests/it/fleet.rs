//! A user runs a fleet: many runs from one file, on slots of this machine, on a cluster of hosts and on a real Slurm;
//! killed and resumed; and the lock that gives a run a single writer.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::slurm::Slurm;
use crate::support::ssh::Hosts;
use crate::support::{Profiler, eventually, killed_and_resumed_at, needs_slurm, needs_ssh};

/// Quick jobs of several kinds; one cannot run, and one fits on no slot.
const MIXED: &str = "
defaults: {script: adaptive, set: {engine: sim, sim: {time_scale: 0.02}, output: 64}}
jobs:
  - matrix: {input: [[64, 2048], [64, 20000]]}
  - {script: throughput, set: {input: 64, output: 16, concurrency: [1, 4], price_per_hour: 2}}
  - set: {engine: nowhere}
  - gpus: 9
  - {script: engine_info, set: {engine: openai, url: 'http://127.0.0.1:9', sim: {}}}
  - {script: batch, set: {file: models.yaml, concurrency: [1, 2]}, matrix: {entries: [[2]]}}
  - {script: slo, set: {input: 64, output: 16, slo: {ttft_ms: 0.001}, most: 2}}
";

/// A batch of two models.
const MODELS: &str =
    "models: [{model_id: a/one}, {model_id: b/two}]\ndefaults: {input_lengths: [64], output_lengths: [16]}";

/// Probes three points, waits for the file `gate` if one is given, and probes a fourth: the run stays under way until
/// the test lets it end.
const GATED: &str = r#"
import "std/engines" as engines;
let p = params(#{ gate: param((), "the file to wait for"), number: param(0, "which job it is") });
let engine = engines::describe("sim", #{ sim: #{ time_scale: 0.02 } });
for input in [64, 128, 256] { engine.probe(#{ input: input, output: 16 }); }
while p.gate != () && command::run(["test", "-e", p.gate]).code != 0 { sleep(0.05); }
`a point of 512 tokens: ${engine.probe(#{ input: 512, output: 16 }).verdict}`
"#;

/// The permission that the gated script needs.
const TEST: &str = "command=test";

/// A fleet of gated jobs with these parameters, in which `GO` is replaced by the path of a file in the fleet's folder.
fn gated(sets: &[&str]) -> Profiler {
    let program = Profiler::new().file("gated.rhai", GATED);
    let go = program.folder().join("go").display().to_string();
    let jobs: String = sets.iter().map(|set| format!("  - set: {{{set}}}\n")).collect();
    let file = format!("defaults: {{script: ./gated.rhai}}\njobs:\n{jobs}").replace("GO", &go);
    program
        .file("jobs.yaml", file)
        .args(["fleet", "jobs.yaml", "--out", "f"])
}

/// Long jobs of a shipped script.
const LONG: &str = "
defaults: {script: adaptive, set: {engine: sim, sim: {time_scale: 0.05}}}
jobs:
  - matrix: {input: [[64, 20000], [64, 19000], [64, 18000], [64, 17000]]}
";

fn fleet(file: &str) -> Profiler {
    Profiler::new()
        .file("jobs.yaml", file)
        .args(["fleet", "jobs.yaml", "--out", "f"])
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The command lines of running processes that contain this folder.
fn running(folder: &Path) -> Vec<String> {
    let named = folder.canonicalize().unwrap().display().to_string();
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&named)).collect()
}

/// The arguments of each probe that a run finished, and the attempts that worked on it.
fn finished(job: &Path) -> (Vec<String>, Vec<u64>) {
    let (mut probes, mut attempts) = (Vec::new(), Vec::new());
    for line in text(job.join("journal.jsonl")).lines() {
        // The last line may be torn.
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            break;
        };
        match event["event"].as_str().unwrap() {
            "attempt" => attempts.push(event["number"].as_u64().unwrap()),
            "done" if event["kind"] == "probe" => probes.push(event["args"].to_string()),
            _ => {}
        }
    }
    (probes, attempts)
}

#[track_caller]
fn nothing_was_repeated(job: &Path) {
    let (probes, _) = finished(job);
    let distinct: BTreeSet<_> = probes.iter().collect();
    assert_eq!(distinct.len(), probes.len(), "{}", job.display());
}

#[test]
fn jobs_of_one_file_run_on_slots_and_are_compared_on_one_page() {
    let outcome = fleet(MIXED)
        .file("models.yaml", MODELS)
        .args(["--set", "options.slots=2", "--allow", "mount=models.yaml", "--json"])
        .run()
        .success();
    let document = outcome.json();
    assert_eq!(document["simulated"], true);
    let result = &document["result"];
    assert_eq!(
        (&result["summary"]["done"], &result["summary"]["failed"]),
        (&json!(5), &json!(3))
    );
    let job = |name: &str| {
        let jobs = result["jobs"].as_array().unwrap();
        jobs.iter().find(|job| job["name"] == name).unwrap().clone()
    };
    let alone = Profiler::new()
        .args([
            "run",
            "adaptive",
            "--json",
            "--set",
            "engine=sim",
            "--set",
            "sim.time_scale=0.02",
        ])
        .args(["--set", "output=64", "--set", "input=[64,20000]"])
        .run()
        .success();
    let limit = alone.json()["result"]["answer"]["limit"].clone();
    assert_eq!(job("0002-adaptive")["answer"], limit, "as the same run alone");
    assert!(job("0003-throughput")["output_throughput"].as_f64() > Some(0.0));
    assert!(job("0003-throughput")["cost_output"].as_f64() > Some(0.0));
    assert_eq!(job("0004-adaptive")["status"], "failed");
    assert_eq!(job("0005-adaptive")["status"], "given up");
    // An address in the fleet file is not a permission of the user.
    let why = job("0006-engine_info")["why"].clone();
    assert!(why.as_str().unwrap().contains("connect"), "{why}");
    let hint = job("0006-engine_info")["hint"].clone();
    assert!(
        !hint.as_str().unwrap().contains("--url"),
        "of the job, not of the fleet: {hint}"
    );
    // One entry of the batch needs one start.
    let answer = job("0007-batch")["answer"].clone();
    assert!(
        answer.as_str().unwrap().starts_with("2 of 2 configurations"),
        "{answer}"
    );
    let missed = job("0008-slo");
    assert!(
        missed["status"] == "done" && missed["output_throughput"].is_null(),
        "what misses the limits is no answer: {missed}"
    );
    let out = outcome.folder().join("f");
    let page = text(out.join("report.html"));
    for part in [
        "by model",
        "each job",
        "engine adapter",
        "no host has 9 such slots",
        r#"href="jobs&#x2f;0002-adaptive&#x2f;report.html""#,
        limit.as_str().unwrap(),
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(text(out.join("tables/jobs.csv")).lines().count(), 9);
    let shown = Profiler::new()
        .arg("show")
        .arg(out.join("jobs/0002-adaptive"))
        .run()
        .success();
    let _ = shown.stdout(limit.as_str().unwrap());
}

/// Everything of a job comes from the fleet's file; who starts an attempt by hand can name more on its command line.
#[test]
fn an_attempt_by_hand_gets_hints_of_its_own() {
    let names = |more: &[&str]| {
        let attempt = Profiler::new()
            .file("p.json", r#"{"engine": "openai", "url": "http://10.1.2.3:8000"}"#)
            .args([
                "run",
                "engine_info",
                "--params",
                "p.json",
                "--out",
                "r",
                "--attempt",
                "1",
            ])
            .args(more);
        attempt.run().code(3).stderr.contains("--url")
    };
    assert!(!names(&[]) && names(&["--set", "start_timeout=60"]));
}

/// A wrong use, a time limit before anything is measured, and a job that loses its script before its turn.
#[test]
fn a_job_that_another_attempt_would_not_help_has_one() {
    let jobs = "
jobs:
  - {script: ./first.rhai}
  - {script: ./second.rhai}
  - {script: throughput, set: {engine: sim, sim: {nope: 3}}}
  - {script: adaptive, max_time: 1s, set: {engine: sim, sim: {time_scale: 1.0}, input: [64, 20000], output: 64}}
";
    let program = fleet(jobs)
        .file("first.rhai", "command::run([\"rm\", \"second.rhai\"]); true")
        .file("second.rhai", "true");
    let outcome = program.args(["--allow", "command=rm", "--json"]).run().success();
    let result = outcome.json()["result"].clone();
    let statuses: Vec<&Value> = result["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| &job["status"])
        .collect();
    assert_eq!(
        json!(statuses),
        json!(["done", "given up", "failed", "out of time"]),
        "{result}"
    );
    let summary = &result["summary"];
    assert_eq!(
        [&summary["done"], &summary["out_of_time"], &summary["failed"]],
        [&json!(1), &json!(0), &json!(3)]
    );
    let out = outcome.folder().join("f");
    assert_eq!(text(out.join("logs/0002-second.log")).matches("second.rhai").count(), 1);
    for job in ["0003-throughput", "0004-adaptive"] {
        let (_, attempts) = finished(&out.join("jobs").join(job));
        assert_eq!(attempts, [100], "{job}");
    }
    // Its last words say why.
    let why = result["jobs"][1]["why"].as_str().unwrap();
    assert!(why.contains("second.rhai"), "{why}");
    assert!(result["jobs"][3]["answer"].is_null(), "{result}");
}

#[test]
fn hints_name_options_that_the_command_has() {
    let help = Profiler::new().args(["fleet", "--help"]).run().success();
    let known: BTreeSet<&str> = options_in(&help.stdout).collect();
    let jobs = |more: &str| format!("jobs:\n  - script: throughput\n    {more}");
    for (file, args) in [
        (jobs("max_time: 5x"), &[][..]),
        (jobs("set: {engine: sim, settings: {nope: 3}}"), &[]),
        (
            jobs("set: {engine: openai, url: 'http://10.1.2.3:8000', model: m}"),
            &[],
        ),
        (jobs("gpus: -1"), &[]),
        (
            jobs("set: {engine: sim}").replace("jobs:", "defaults: {set: 3}\njobs:"),
            &[],
        ),
        (jobs(""), &["--cluster", "ssh"]),
        (jobs(""), &["--cluster", "slurm"]),
        (jobs(""), &["--cluster", "./nowhere.rhai"]),
        (jobs(""), &["--set", "attempts=0"]),
        (jobs(""), &["--detach"]),
    ] {
        let outcome = fleet(&file).args(args).run();
        // The engine of a job may be what is not allowed.
        assert!(
            matches!(outcome.code, Some(1..=3)),
            "{file} {args:?}: {}",
            outcome.stderr
        );
        let hints = outcome
            .stderr
            .lines()
            .filter(|line| line.contains("hint: ") || line.contains("help: "));
        let unknown: Vec<&str> = hints
            .flat_map(options_in)
            .filter(|option| !known.contains(option))
            .collect();
        assert!(unknown.is_empty(), "{unknown:?} in {}", outcome.stderr);
    }
    for wrong in ["/tmp", "nowhere.yaml"] {
        let outcome = Profiler::new().args(["fleet", wrong]).run();
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains("hint: ") && !outcome.stderr.contains("--file"),
            "{}",
            outcome.stderr
        );
    }
}

/// Words with two dashes.
fn options_in(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    words.filter(|word| word.starts_with("--") && word.len() > 2)
}

/// A script once for each value of a launch setting; killed after the first of its runs.
#[test]
fn each_choice_of_a_launch_setting_is_a_run_of_any_script() {
    let program = Profiler::new()
        .args(["run", "throughput", "--engine", "sim", "--sim.time-scale", "0.1"])
        .args([
            "--input",
            "64",
            "--output",
            "16",
            "--concurrency",
            "16",
            "--min-requests",
            "8",
        ])
        .args(["--requests-per-slot", "1", "--matrix", "settings.max_num_seqs=1,16"])
        .args(["--seed", "3", "--json", "--out", "killed"]);
    let (result, journal) = killed_and_resumed_at(program, "\"event\":\"done\",\"kind\":\"job\"", 1);
    assert_eq!(journal.matches("\"event\":\"done\",\"kind\":\"job\"").count(), 2);
    let [narrow, wide] = &result["jobs"].as_array().unwrap()[..] else {
        panic!("{result}")
    };
    let rate = |job: &Value| job["output_throughput"].as_f64().unwrap();
    assert_eq!(narrow["setting"], "settings.max_num_seqs=1");
    assert!(rate(wide) > rate(narrow), "{result}");
    let finding = result["finding"].as_str().unwrap();
    assert!(finding.ends_with("with settings.max_num_seqs=16"), "{finding}");
}

/// An engine that prints its flags, and fails each start.
#[test]
fn a_launch_setting_that_cannot_be_is_refused_before_the_first_run() {
    let run = |matrix: &str| {
        let program = Profiler::new().file("vllm", "#!/bin/sh\necho '  --max-num-seqs N'\n");
        let path = program.folder().join("vllm");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let args = ["run", "memory_breakdown", "--engine", "vllm", "--runtime", "process"];
        let place = [
            "--program",
            "./vllm",
            "--allow",
            "process",
            "--out",
            "f",
            "--matrix",
            matrix,
        ];
        program.args(args).args(place).run()
    };
    for (matrix, says) in [
        ("settings.max_seqs=1,2", "max_num_seqs"),
        ("settings.max_num_seqs=1,many", "max_num_seqs"),
        ("settings.--max-num-sequences=1,2", "--max-num-seqs"),
        ("settings.kv-cache-dtype=auto,fp8", "--set kv_cache_dtype"),
        ("gpus=0,1", "--gpus"),
    ] {
        let outcome = run(matrix);
        assert_eq!(outcome.code, Some(2), "{matrix}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(says), "{matrix}: {}", outcome.stderr);
        assert!(!outcome.folder().join("f").exists(), "{matrix}: {}", outcome.stderr);
    }
}

/// A cluster that throws when a job is submitted.
const REFUSING: &str = r#"
fn slots(options) { [#{ name: "a", host: "a", gpu: (), queue: true }] }
fn submit(jobs) { throw fault("script", "submitted", "no hint"); }
fn status(jobs) { jobs.map(|job| "ended") }
fn cancel(job) {}
fn collect(job) {}
fn logs(job) { [] }
"#;

/// On another host the program is not asked, but the adapter's table is the same.
#[test]
fn a_launch_setting_that_cannot_be_is_refused_before_a_job_is_submitted_elsewhere() {
    let run = |set: &str| {
        let jobs = format!(
            "jobs: [{{script: adaptive, set: {{engine: vllm, runtime: process, program: /there/vllm, {set}}}}}]"
        );
        fleet(&jobs)
            .file("noting.rhai", REFUSING)
            .args(["--set", "cluster=./noting.rhai", "--allow", "process"])
            .run()
    };
    for (set, says) in [
        ("settings: {max_seqs: 1}", "max_num_seqs"),
        ("settings: {max_num_seqs: many}", "max_num_seqs"),
        ("settings: {kv_cache_dtype: fp8}", "--set kv_cache_dtype"),
    ] {
        let outcome = run(set);
        assert_eq!(outcome.code, Some(2), "{set}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(says), "{set}: {}", outcome.stderr);
    }
    let outcome = run("settings: {max_num_seqs: 1}");
    assert!(outcome.stderr.contains("submitted"), "{}", outcome.stderr);
}

/// One file tunes several models.
#[test]
fn a_fleet_tunes_several_models() {
    let tuned = "
jobs:
  - script: tune
    set: {engine: sim, sim: {time_scale: 0.1}, space: {cuda_graphs: [false]}, most: 4, input: 64, output: 8, attainment: 0.5, min_requests: 8, requests_per_slot: 2, hold: 1}
    matrix: {profile: [llama-8b-24gb-vllm, llama-8b-h200-vllm]}
";
    let outcome = fleet(tuned)
        .args(["--set", "options.slots=1", "--json"])
        .run()
        .success();
    let found = outcome.json()["result"].clone();
    assert_eq!(found["summary"]["done"], 2, "{found}");
    for job in found["jobs"].as_array().unwrap() {
        assert!(job["answer"].as_str().unwrap().contains("output tokens/s"), "{found}");
    }
}

/// The runs see the GPUs that a single run of the script would have, numbered anew.
#[test]
fn each_way_to_write_the_gpus_of_a_matrix_is_understood() {
    let rows: [(&str, &[&str], Value, Value); 8] = [
        ("throughput", &[], json!([0]), Value::Null),
        ("throughput", &["--gpus", "0,1"], json!([0, 1]), json!([0, 1])),
        ("throughput", &["--gpus", "1"], json!([1]), json!([0])),
        ("throughput", &["--set", "gpus=[2,3]"], json!([2, 3]), json!([0, 1])),
        ("throughput", &["--gpus", "2..3"], json!([2, 3]), json!([0, 1])),
        ("throughput", &["--gpus", "device=4,5"], json!([4, 5]), json!([0, 1])),
        ("throughput", &["--gpus", "all"], json!(["all"]), json!("all")),
        ("tensor_parallel", &[], json!(["all"]), Value::Null),
    ];
    for (script, args, slots, sees) in rows {
        let parameters = matrix(script, args, &["input=64,128"]);
        assert_eq!(parameters["options"]["gpus"], slots, "{args:?}");
        assert_eq!(parameters["jobs"][0]["set"]["gpus"], sees, "{args:?}");
    }
}

#[test]
fn each_way_to_write_the_values_of_a_matrix_is_understood() {
    let slo = json!({ "ttft_ms": 500, "tpot_ms": 50 });
    let one_slo = format!("slo={slo}");
    let rows: [(&[&str], &str, Value); 7] = [
        (&["input=64,128"], "input", json!([64, 128])),
        (&["input=[64,128]"], "input", json!([64, 128])),
        (&["input=64", "input=128"], "input", json!([64, 128])),
        (&[&one_slo], "slo", json!([slo])),
        (&["model=\"a,b\",c"], "model", json!(["a,b", "c"])),
        (&["kv-cache-dtype=auto,fp8"], "kv_cache_dtype", json!(["auto", "fp8"])),
        (&["settings.--max_seqs=1,2"], "settings.--max_seqs", json!([1, 2])),
    ];
    for (given, name, values) in rows {
        let parameters = matrix("slo", &[], given);
        assert_eq!(parameters["jobs"][0]["matrix"][name], values, "{given:?}");
    }
}

/// The parameters of the fleet that a matrix is.
fn matrix(script: &str, args: &[&str], given: &[&str]) -> Value {
    let given = given.iter().flat_map(|one| ["--matrix", one]);
    let program = Profiler::new().args(["run", script, "--engine", "sim", "--dry-run", "--json"]);
    let outcome = program.args(args).args(given).run();
    serde_json::from_str::<Value>(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stderr))["parameters"]
        .take()
}

#[test]
fn a_killed_fleet_repeats_nothing_and_leaves_nothing_running() {
    let fleet = gated(&["number: 1", "number: 2", "number: 3, gate: GO", "number: 4"]);
    let (mut child, folder) = fleet.args(["--set", "options.slots=2", "--allow", TEST]).spawn();
    let out = folder.path().join("f");
    let ended = || {
        text(out.join("journal.jsonl"))
            .matches("\"event\":\"done\",\"kind\":\"job\"")
            .count()
    };
    let third = out.join("jobs/0003-gated");
    eventually("a job ended and a later one measured", || {
        ended() > 0 && finished(&third).0.len() == 3
    });
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the jobs of a killed fleet end", || running(&out).is_empty());
    fs::write(folder.path().join("go"), "").unwrap();
    let before = ended();
    let followed = Profiler::new()
        .current_dir(folder.path())
        .args(["fleet", "--follow", "f", "--json", "--allow", TEST]);
    let result = followed.run().success().json()["result"].clone();
    assert_eq!(result["summary"]["done"], 4);
    assert_eq!(ended(), 4, "{before} were not run again");
    for number in 1..=4 {
        let job = out.join(format!("jobs/000{number}-gated"));
        nothing_was_repeated(&job);
        let (probes, attempts) = finished(&job);
        assert_eq!(probes.len(), 4, "{}", job.display());
        assert!(attempts == [100] || attempts == [100, 200], "{attempts:?}");
    }
    assert_eq!(finished(&third).1, [100, 200]);
}

#[test]
fn a_later_attempt_ends_an_earlier_one_and_goes_on_with_its_run() {
    let first = Profiler::new().file("gated.rhai", GATED);
    let home = first.folder().to_owned();
    let (out, go) = (home.join("r"), home.join("go"));
    let attempt = |program: Profiler, number: &str| {
        let set = format!("gate={}", go.display());
        let program = program.args(["run", "gated.rhai", "--attempt", number, "--set", &set, "--allow", TEST]);
        program.current_dir(&home).arg("--out").arg(&out)
    };
    let again = |number: &str| attempt(Profiler::new(), number);
    let (mut earlier, _folder) = attempt(first, "1").spawn();
    eventually("the first attempt measured", || finished(&out).0.len() == 3);
    let (mut later, _other) = again("2").spawn();
    eventually("one of them ends", || {
        earlier.try_wait().unwrap().is_some() || later.try_wait().unwrap().is_some()
    });
    let status = earlier.try_wait().unwrap();
    assert_eq!(status.and_then(|status| status.code()), Some(75));
    eventually("the second attempt goes on", || finished(&out).1 == [1, 2]);
    fs::write(&go, "").unwrap();
    let later = later.wait_with_output().unwrap();
    assert!(later.status.success(), "{}", String::from_utf8_lossy(&later.stderr));
    nothing_was_repeated(&out);
    assert_eq!((finished(&out).0.len(), finished(&out).1), (4, vec![1, 2]));
    let ended = text(out.join("journal.jsonl"));
    let _ = again("1").run().stdout("a point of 512 tokens: ok").code(0);
    assert_eq!(
        text(out.join("journal.jsonl")),
        ended,
        "what is done is shown, and nothing is written"
    );
    let manifest = text(out.join("manifest.json"));
    fs::write(out.join("manifest.json"), manifest.replace("\"done\"", "\"running\"")).unwrap();
    let _ = again("1").run().code(130).stderr("attempt 2 took over the run");
}

#[test]
fn a_cluster_is_one_file_which_is_checked_and_may_do_what_is_allowed() {
    let readme = text(concat!(env!("CARGO_MANIFEST_DIR"), "/stdlib/clusters/README.md"));
    let example = readme
        .split("```rhai shell.rhai\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let mine = |file: &str| {
        fleet("defaults: {script: engine_info, set: {engine: sim}}\njobs: [{}, {}]")
            .file("mine.rhai", file)
            .args(["--cluster", "./mine.rhai"])
    };
    // A copied script needs permissions like any script that is not shipped.
    let _ = mine(example)
        .args(["--allow", "command=sh"])
        .run()
        .code(3)
        .stderr("--allow process");
    let outcome = mine(example).args(["--allow", "process,command=sh"]).run().success();
    let _ = outcome.stdout("2 of 2 jobs were done");
    let _ = Profiler::new()
        .file("mine.rhai", example.replace("fn logs(job)", "fn log(job)"))
        .args(["check", "mine.rhai"])
        .run()
        .code(2)
        .stderr("this cluster does not export `logs(job)`");
    let refused = fleet(LONG).args(["--cluster", "slurm"]).run().code(3);
    let _ = refused.stderr("--allow command=scontrol");
}

#[test]
fn a_command_has_the_token_only_if_it_is_allowed() {
    for (allowed, code) in [("command=printenv", "status 1"), ("command=printenv,token", "status 0")] {
        let _ = Profiler::new()
            .env("HF_TOKEN", "hf_TEST")
            .file("s.rhai", r#"`status ${command::run(["printenv", "HF_TOKEN"]).code}`"#)
            .args(["run", "s.rhai", "--allow", allowed])
            .run()
            .success()
            .stdout(code);
    }
}

#[test]
fn what_is_wrong_with_the_file_is_said_before_anything_starts() {
    for (file, said) in [
        ("models: []", "it has no list `jobs`"),
        (
            "jobs: [{script: adaptive, gpu_count: 2}]",
            "entry 1 of `jobs` has an unknown key `gpu_count`",
        ),
        (
            "jobs: [{script: adaptive}, {set: {}}]",
            "entry 2 of `jobs`: `script` is missing",
        ),
        (
            "jobs: [{script: adaptive, matrix: {input: 5}}]",
            "`input` of `matrix` is no list",
        ),
        ("jobs: [{script: adaptve}]", "`adaptve`"),
        ("jobs: [{script: adaptive, set: {inputt: 5}}]", "job `0001-adaptive`"),
    ] {
        let outcome = fleet(file).run().code(2).stderr(said);
        assert!(!outcome.folder().join("f").exists(), "{file}");
    }
    let local = fleet(LONG).arg("--detach").run().code(2).stderr("it cannot be left");
    assert!(!local.folder().join("f").exists());
}

const SLURM: &str = "command=sbatch,command=squeue,command=scancel,command=scontrol,command=test";

#[test]
fn on_slurm_a_job_that_was_used_wrongly_has_one_attempt() {
    if !needs_slurm() {
        return;
    }
    let slurm = Slurm::start();
    let on_slurm = |program: Profiler| {
        program
            .env("SLURM_CONF", slurm.conf())
            .args(["--allow", SLURM, "--json"])
    };
    let nodes = |state: &str| {
        slurm.said(
            "scontrol",
            &["update", "NodeName=n1,n2", "Reason=test", &format!("State={state}")],
        )
    };
    nodes("DRAIN");
    let begin = gated(&["number: 1"]).args(["--cluster", "slurm", "--detach"]);
    let (child, folder) = on_slurm(begin).spawn();
    assert!(child.wait_with_output().unwrap().status.success());
    fs::remove_file(folder.path().join("gated.rhai")).unwrap();
    nodes("RESUME");
    eventually("its task ended", || slurm.said("squeue", &["-h"]).is_empty());
    fs::write(folder.path().join("gated.rhai"), GATED).unwrap();
    let follow = Profiler::new()
        .current_dir(folder.path())
        .args(["fleet", "--follow", "f"]);
    let ended = on_slurm(follow).run().code(1);
    let _ = ended
        .stderr("another attempt would end as this one did")
        .stderr("gated.rhai");
}

/// Two jobs that one node can run at the same time, each waiting for the file `GO`.
const TWO: [&str; 2] = ["number: 1, gate: GO", "number: 2, gate: GO"];

#[test]
fn on_slurm_each_run_is_done_once_though_a_node_is_lost_and_the_fleet_is_left() {
    if !needs_slurm() {
        return;
    }
    let slurm = Slurm::start();
    let begin = gated(&TWO)
        .env("SLURM_CONF", slurm.conf())
        .args(["--cluster", "slurm", "--detach", "--allow", SLURM]);
    let (child, folder) = begin.spawn();
    let left = child.wait_with_output().unwrap();
    assert!(left.status.success(), "{}", String::from_utf8_lossy(&left.stderr));
    let out = folder.path().join("f");
    // Only the daemon of the task's node dies: the task's process lives on, and must end when Slurm runs the task
    // elsewhere.
    let mut lost = None;
    eventually("a task measures", || {
        lost = slurm.tasks("n1").into_iter().next();
        let job = lost.map(|task| out.join(format!("jobs/{task:04}-gated")));
        job.is_some_and(|job| finished(&job).0.len() == 3)
    });
    slurm.kill_daemon("n1");
    let follow = Profiler::new()
        .env("SLURM_CONF", slurm.conf())
        .current_dir(folder.path())
        .args(["fleet", "--follow", "f", "--allow", SLURM, "--json"]);
    let (follow, _other) = follow.spawn();
    let job = out.join(format!("jobs/{:04}-gated", lost.unwrap()));
    // Slurm requeues the task, which counts as another attempt.
    eventually("Slurm has it done elsewhere", || finished(&job).1 == [100, 101]);
    fs::write(folder.path().join("go"), "").unwrap();
    let followed = follow.wait_with_output().unwrap();
    assert!(
        followed.status.success(),
        "{}",
        String::from_utf8_lossy(&followed.stderr)
    );
    let document: Value = serde_json::from_slice(&followed.stdout).unwrap();
    assert_eq!(document["result"]["summary"]["done"], 2);
    for number in 1..=2 {
        let job = out.join(format!("jobs/{number:04}-gated"));
        nothing_was_repeated(&job);
        assert_eq!(finished(&job).0.len(), 4, "{}", job.display());
    }
    assert_eq!(finished(&job).1, [100, 101]);
    eventually("nothing is left running", || running(&out).is_empty());

    // A cancelled job leaves the queue, and does not count as lost.
    let again = gated(&TWO)
        .env("SLURM_CONF", slurm.conf())
        .args(["--cluster", "slurm", "--detach", "--allow", SLURM]);
    let (child, folder) = again.spawn();
    assert!(child.wait_with_output().unwrap().status.success());
    let cancel = Profiler::new()
        .env("SLURM_CONF", slurm.conf())
        .current_dir(folder.path())
        .args(["fleet", "--follow", "f", "--cancel", "--allow", SLURM]);
    let _ = cancel.run().success().stderr("jobs were taken back");
    eventually("the queue is empty", || slurm.said("squeue", &["-h"]).is_empty());
}

const SSH: &str = "command=ssh,command=test";

#[test]
fn by_ssh_the_jobs_of_a_host_that_does_not_answer_are_done_on_another() {
    if !needs_ssh() {
        return;
    }
    let hosts = Hosts::start(2);
    let fleet = gated(&[
        "number: 1, gate: GO1",
        "number: 2",
        "number: 3, gate: GO",
        "number: 4, gate: GO",
    ])
    .args(hosts.args(r#","slots":2,"gone":1,"lease":20"#))
    .args(["--allow", SSH, "--json"]);
    let (mut child, folder) = fleet.spawn();
    let at = |host, name| finished(&hosts.job(host, name));
    eventually("both hosts measure", || {
        at(1, "0001-gated").0.len() == 3 && at(2, "0003-gated").0.len() == 3 && at(2, "0004-gated").0.len() == 3
    });
    hosts.silence(1);
    eventually("the silent host ends what nobody asks for", || {
        hosts.running(1).is_empty()
    });
    fs::write(folder.path().join("go"), "").unwrap();
    eventually("its job is begun elsewhere", || at(2, "0001-gated").0.len() == 3);
    child.kill().unwrap();
    let errors = String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr).into_owned();
    assert!(errors.contains("h1 does not answer"), "{errors}");
    // The host is back when the fleet is followed, but its copy of the job is the older one.
    hosts.wake(1);
    fs::write(folder.path().join("go1"), "").unwrap();
    let followed = Profiler::new()
        .current_dir(folder.path())
        .args(["fleet", "--follow", "f", "--json", "--allow", SSH]);
    assert_eq!(followed.run().success().json()["result"]["summary"]["done"], 4);
    // A host that is slow to answer loses its job again.
    assert_ne!(finished(&folder.path().join("f/jobs/0001-gated")).1, [100]);
    for number in 1..=4 {
        let job = folder.path().join(format!("f/jobs/{number:04}-gated"));
        nothing_was_repeated(&job);
        assert_eq!(finished(&job).0.len(), 4, "{}", job.display());
    }
    eventually("nothing is left running", || hosts.running(2).is_empty());
}

#[test]
fn by_ssh_what_only_a_host_can_do_that_does_not_answer_waits_for_it() {
    if !needs_ssh() {
        return;
    }
    let hosts = Hosts::start(2);
    let options = hosts
        .options(r#","gone":20"#)
        .replace("\"h1\"", r#"{"host":"h1","slots":2}"#);
    let begin = Profiler::new().file("gated.rhai", GATED);
    let go = begin.folder().join("go").display().to_string();
    let fleet = begin
        .file(
            "jobs.yaml",
            format!("jobs: [{{script: ./gated.rhai, gpus: 2, set: {{gate: {go}}}}}]"),
        )
        .args([
            "fleet",
            "jobs.yaml",
            "--out",
            "f",
            "--cluster",
            "ssh",
            "--detach",
            "--set",
        ])
        .arg(format!("options={options}"))
        .args(["--allow", SSH]);
    let (child, folder) = fleet.spawn();
    assert!(child.wait_with_output().unwrap().status.success());
    let follow = || {
        Profiler::new()
            .current_dir(folder.path())
            .args(["fleet", "--follow", "f", "--allow", SSH])
    };
    eventually("the first host measures", || {
        finished(&hosts.job(1, "0001-gated")).0.len() == 3
    });
    hosts.silence(1);
    let _ = follow()
        .arg("--cancel")
        .run()
        .success()
        .stderr("go on at hosts that do not answer: h1");
    let _ = follow()
        .run()
        .success()
        .stderr("1 found no slots, as hosts do not answer: h1");
    // The host answers again while `--follow` asks it.
    let (mut child, _other) = follow().spawn();
    let mut errors = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    assert!(errors.any(|line| line.contains("h1 does not answer")));
    hosts.wake(1);
    fs::write(folder.path().join("go"), "").unwrap();
    let rest: Vec<_> = errors.collect();
    assert!(child.wait().unwrap().success(), "{rest:?}");
    let job = folder.path().join("f/jobs/0001-gated");
    nothing_was_repeated(&job);
    assert_eq!((finished(&job).0.len(), finished(&job).1), (4, vec![100]));
    eventually("nothing is left running", || hosts.running(1).is_empty());
}

#[test]
fn by_ssh_a_fleet_is_not_left_before_its_jobs_were_seen() {
    if !needs_ssh() {
        return;
    }
    let hosts = Hosts::start(1);
    let older = "#!/bin/sh\necho 'error: unexpected argument' >&2\nexit 2\n";
    for (program, says, attempts) in [
        ("/nowhere/profiler", "/nowhere/profiler", "3 attempts"),
        (
            "older",
            "unexpected argument",
            "another attempt would end as this one did",
        ),
    ] {
        let fleet = gated(&["number: 1"]).file("older", older);
        let path = fleet.folder().join("older");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let path = fleet.folder().join(program).display().to_string();
        let fleet = fleet.args(hosts.args(&format!(r#","program":"{path}""#)));
        let ended = fleet.args(["--detach", "--allow", SSH]).run().code(1);
        let _ = ended.stderr(attempts).stderr(says);
    }
}

#[test]
fn by_ssh_a_killed_fleet_goes_on_with_what_its_hosts_measured() {
    if !needs_ssh() {
        return;
    }
    let hosts = Hosts::start(1);
    let fleet = gated(&["number: 1, gate: GO", "number: 2"])
        .args(hosts.args(r#","slots":2"#))
        .args(["--allow", SSH]);
    let (mut child, folder) = fleet.spawn();
    let (out, first) = (folder.path().join("f"), || {
        finished(&hosts.job(1, "0001-gated")).0.len() == 3
    });
    eventually("one is done, and one is under way", || {
        first() && out.join("jobs/0002-gated/result.json").exists()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(folder.path().join("go"), "").unwrap();
    let followed = Profiler::new()
        .current_dir(folder.path())
        .args(["fleet", "--follow", "f", "--json", "--allow", SSH]);
    assert_eq!(followed.run().success().json()["result"]["summary"]["done"], 2);
    for number in 1..=2 {
        let job = out.join(format!("jobs/{number:04}-gated"));
        nothing_was_repeated(&job);
        assert_eq!(finished(&job).0.len(), 4, "{}", job.display());
    }
    let programs = fs::read_dir(hosts.cache(1)).unwrap().filter_map(Result::ok);
    let programs = programs.filter(|entry| entry.path().is_file()).count();
    assert_eq!(programs, 1, "the program is there once");
    eventually("nothing is left running", || hosts.running(1).is_empty());
}

#[test]
fn by_ssh_a_fleet_that_is_left_goes_on_and_one_job_waits_for_the_slot_of_another() {
    if !needs_ssh() {
        return;
    }
    let hosts = Hosts::start(1);
    let sets = ["number: 1, gate: GO", "number: 2", "number: 3, gate: GO3", "number: 4"];
    let fleet = gated(&sets).args(hosts.args("")).args(["--detach", "--allow", SSH]);
    let (child, folder) = fleet.spawn();
    let left = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&left.stderr).into_owned();
    assert!(left.status.success(), "{errors}");
    assert!(errors.contains("4 jobs are in the queue"), "{errors}");
    let at = |name| finished(&hosts.job(1, name)).0.len();
    // As if the host had not been contacted for long. The processes that would then end its jobs check twice.
    hosts.forget(1);
    let before = hosts.running(1);
    let mut looked = BTreeSet::new();
    eventually("its jobs are looked after", || {
        looked.extend(hosts.running(1).difference(&before).cloned());
        at("0001-gated") == 3 && looked.len() > 20
    });
    assert_eq!(at("0002-gated"), 0, "it has no slot yet");
    fs::write(folder.path().join("go"), "").unwrap();
    eventually("the third has the slot", || at("0003-gated") == 3);
    let follow = || {
        Profiler::new()
            .current_dir(folder.path())
            .args(["fleet", "--follow", "f", "--json", "--allow", SSH])
    };
    // Waiting jobs are submitted again, behind the running ones.
    let _ = follow()
        .arg("--detach")
        .run()
        .success()
        .stderr("2 jobs are in the queue");
    assert_eq!(at("0004-gated"), 0, "it has no slot yet");
    fs::write(folder.path().join("go3"), "").unwrap();
    assert_eq!(follow().run().success().json()["result"]["summary"]["done"], 4);
    for number in 1..=4 {
        let job = folder.path().join(format!("f/jobs/{number:04}-gated"));
        nothing_was_repeated(&job);
        assert_eq!(
            (finished(&job).0.len(), finished(&job).1.len()),
            (4, 1),
            "{}",
            job.display()
        );
    }
    eventually("nothing is left running", || hosts.running(1).is_empty());
}

#[test]
fn by_ssh_a_shared_run_goes_on_elsewhere_from_its_own_journal() {
    if !needs_ssh() {
        return;
    }
    let hosts = Hosts::start(2);
    let fleet = gated(&["number: 1", "number: 2, gate: GO"])
        .args(hosts.args(r#","shared_folder":true,"gone":1"#))
        .args(["--allow", SSH]);
    let (child, folder) = fleet.spawn();
    let job = folder.path().join("f/jobs/0002-gated");
    eventually("the second host measures", || finished(&job).0.len() == 3);
    hosts.silence(2);
    // The host is alive: its run ends when it sees that another attempt has begun.
    eventually("another attempt goes on with it", || finished(&job).1 == [100, 200]);
    fs::write(folder.path().join("go"), "").unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    nothing_was_repeated(&job);
    assert_eq!((finished(&job).0.len(), finished(&job).1), (4, vec![100, 200]));
    eventually("nothing is left running", || {
        running(&folder.path().join("f")).is_empty()
    });
}

#[test]
fn what_comes_back_of_a_job_is_files_and_folders_of_its_own_and_no_more_than_a_run_may_write() {
    let archive = |entries: &[(&str, tar::EntryType, &[u8])]| {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, kind, contents) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o644);
            header.set_size(contents.len() as u64);
            // Names and links that `tar` itself would not write.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.as_old_mut().linkname[..4].copy_from_slice(b"/etc");
            header.set_cksum();
            archive.append(&header, *contents).unwrap();
        }
        archive.into_inner().unwrap()
    };
    let (file, link) = (tar::EntryType::Regular, tar::EntryType::Symlink);
    let script = r#"
        jobs::prepare("one", #{ script: "adaptive", set: #{ engine: "sim" } });
        for name in ["odd", "up", "big"] {
            try { command::run(["cat", name + ".tar"], #{ fetch: "one" }); } catch (fault) { print(`${fault.kind}: ${fault.message}`); }
        }"#;
    let outcome = Profiler::new()
        .file("s.rhai", script)
        .file("odd.tar", archive(&[("sub/kept", file, b"kept"), ("link", link, b"")]))
        .file("up.tar", archive(&[("../up", file, b"up")]))
        .file("big.tar", archive(&[("big", file, &[0; 3 << 20])]))
        .args([
            "run",
            "s.rhai",
            "--out",
            "r",
            "--max-disk",
            "1MB",
            "--allow",
            "process,command=cat",
        ])
        .run()
        .success()
        .stdout("../up")
        .stdout("1 MB")
        .stderr("`link` (a symbolic link)");
    let jobs = outcome.folder().join("r/jobs");
    assert_eq!(text(jobs.join("one/sub/kept")), "kept");
    for name in ["one/link", "up", "one/big"] {
        assert!(fs::symlink_metadata(jobs.join(name)).is_err(), "{name}");
    }
}
