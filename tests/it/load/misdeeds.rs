//! A user's engine fails in the middle of a load, in the words of its own protocol: the load reports the completed
//! requests, and the failed ones by form.

use serde_json::{Value, json};

use super::{Loaded, finished};
use crate::support::Profiler;

/// The shipped adapters whose engines the simulated engine imitates, each with its own protocol.
const ENGINES: [&str; 6] = ["vllm", "sglang", "tensorrt_llm", "tgi", "llamacpp", "ollama"];

/// Runs a load of 20 requests on a simulated engine of this kind; after the fifth request, every third one fails.
#[track_caller]
fn misled(engine: &str, how: &str) -> Loaded {
    let text = format!(
        "import \"std/engines\" as engines;
        let engine = engines::describe(\"{engine}\", #{{
            runtime: \"sim\", sim: #{{ time_scale: 0.0, misbehave: #{{ after: 5, every: 3, {how} }} }},
        }});
        engine.load(#{{ concurrency: 3, requests: 20, input: 32, output: 8 }})"
    );
    finished(Profiler::new().file("main.rhai", text), &[])
}

/// Fails unless five requests failed in this form with this message, and everything else is complete.
#[track_caller]
fn check(engine: &str, load: &Loaded, form: &str, said: &str) {
    let answer = &load.answer;
    assert_eq!(load.counts(), [20, 15, 5, 0], "{engine}: {answer}");
    let failures = answer["failures"].as_object().unwrap();
    assert_eq!(
        (failures.len(), &failures[form]["count"]),
        (1, &json!(5)),
        "{engine}: {failures:?}"
    );
    let message = failures[form]["message"].as_str().unwrap();
    assert!(message.contains(said), "{engine}: {message}");
    assert!(
        answer["ttft_ms"]["mean"].is_number() && answer["output_throughput"].is_number(),
        "{engine}: {answer}"
    );
    assert_eq!(
        (&answer["died"], &answer["stopped"]),
        (&Value::Null, &json!("requests")),
        "{engine}"
    );
    assert_eq!(load.measured().count(), 20, "{engine}");
    let warning = format!("5 of 20 requests failed: 5 `{form}` (");
    assert!(
        load.outcome.stderr.contains(&warning),
        "{engine}: {}",
        load.outcome.stderr
    );
}

#[test]
fn errors_within_a_stream_of_status_200_are_failures() {
    for engine in ENGINES {
        let (form, said) = match engine {
            // This engine sends no error event.
            "tensorrt_llm" => ("ended_early", "the stream ended without a finish reason"),
            _ => ("in_stream", "SIMULATED failure"),
        };
        check(engine, &misled(engine, "error_then_done: 2"), form, said);
    }
}

#[test]
fn connections_that_break_within_an_answer_are_failures() {
    for engine in ENGINES {
        let load = misled(engine, "break_off: 2");
        check(engine, &load, "broken", "the connection was closed during the response");
    }
}

#[test]
fn streams_that_end_without_a_word_are_failures() {
    for engine in ENGINES {
        let load = misled(engine, "end_silently: 2");
        check(engine, &load, "ended_early", "the stream ended without a finish reason");
    }
}

#[test]
fn requests_that_are_turned_away_are_sent_again_until_they_are_let_in() {
    for engine in ENGINES {
        let load = misled(engine, "refuse_429: 99");
        let answer = &load.answer;
        assert_eq!(load.counts(), [20, 20, 0, 0], "{engine}: {answer}");
        let rejected = answer["rejected"].as_u64().unwrap();
        let waited = answer["waited"].as_f64().unwrap();
        assert!(rejected >= 5 && waited > 0.1, "{engine}: {answer}");
        let late = load.measured().filter(|record| record["rejections"].as_u64() > Some(0));
        assert!(
            late.count() > 0 && load.outcome.stderr.contains("the server rejected"),
            "{engine}"
        );
    }
}

#[test]
fn requests_that_are_turned_away_in_an_open_loop_have_failed() {
    let text = "import \"std/engines\" as engines;
        let engine = engines::describe(\"vllm\", #{
            runtime: \"sim\", sim: #{ time_scale: 0.0, misbehave: #{ after: 5, every: 3, refuse_429: 99 } },
        });
        engine.load(#{ rate: 200, requests: 20, input: 32, output: 8 })";
    let load = finished(Profiler::new().file("main.rhai", text), &[]);
    check("vllm", &load, "status_429", "Model is overloaded");
    assert_eq!(load.answer["rejected"], json!(5), "{}", load.answer);
}

#[test]
fn answers_shorter_than_asked_for_count_as_they_came() {
    for engine in ENGINES {
        let load = misled(engine, "end_early: 3");
        let answer = &load.answer;
        assert_eq!(
            (load.counts(), &answer["short"]),
            ([20, 20, 0, 0], &json!(5)),
            "{engine}: {answer}"
        );
        assert_eq!(
            answer["tokens"]["engine"]["output"],
            json!(15 * 8 + 5 * 3),
            "{engine}: {answer}"
        );
        assert!(
            load.outcome.stderr.contains("5 of 20 answers ended after 3 tokens"),
            "{engine}: {}",
            load.outcome.stderr
        );
    }
}

#[test]
fn a_death_at_half_keeps_what_was_measured_and_the_next_load_begins_anew() {
    let text = "import \"std/engines\" as engines;
        let engine = engines::describe(\"sim\", #{ sim: #{ time_scale: 0.02, misbehave: #{ after: 40, die_mid_stream: 4 } } });
        let load = |requests| engine.load(#{ concurrency: 4, requests: requests, input: 16, output: 8 });
        [load.call(800), load.call(30)]";
    let load = finished(Profiler::new().file("main.rhai", text), &[]);
    let (first, second) = (&load.answer[0], &load.answer[1]);
    let count = |key: &str| first[key].as_u64().unwrap();
    assert_eq!(
        count("issued"),
        count("completed") + count("failed") + count("cut_off"),
        "{first}"
    );
    assert!(
        (36..=40).contains(&count("completed")) && count("issued") < 800,
        "{first}"
    );
    assert!(
        first["ttft_ms"]["mean"].is_number() && first["output_throughput"].is_number(),
        "{first}"
    );
    assert_eq!(
        (&first["stopped"], &first["died"]["exit_code"]),
        (&json!("died"), &json!(1))
    );
    assert_eq!(
        (&second["stopped"], &second["completed"]),
        (&json!("requests"), &json!(30)),
        "{second}"
    );
    assert_eq!(load.records.len() as u64, count("issued"));
    assert!(load.outcome.stderr.contains("engine died"), "{}", load.outcome.stderr);
    let again = Profiler::new()
        .current_dir(load.outcome.folder())
        .args(["run", "--resume", "run", "--json"])
        .run()
        .success();
    assert_eq!(again.json()["result"], load.answer, "nothing is asked again");
    assert!(!load.outcome.folder().join("run/loads/1-2.jsonl").exists());
}

#[test]
fn a_sweep_goes_on_after_the_level_that_killed_the_engine() {
    let set = [
        "sim.time_scale=0.02",
        "sim.misbehave={\"after\":70,\"die_mid_stream\":2}",
        "concurrency=[1,4,8,16]",
        "min_requests=24",
        "requests_per_slot=3",
    ];
    let run = Profiler::new().args(["run", "throughput", "--out", "out", "--json"]);
    let outcome = set
        .iter()
        .fold(run, |run, set| run.args(["--set", set]))
        .run()
        .success();
    let result = &outcome.json()["result"]["workloads"][0];
    let levels = result["levels"].as_array().unwrap();
    let completed: Vec<u64> = levels
        .iter()
        .map(|level| level["completed"].as_u64().unwrap())
        .collect();
    assert_eq!(levels.len(), 4, "{result}");
    assert_eq!((completed[0], completed[1], completed[3]), (24, 24, 48), "{result}");
    assert!(completed[2] < 24, "{result}");
    assert!(outcome.stderr.contains("engine died"), "{}", outcome.stderr);
}

#[test]
fn an_engine_that_lets_nobody_in_is_given_up() {
    let text = "import \"std/engines\" as engines;
        let engine = engines::describe(\"sim\", #{ sim: #{ misbehave: #{ starve: true } } });
        engine.load(#{ concurrency: 4, requests: 40, input: 16, output: 8, stall: 0.4 })";
    let load = finished(Profiler::new().file("main.rhai", text), &[]);
    assert_eq!(
        (load.counts(), &load.answer["stopped"]),
        ([4, 0, 0, 4], &json!("given_up")),
        "{}",
        load.answer
    );
    let message =
        "the load was given up: the engine stalled: its metrics showed nothing running and 4 requests queued for 0.";
    assert!(load.outcome.stderr.contains(message), "{}", load.outcome.stderr);
}

#[test]
fn an_engine_that_falls_silent_at_half_is_given_up() {
    let text = "import \"std/engines\" as engines;
        let engine = engines::describe(\"sim\", #{ sim: #{ time_scale: 0.0, misbehave: #{ after: 6, hang: 2 } } });
        let load = |requests| engine.load(#{ concurrency: 12, requests: requests, input: 16, output: 8, timeout: 0.3 });
        [load.call(400), load.call(6)]";
    let load = finished(Profiler::new().file("main.rhai", text), &[]);
    let [first, second] = [&load.answer[0], &load.answer[1]];
    let count = |key: &str| first[key].as_u64().unwrap();
    assert_eq!(
        (count("completed"), &first["stopped"]),
        (6, &json!("given_up")),
        "{first}"
    );
    assert!((32..60).contains(&count("failed")) && count("issued") < 800, "{first}");
    assert_eq!(
        count("issued"),
        count("completed") + count("failed") + count("cut_off"),
        "{first}"
    );
    assert!(
        load.outcome
            .stderr
            .contains("requests in a row were not answered, the last with `deadline`")
    );
    assert_eq!(second["completed"], 6, "it was started again: {second}");
}
