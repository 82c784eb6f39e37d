//! Each parameter of each shipped script changes something on the wire, in the launch, in the points or in the answer,
//! or is refused before anything starts. The rows are in `tests/data/parameters.toml`; a parameter that several scripts
//! share needs one. `PROFILER_TEST_ROWS=slo` tries only the rows of the scripts or parameters with such a name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use profiler::script::params::settable;
use profiler::script::{Main, describe_params};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::script::bench::Bench;
use crate::support::made_up::{MadeUp, Running};
use crate::support::{Profiler, model};

/// Workers, each with one run at a time.
const WORKERS: usize = 4;

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts");
const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/parameters.toml");
const RESULTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/data/runs/vllm-neighbours/profile_res_20261123_212120.json"
);

#[derive(Deserialize)]
struct Table {
    /// Parameters by name, from which rows start.
    bases: BTreeMap<String, Vec<String>>,
    /// Script, parameter, value, base and further parameters, and where the change must be seen.
    rows: Vec<[String; 5]>,
    /// Parameters that no run without GPU or permissions shows (`script.name`), and the test that covers each.
    elsewhere: BTreeMap<String, String>,
}

impl Table {
    fn read() -> Self {
        toml::from_str(&fs::read_to_string(TABLE).unwrap()).unwrap()
    }

    /// The parameters that a row sets in both runs: those of its base, then its own.
    fn given(&self, base: &str) -> Vec<String> {
        let mut words = base.split(' ').filter(|word| !word.is_empty());
        let named = &self.bases[words.next().unwrap()];
        named.iter().cloned().chain(words.map(str::to_owned)).collect()
    }
}

#[test]
fn each_declared_parameter_has_a_row() {
    let table = Table::read();
    let bench = Bench::script("1");
    let mut declared = BTreeMap::new();
    for entry in fs::read_dir(SCRIPTS).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rhai") {
            continue;
        }
        let script = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let all = settable(&describe_params(&bench.host(), &Main::open(&path).unwrap()).unwrap());
        for one in &all {
            // A map whose keys are known is covered by them.
            let within = format!("{}.", one.name);
            if !all.iter().any(|other| other.name.starts_with(&within)) {
                let meaning = (one.name.clone(), one.meaning.clone(), one.default.to_string());
                declared.insert((script.clone(), one.name.clone()), meaning);
            }
        }
    }
    let rows = table
        .rows
        .iter()
        .map(|[script, name, ..]| (script.clone(), name.clone()));
    let elsewhere = table.elsewhere.keys().map(|name| {
        let (script, name) = name.split_once('.').unwrap();
        (script.to_owned(), name.to_owned())
    });
    let covered: BTreeSet<_> = rows.chain(elsewhere).filter_map(|row| declared.get(&row)).collect();
    let missing: Vec<_> = declared
        .iter()
        .filter(|(_, meaning)| !covered.contains(meaning))
        .map(|(row, _)| row)
        .collect();
    assert!(missing.is_empty(), "no row in tests/data/parameters.toml: {missing:?}");
}

/// Recorded runs.
const RUNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/runs");

/// The ends of the ranges of numbers, and what is none.
const ENDS: [&str; 7] = ["-1", "9223372036854775807", "NaN", "0", "1e308", "Infinity", "1e-308"];

/// Runs each numeric parameter of the shipped scripts with some of [`ENDS`], as far as a dry run goes.
fn try_ends(ends: impl Fn(usize) -> Vec<&'static str>) {
    let bench = Bench::script("1");
    let (mut seen, mut cases) = (BTreeSet::new(), Vec::new());
    for entry in fs::read_dir(SCRIPTS).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rhai") {
            continue;
        }
        let script = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let all = settable(&describe_params(&bench.host(), &Main::open(&path).unwrap()).unwrap());
        let has_engine = all.iter().any(|one| one.name == "engine");
        for one in all {
            let numeric = one.default.is_number() || one.default.is_null();
            let is_new = seen.insert((one.name.clone(), one.meaning.clone(), one.default.to_string()));
            if !numeric || !is_new {
                continue;
            }
            for end in ends(seen.len()) {
                let mut given = vec![format!("{}={end}", one.name)];
                given.extend(has_engine.then(|| "engine=sim".to_owned()));
                match script.as_str() {
                    "fleet" => given.push("file=jobs.yaml".to_owned()),
                    "batch" => given.push("file=batch.yaml".to_owned()),
                    "plan" => {
                        let measured = [format!("runs=[\"{RUNS}/vllm-sweep\"]"), "rate=10".to_owned()];
                        given.splice(0..0, measured).for_each(drop);
                    }
                    _ => {}
                }
                cases.push((script.clone(), given));
            }
        }
    }
    let (count, began) = (cases.len(), Instant::now());
    let (next, wrong) = (Mutex::new(cases.into_iter()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let Some((script, given)) = next.lock().unwrap().next() else {
                return;
            };
            let folder = crate::support::temp();
            fs::write(
                folder.path().join("jobs.yaml"),
                "jobs:\n  - {script: engine_info, set: {engine: sim}}\n",
            )
            .unwrap();
            fs::write(
                folder.path().join("batch.yaml"),
                "models:\n  - {model_id: a/b, input_lengths: [64], output_lengths: [8], batch_sizes: [1]}\n",
            )
            .unwrap();
            // It ends what hangs.
            let ran = std::process::Command::new("timeout")
                .args(["60", env!("CARGO_BIN_EXE_profiler"), "run", &script, "--dry-run"])
                .args(given.iter().flat_map(|set| ["--set", set]))
                .current_dir(folder.path())
                .env("HOME", folder.path())
                .env("HF_ENDPOINT", "http://127.0.0.1:1")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&ran.stderr);
            let code = ran.status.code();
            // What is asked for may be missing here, such as a second GPU.
            let plain = matches!(code, Some(0 | 2 | 3)) && !said.contains("panicked") && !said.contains("--> std");
            if !plain {
                wrong
                    .lock()
                    .unwrap()
                    .push(format!("{script} {given:?}: {code:?}: {said}"));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(work);
        }
    });
    eprintln!("{count} runs, {:.0} s", began.elapsed().as_secs_f64());
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_number_at_the_end_of_its_range_is_refused_or_sound() {
    try_ends(|at| vec![ENDS[at % ENDS.len()], ENDS[(at + 3) % ENDS.len()]]);
}

#[test]
#[ignore = "minutes: `.ci/long` runs it"]
fn every_number_at_every_end_of_its_range() {
    try_ends(|_| ENDS.to_vec());
}

/// A run without the parameter of a row: its script, its parameters, and the view of it.
type Unchanged = (String, Vec<String>, String);

#[test]
#[ignore = "two minutes: `.ci/long` runs it"]
fn each_parameter_changes_what_is_done_or_is_refused() {
    let table = Table::read();
    let wanted = std::env::var("PROFILER_TEST_ROWS").unwrap_or_default();
    let rows = table
        .rows
        .iter()
        .filter(|row| format!("{} {}", row[0], row[1]).contains(&wanted));
    let next = Mutex::new(rows);
    let same: Mutex<BTreeMap<Unchanged, String>> = Mutex::default();
    let wrong = Mutex::new(Vec::new());
    let work = || {
        loop {
            let Some([script, name, value, base, seen]) = next.lock().unwrap().next() else {
                return;
            };
            let given = table.given(base);
            let mut set = given.clone();
            set.push(format!("{name}={value}"));
            let changed = Observed::new(script, &set, seen);
            let complaint = if seen == "refused" {
                let says = changed.stderr.contains(&format!("`{name}`"));
                (changed.code != Some(2) || !says || changed.started).then(|| "is not refused".to_owned())
            } else {
                let key = (script.clone(), given.clone(), seen.clone());
                let known = same.lock().unwrap().get(&key).cloned();
                let before = known.unwrap_or_else(|| Observed::new(script, &given, seen).view);
                same.lock().unwrap().insert(key, before.clone());
                (before == changed.view).then(|| format!("changes nothing of {seen}: {before}"))
            };
            if let Some(complaint) = complaint {
                let run = format!("exit status {:?}\n{}", changed.code, changed.stderr);
                wrong
                    .lock()
                    .unwrap()
                    .push(format!("{script}: {name}={value} ({base}) {complaint}\n{run}"));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(work);
        }
    });
    // A view that changes by itself would hide a dead parameter.
    for ((script, given, seen), before) in same.into_inner().unwrap().into_iter().step_by(4) {
        let again = Observed::new(&script, &given, &seen).view;
        if again != before {
            wrong
                .lock()
                .unwrap()
                .push(format!("{script} {given:?}: {seen} varies: {before}, then {again}"));
        }
    }
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// What a run did, in the view of a row.
struct Observed {
    view: String,
    code: Option<i32>,
    stderr: String,
    started: bool,
}

impl Observed {
    fn new(script: &str, set: &[String], seen: &str) -> Self {
        let mut servers = Servers::default();
        let entry = "  - {model_id: a/b, input_lengths: [64], output_lengths: [8], batch_sizes: [1]}\n";
        let job = "  - {script: engine_info, set: {engine: sim, input: 512}}\n";
        let prompts: String = (0..9).map(|number| format!("some words {number}\n")).collect();
        let program = Profiler::new()
            .file("model/config.json", CONFIG)
            .file("model/tokenizer.json", model::tokenizer())
            .file("large/config.json", CONFIG.replace("2048", "8192"))
            .file("large/tokenizer.json", model::tokenizer())
            .file("prompts.txt", prompts)
            .file("batch.yaml", format!("models:\n{entry}{entry}"))
            .file("one.yaml", format!("jobs:\n{job}"))
            .file("two.yaml", format!("jobs:\n{job}{job}"))
            .file("results.json", fs::read(RESULTS).unwrap())
            .env("HF_ENDPOINT", "http://127.0.0.1:1")
            .env("THE_KEY", "sesame");
        let is_dry = ["launch", "notes"].contains(&seen);
        // A drawn seed changes every prompt.
        let mut program = program.args(["run", script, "--seed", "1"]);
        program = if is_dry {
            program.args(["--dry-run", "--allow", "process,code,image=my/vllm:1"])
        } else {
            program.args(["--json", "--out", "out"])
        };
        for set in set {
            program = program.arg("--set").arg(servers.fill(set));
        }
        let began = Instant::now();
        let outcome = program.run();
        let seconds = began.elapsed().as_secs_f64();
        let run = outcome.folder().join("out");
        let result = serde_json::from_str(&outcome.stdout).map_or(Value::Null, |mut all: Value| all["result"].take());
        let (view, argument) = seen.split_once(' ').unwrap_or((seen, ""));
        let view = match view {
            "launch" => launch(&outcome.stdout),
            "notes" => launch(&format!("{}{}", outcome.stdout, outcome.stderr)),
            "points" => events(&run, "point", |event| {
                json!([event["point"], event["verdict"], event["moves"]])
            }),
            "loads" => events(&run, "began", |event| {
                let asked = &event["args"]["load"];
                let keys = ["concurrency", "rate", "requests"].map(|key| &asked[key]);
                json!([event["kind"], keys])
            }),
            "starts" => events(&run, "engine", |event| event["info"]["limits"].clone()),
            "wire" => servers.bodies(),
            "answer" => result.pointer(argument).unwrap_or(&Value::Null).to_string(),
            "length" => result
                .pointer(argument)
                .and_then(Value::as_array)
                .map_or(0, Vec::len)
                .to_string(),
            "known" => result
                .pointer(argument)
                .is_some_and(|value| !value.is_null())
                .to_string(),
            "exceeds" => {
                let (pointer, least) = argument.split_once(' ').unwrap();
                let value = result.pointer(pointer).and_then(Value::as_f64);
                (value > least.parse().ok()).to_string()
            }
            "looks" => (looks(&run) > argument.parse().unwrap()).to_string(),
            "polls" => (polls(&run) > argument.parse().unwrap()).to_string(),
            "waits" => (seconds > argument.parse().unwrap()).to_string(),
            "code" => format!("{:?}", outcome.code),
            "refused" => String::new(),
            _ => panic!("there is no view `{view}`"),
        };
        Self {
            view,
            code: outcome.code,
            started: run.exists(),
            stderr: outcome.stderr,
        }
    }
}

/// The preview of a dry run without the parameters, which are an echo.
fn launch(text: &str) -> String {
    let mut echo = false;
    let lines = text.lines().filter(|line| {
        echo = *line == "parameters" || echo && line.starts_with("  ");
        !echo
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The events of a kind in the run's journal.
fn events(run: &Path, kind: &str, view: impl Fn(&Value) -> Value) -> String {
    let journal = fs::read_to_string(run.join("journal.jsonl")).unwrap_or_default();
    let events = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let seen: Vec<_> = events
        .filter(|event| event["event"] == kind)
        .map(|event| view(&event))
        .collect();
    json!(seen).to_string()
}

/// How often the memory of the first engine was sampled.
fn looks(run: &Path) -> u64 {
    let usage = fs::read(run.join("memory/engine-1.usage.json")).unwrap_or_default();
    let usage: Value = serde_json::from_slice(&usage).unwrap_or_default();
    usage
        .pointer("/peak/over_time/samples")
        .and_then(Value::as_u64)
        .unwrap_or(0)
}

/// How often the engine's metrics were read during the first load.
fn polls(run: &Path) -> usize {
    let files = fs::read_dir(run.join("loads"))
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path());
    let timelines = files.filter(|path| path.to_string_lossy().ends_with("-timeline.csv"));
    timelines
        .map(|path| fs::read_to_string(path).unwrap().lines().count())
        .min()
        .unwrap_or(0)
}

/// The servers that a run's parameters name.
#[derive(Default)]
struct Servers {
    running: BTreeMap<&'static str, Running>,
}

impl Servers {
    /// Starts the servers that this text names, and puts their addresses there.
    fn fill(&mut self, text: &str) -> String {
        let kinds = [
            ("{url}", MadeUp::default()),
            (
                "{texts}",
                MadeUp {
                    token_ids: false,
                    ..MadeUp::default()
                },
            ),
            (
                "{locked}",
                MadeUp {
                    key: Some("sesame"),
                    ..MadeUp::default()
                },
            ),
            (
                "{dying}",
                MadeUp {
                    dies_beyond: Some(400),
                    ..MadeUp::default()
                },
            ),
        ];
        let mut text = text.replace("{runs}", RUNS);
        for (name, kind) in kinds {
            if text.contains(name) {
                let server = self.running.entry(name).or_insert_with(|| kind.start());
                text = text.replace(name, &server.url);
            }
        }
        text
    }

    /// The completion requests as received, with their answers' status, in any order.
    fn bodies(&self) -> String {
        let seen = self.running.values().flat_map(Running::completions);
        let mut seen: Vec<_> = seen
            .map(|seen| format!("{} {} {}", seen.path, seen.status, seen.body))
            .collect();
        seen.sort();
        seen.join("\n")
    }
}

/// The configuration of a model of the size of Llama 3.2 1B.
const CONFIG: &str = r#"{
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 8192,
    "vocab_size": 128256, "torch_dtype": "bfloat16", "max_position_embeddings": 131072, "tie_word_embeddings": true
}"#;
