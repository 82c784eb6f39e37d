//! A user searches an engine with few starts: neither the memory that it reported nor what the run learnt before a
//! resume is tried again.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use profiler::run::{EnginePhase, Event};
use serde_json::{Value, json};

use super::script::bench::Bench;
use crate::support::{Profiler, eventually, temp};

/// The value of a script over `std/engines`, and the limits of each start.
#[track_caller]
fn starts(script: &str) -> (Value, Vec<String>) {
    let bench = Bench::script(&format!("import \"std/engines\" as engines;\n{script}"));
    let host = bench.host();
    let starts: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&starts);
    host.run.listen(Box::new(move |event| match event {
        Event::Phase { phase, detail } if *phase == EnginePhase::Starting => kept.lock().unwrap().push(detail.clone()),
        _ => {}
    }));
    let value = bench.run_in(&host).map_err(|error| error.render(false)).unwrap();
    let starts = starts.lock().unwrap().clone();
    (value, starts)
}

#[test]
fn an_engine_without_metrics_that_serves_after_a_failure_is_not_restarted() {
    let (answers, starts) = starts(
        r#"let engine = engines::describe("sim", #{
            profile: "llama-1b-12gib-transformers", sim: #{ memory_limit: 5000000000, time_scale: 0.0 },
        });
        [20000, 1000, 20000].map(|input| engine.probe(#{ input: input, output: 64 }).verdict)"#,
    );
    assert_eq!((answers, starts.len()), (json!(["oom", "ok", "oom"]), 1), "{starts:?}");
}

#[test]
fn a_point_beyond_the_engines_estimate_costs_the_one_start_that_told_it() {
    // The KV cache of the default profile holds 8,352 tokens.
    let (answers, starts) = starts(
        "let map = boundary(#{ input: [128, 20000], output: [16, 64] }, #{});
         let engine = engines::describe(\"sim\", #{});
         let ask = |input| engine.probe(#{ input: input, output: 16 });
         [ask.call(15000), ask.call(4000), ask.call(9000), ask.call(8336), ask.call(8337), ask.call(100)]",
    );
    let verdicts: Vec<_> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| &answer["verdict"])
        .collect();
    assert_eq!(
        json!(verdicts),
        json!(["not_sent", "ok", "not_sent", "ok", "not_sent", "ok"]),
        "{answers}"
    );
    assert_eq!(
        starts.len(),
        2,
        "the box, and what the engine said would fit: {starts:?}"
    );
    let evidence = &answers[2]["evidence"];
    assert_eq!((&evidence["reported"], &evidence["issued"]), (&json!(8352), &json!(0)));
    assert_eq!(evidence["phase"], "kv_cache");
    assert_eq!(
        answers[3]["started"], false,
        "the engine was not given up for a point that cannot be served"
    );
}

#[test]
fn an_engine_that_tells_no_estimate_is_asked_for_the_point_itself() {
    let (answers, starts) = starts(
        "let map = boundary(#{ input: [128, 20000000], output: [16, 64] }, #{});
         let engine = engines::describe(\"tgi\", #{ runtime: \"sim\", sim: #{ time_scale: 0.0 } });
         [engine.probe(#{ input: 9000000, output: 16 }), engine.probe(#{ input: 9000001, output: 16 })]",
    );
    for answer in answers.as_array().unwrap() {
        assert_eq!(answer["verdict"], "start_failed", "{answer}");
    }
    assert_eq!(
        starts.len(),
        2,
        "the box and the first point, which the second one covers: {starts:?}"
    );
}

/// The answers are long, so that all are resident together also on a busy machine; a block of 1,568 tokens holds one.
#[test]
fn state_slots_that_a_start_states_are_taken_up_by_one_restart() {
    let (answers, starts) = starts(
        r#"let map = boundary(#{ input: [512, 512], output: [1024, 1024], concurrency: [1, 1024] }, #{});
         let options = #{ runtime: "sim", profile: "falcon-h1-h100-vllm", memory_fraction: 0.15, sim: #{ time_scale: 0.0 } };
         let engine = engines::describe("vllm", options);
         [7, 95, 96, 192, 1024].map(|count| engine.probe(#{ input: 512, output: 1024, concurrency: count }))"#,
    );
    let answers = answers.as_array().unwrap();
    let verdicts: Vec<_> = answers.iter().map(|answer| &answer["verdict"]).collect();
    assert_eq!(
        verdicts,
        ["ok", "ok", "queued", "not_sent", "start_failed"],
        "{answers:#?}"
    );
    assert_eq!(starts.len(), 2, "{starts:?}");
    assert!(starts[1].ends_with("concurrency=191"), "{starts:?}");
    for answer in &answers[3..] {
        assert_eq!(answer["cause"], "memory");
        assert_eq!(
            answer["evidence"]["limit"],
            json!({ "concurrency": 191, "by": "state_slots" }),
            "{answer:#}"
        );
    }
}

#[test]
fn a_setting_that_cannot_start_is_tried_once_and_the_others_are_measured() {
    let (found, starts) = starts(
        r#"import "std/experiment" as experiment;
         let good = #{ name: "good", options: #{ sim: #{ time_scale: 0.0 } } };
         let misbehave = #{ fail_start: #{ after: "", log: ["nobody knows this"] } };
         let bad = #{ name: "bad", options: #{ sim: #{ time_scale: 0.0, misbehave: misbehave } } };
         let load = #{ input: 64, output: 8, concurrency: 2, requests: 4 };
         experiment::measure("sim", #{}, [good, bad], #{ repeats: 3, load: load })"#,
    );
    assert_eq!(starts.len(), 3 + 1, "{starts:?}");
    assert!(found.to_string().contains("nobody knows this"), "{found:#}");
}

/// The search of an engine that a simulated one stands in for: the number of its starts, and the answer.
#[track_caller]
fn searched(engine: &str, flags: &[&str]) -> (usize, Value) {
    let outcome = Profiler::new()
        .args([
            "run",
            "adaptive",
            "--out",
            "out",
            "--json",
            "--engine",
            engine,
            "--runtime",
            "sim",
        ])
        .args(["--set", r#"sim={"time_scale":0.0}"#])
        .args(flags)
        .run()
        .success();
    let events = events(outcome.folder());
    let answers: Vec<_> = events.iter().filter_map(|event| event["value"].get("answer")).collect();
    (
        count(&events, "loading"),
        answers.last().copied().cloned().unwrap_or_default(),
    )
}

#[test]
fn the_default_search_starts_an_engine_that_fits_its_length_once() {
    for engine in ["vllm", "sim"] {
        let (starts, answer) = searched(engine, &[]);
        assert_eq!(starts, 1, "{engine}: {answer:#}");
        assert_eq!(answer["inequality"]["quantity"], "total", "{answer:#}");
        assert_eq!(answer["inequality"]["reported"], 8352, "{answer:#}");
    }
    let (starts, answer) = searched("sglang", &[]);
    assert_eq!(starts, 1, "{answer:#}");
}

#[test]
fn state_slots_are_named_beside_the_limit() {
    let (starts, answer) = searched(
        "vllm",
        &[
            "--set=profile=falcon-h1-h100-vllm",
            "--set=memory_fraction=0.15",
            "--input=512",
            "--output=64",
            "--concurrency=1..1024",
            // So slow that requests of one probe overlap on a busy machine too.
            "--set=sim={\"time_scale\":0.02}",
        ],
    );
    assert_eq!(starts, 2, "{answer:#}");
    // 190 blocks can be used; each request takes one of attention and one of state.
    assert_eq!(
        (&answer["inequality"]["fits"], &answer["inequality"]["fails"]),
        (&json!(95), &json!(96))
    );
    assert!(
        answer["room"].to_string().contains("concurrency ≤ 191 (state slots)"),
        "{answer:#}"
    );
}

const SCRIPT: &str = r#"
    import "std/engines" as engines;
    let map = boundary(#{ input: [128, 20000], output: [16, 64] }, #{});
    let engine = engines::describe("sim", #{});
    let first = engine.probe(#{ input: 4000, output: 16 });
    sleep(2);
    [first.verdict, engine.probe(#{ input: 5000, output: 16 }).verdict, engine.probe(#{ input: 9000, output: 16 }).verdict]
"#;

fn events(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("out/journal.jsonl")).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn count(events: &[Value], phase: &str) -> usize {
    events.iter().filter(|event| event["phase"] == phase).count()
}

#[test]
fn a_resumed_run_remembers_the_starts_that_failed() {
    let folder = temp();
    fs::write(folder.path().join("two.rhai"), SCRIPT).unwrap();
    let program = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
        command
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .args(["run", "two.rhai", "--json"])
            .args(args);
        command
    };
    let mut child = program(&["--out", "out"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the first probe ended", || {
        events(folder.path()).iter().any(|event| event["event"] == "done")
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let before = events(folder.path());
    assert_eq!(
        count(&before, "starting"),
        2,
        "the box, and what the engine said would fit"
    );
    let failed: Vec<_> = before.iter().filter(|event| event["event"] == "start_failed").collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["failure"]["longest"], 8352, "{failed:?}");

    let output = program(&["--resume", "out"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["result"], json!(["ok", "ok", "not_sent"]));
    assert_eq!(
        count(&events(folder.path()), "starting"),
        3,
        "one start more, of which it was known that it serves"
    );
}
