//! A user names the model to probe, and every request names that model and no other.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::made_up::{MadeUp, Running, Seen};
use crate::support::{Outcome, Profiler};

/// A server that lists thirty models and accepts only those and `aliases`.
fn thirty(aliases: &'static [&'static str]) -> Running {
    let model = |number| json!({ "id": format!("org/model-{number}"), "max_model_len": 1000 + number });
    MadeUp {
        lists: (0..30).map(model).collect(),
        only_its_model: true,
        health: true,
        aliases,
        ..MadeUp::default()
    }
    .start()
}

fn lists(models: Value) -> Running {
    MadeUp {
        lists: models.as_array().unwrap().clone(),
        only_its_model: true,
        ..MadeUp::default()
    }
    .start()
}

/// Probes one point with `adaptive`.
fn adaptive(server: &Running) -> Profiler {
    let point = ["--set", "input=32", "--set", "output=4", "--set", "concurrency=1"];
    Profiler::new()
        .args(["run", "adaptive", "--url", &server.url])
        .args(point)
}

/// The `model` fields of the requests after the first `before`.
fn models(server: &Running, before: usize) -> Vec<Value> {
    let all = server.completions();
    all[before..].iter().map(|seen| seen.body["model"].clone()).collect()
}

#[track_caller]
fn only(server: &Running, model: &str) {
    let models = models(server, 0);
    assert!(
        !models.is_empty() && models.iter().all(|named| named == model),
        "{models:?}"
    );
}

/// Expects a usage error and no run folder.
#[track_caller]
fn refused(outcome: Outcome) -> Outcome {
    let outcome = outcome.code(2);
    assert!(!outcome.folder().join("runs").exists(), "a run was begun");
    outcome
}

fn run_folder(outcome: &Outcome) -> PathBuf {
    let mut runs = fs::read_dir(outcome.folder().join("runs")).unwrap();
    runs.next().unwrap().unwrap().path()
}

#[test]
fn the_model_that_is_named_is_in_every_request() {
    let load = ["--set", "requests=4", "--set", "input=20", "--set", "output=4"];
    let throughput = [&["throughput", "--set", "concurrency=[1]"][..], &load].concat();
    let slo = [&["slo", "--set", "most=1", "--set", "slo.e2el_ms=60000"][..], &load].concat();
    let point = [
        "adaptive",
        "--set",
        "input=32",
        "--set",
        "output=4",
        "--set",
        "concurrency=1",
    ];
    for script in [&point[..], &throughput, &slo] {
        for engine in ["auto", "openai", "vllm"] {
            let server = thirty(&[]);
            let outcome = Profiler::new()
                .args(["run", script[0], "--url", &server.url, "--model", "org/model-7"])
                .args(["--set", &format!("engine={engine}")])
                .args(&script[1..])
                .run();
            let _ = outcome
                .success()
                .stdout("org/model-7")
                .stdout(&server.url)
                .stderr("asked: ");
            only(&server, "org/model-7");
        }
    }
}

#[test]
fn every_form_of_a_result_says_who_was_asked() {
    let server = thirty(&[]);
    let outcome = adaptive(&server).args(["--model", "org/model-7"]).run().success();
    let folder = run_folder(&outcome);
    let show = |args: &[&str]| Profiler::new().arg("show").arg(&folder).args(args).run().success();
    let _ = show(&[]).stdout("model org/model-7").stdout(&server.url);
    let shown = show(&["--json"]).json();
    let asked = shown["boundaries"][0]["answer"]["asked"][0]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(asked.contains("org/model-7") && asked.contains(&server.url), "{asked}");
    let csv = show(&["--csv=points"]);
    let header = csv.stdout.lines().next().unwrap();
    let column = |name: &str| header.split(',').position(|column| column == name).unwrap();
    for row in csv.stdout.lines().skip(1).filter(|row| row.contains("ok")) {
        let cells: Vec<&str> = row.split(',').collect();
        assert_eq!(
            (cells[column("model")], cells[column("address")]),
            ("org/model-7", &*server.url)
        );
    }
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains(&asked), "{asked}");
    let compared = Profiler::new().arg("compare").args([&folder, &folder]).run().success();
    let _ = compared.stdout("org/model-7").stdout(&server.url);
}

#[test]
fn of_several_models_none_is_taken_silently() {
    let server = thirty(&[]);
    for engine in ["auto", "openai", "vllm"] {
        let outcome = adaptive(&server).args(["--set", &format!("engine={engine}")]).run();
        let _ = refused(outcome)
            .stderr("org/model-0")
            .stderr("org/model-29")
            .stderr("--model");
    }
    let folder = adaptive(&server).args(["--model", "./weights"]).run();
    let _ = refused(folder).stderr("org/model-0");
    assert_eq!(server.completions().len(), 0);
}

#[test]
fn at_a_terminal_the_user_chooses_and_the_repeat_line_says_so() {
    let server = thirty(&[]);
    let mut dialogue = adaptive(&server).on_terminal();
    dialogue.expect("org/model-29");
    dialogue.expect("number");
    dialogue.line("8");
    dialogue.expect("report.html");
    let mut runs = fs::read_dir(dialogue.folder().join("runs")).unwrap();
    let run = runs.next().unwrap().unwrap().path();
    let repeat = Profiler::new().arg("show").arg(&run).arg("--markdown").run().success();
    let _ = repeat.stdout("--model org/model-7");
    assert_eq!(dialogue.end(), 0);
    only(&server, "org/model-7");
}

#[test]
fn a_base_model_with_loras_is_asked_itself_and_each_by_its_name() {
    let all = json!([
        { "id": "base", "root": "org/base", "parent": null },
        { "id": "sql", "root": "/loras/sql", "parent": "base" },
        { "id": "chat", "root": "/loras/chat", "parent": "base" },
    ]);
    for (named, asked) in [
        (None, "base"),
        (Some("sql"), "sql"),
        (Some("org/base"), "base"),
        (Some("/loras/chat"), "chat"),
    ] {
        let server = lists(all.clone());
        let model = named.map(|named| ["--model", named]);
        let outcome = adaptive(&server).args(model.into_iter().flatten()).run().success();
        let _ = outcome.stderr(asked);
        only(&server, asked);
    }
}

/// A path of model files is not a model name, so the only listed model is used.
#[test]
fn a_path_is_not_a_name() {
    let server = lists(json!([{ "id": "served" }]));
    let outcome = adaptive(&server).args(["--model", "/models/weights"]).run();
    let _ = outcome.success().stderr("served");
    only(&server, "served");
}

#[test]
fn a_name_that_is_not_listed_is_tried_by_one_request_of_one_token() {
    let server = thirty(&["fast"]);
    for engine in ["openai", "vllm"] {
        let before = server.completions().len();
        let outcome = adaptive(&server)
            .args(["--model", "fast", "--set", &format!("engine={engine}")])
            .run();
        let _ = outcome.success().stdout("model fast");
        let asked = models(&server, before);
        assert!(
            asked.len() > 1 && asked.iter().all(|named| named == "fast"),
            "{asked:?}"
        );
        assert_eq!(server.completions()[before].body["max_tokens"], 1);
    }
    let before = server.completions().len();
    let outcome = adaptive(&server).args(["--model", "nonsense-model"]).run();
    let _ = refused(outcome).stderr("nonsense-model").stderr("org/model-29");
    let tried: Vec<Seen> = server.completions().split_off(before);
    assert_eq!(tried.len(), 1, "{tried:?}");
    assert_eq!(
        (&tried[0].body["model"], &tried[0].body["max_tokens"]),
        (&json!("nonsense-model"), &json!(1))
    );
}

#[test]
fn a_server_of_one_model_is_not_asked_for_another() {
    let server = lists(json!([{ "id": "made-up" }]));
    let outcome = adaptive(&server).args(["--model", "nonsense-model"]).run();
    let _ = refused(outcome).stderr("made-up");
    assert!(models(&server, 0).iter().all(|named| named == "nonsense-model"));
}

/// A busy server has not rejected the name.
#[test]
fn a_trial_that_is_put_off_refuses_nothing() {
    let server = MadeUp {
        refuses_beyond: Some((0, 503, "Service Unavailable")),
        ..MadeUp::default()
    }
    .start();
    let outcome = adaptive(&server)
        .args(["--model", "alias", "--set", "engine=openai"])
        .run();
    let _ = outcome.code(3).stderr("503").stderr("alias");
}

/// Runs of older versions, whose answer lacks the field `asked`.
#[test]
fn kept_runs_say_it_too() {
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/runs/vllm-longest");
    let shown = Profiler::new().args(["show", run, "--json"]).run().success().json();
    let asked = shown["boundaries"][0]["answer"]["asked"][0]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(asked.starts_with("vllm "), "{asked}");
    let _ = Profiler::new().args(["show", run]).run().success().stdout(&asked[..20]);
}
