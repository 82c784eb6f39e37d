//! A user probes a simulated Ollama through its adapter, from the start to the verdicts.

use std::path::Path;

use serde_json::{Value, json};

use crate::engine::value;
use crate::script::bench::Bench;

/// The value of a script with `engine`, a simulated Ollama with these options.
#[track_caller]
fn with(options: &str, body: &str) -> Value {
    value(&format!(
        "let engine = engines::describe(\"ollama\", #{{ runtime: \"sim\", {options} }});
         {body}"
    ))
}

#[test]
fn exactly_so_many_tokens_are_counted_and_produced() {
    let answer = with(
        "sim: #{ time_scale: 0.0 }",
        "[engine.probe(#{ input: 300, output: 40 }), engine.info()]",
    );
    let probe = &answer[0];
    assert_eq!(
        (
            &probe["verdict"],
            &probe["input"],
            &probe["output"],
            &probe["evidence"]["finish"]
        ),
        (&json!("ok"), &json!(300), &json!(40), &json!("length")),
        "{probe}"
    );
    let info = &answer[1];
    assert_eq!(
        (&info["model"], &info["max_model_len"]),
        (&json!("llama-1b-shape:latest"), &json!(341)),
        "{info}"
    );
    assert!(info["version"].as_str().unwrap().contains("SIMULATED"), "{info}");
}

#[test]
fn a_model_that_does_not_load_is_a_failed_start_for_memory_though_the_server_lives() {
    let answers = with(
        "sim: #{ time_scale: 0.0 }",
        "[engine.probe(#{ input: 400000, output: 40 }), engine.probe(#{ input: 300, output: 40 })]",
    );
    assert_eq!(
        (&answers[0]["verdict"], &answers[0]["cause"]),
        (&json!("start_failed"), &json!("memory")),
        "{}",
        answers[0]
    );
    let message = answers[0]["evidence"]["message"].as_str().unwrap();
    assert!(message.contains("cudaMalloc failed"), "{message}");
    assert_eq!(
        answers[0]["evidence"]["exit_code"],
        Value::Null,
        "it did not die: {}",
        answers[0]
    );
    assert_eq!(answers[1]["verdict"], "ok", "{}", answers[1]);
}

#[test]
fn several_at_once_have_a_context_each() {
    let answer = with(
        "limits: #{ input: 256, output: 64, concurrency: 4 }, sim: #{ time_scale: 0.2, gather_ms: 10 }",
        "engine.probe(#{ input: 256, output: 64, concurrency: 4 })",
    );
    assert_eq!(
        (&answer["verdict"], &answer["evidence"]["completed"]),
        (&json!("ok"), &json!(4)),
        "{answer}"
    );
}

#[test]
fn what_goes_wrong_is_told_and_survived() {
    let misbehaving = |misbehave: &str| {
        with(
            &format!("sim: #{{ time_scale: 0.0, misbehave: #{{ {misbehave} }} }}"),
            "engine.probe(#{ input: 300, output: 40 }, #{ retries: 1 })",
        )
    };
    let expect = |answer: &Value, verdict: &str, cause: Value| {
        assert_eq!(
            (&answer["verdict"], &answer["cause"]),
            (&json!(verdict), &cause),
            "{answer}"
        );
    };
    expect(&misbehaving("end_early: 20"), "short_output", json!("end_of_text"));
    expect(&misbehaving("error_then_done: 5"), "error", json!("engine"));
    expect(&misbehaving("refuse_429: 100"), "error", json!("overloaded"));
    expect(&misbehaving("refuse_429: 1"), "ok", Value::Null);
    expect(&misbehaving("die_mid_stream: 5"), "error", json!("died"));
    expect(&misbehaving("two_tokens: true"), "ok", Value::Null);
}

/// Probes with a copy of the shipped adapter in which `from` is replaced by `to`.
fn asking(from: &str, to: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("stdlib/engines/ollama.rhai");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "the adapter has changed");
    let main = "import \"std/engines\" as engines;
        let engine = engines::describe(\"./mine.rhai\", #{
            runtime: \"sim\", limits: #{ input: 300, output: 50 }, sim: #{ time_scale: 0.0, ctx_size: 351 },
        });
        engine.probe(#{ input: 300, output: 50 }, #{ retries: 0, timeout: 5 })";
    let mine = text.replacen(from, to, 1);
    Bench::new(&[("main.rhai", main), ("mine.rhai", &mine)]).value()
}

#[test]
fn greedy_decoding_ends_without_a_word_and_is_no_success() {
    let answer = asking("temperature: 1.0,", "temperature: 0.0,");
    assert_eq!(
        (&answer["verdict"], &answer["cause"]),
        (&json!("error"), &json!("no_finish")),
        "{answer}"
    );
}

#[test]
fn another_context_than_that_of_the_start_would_load_the_model_anew() {
    assert_eq!(
        asking("temperature: 1.0,", "temperature: 1.0, num_keep: 1,")["verdict"],
        "ok"
    );
    let answer = asking("sampling.num_ctx = context(point.limits);", "sampling.num_ctx = 512;");
    assert_eq!(answer["verdict"], "error", "{answer}");
    assert!(
        answer["evidence"]["message"].as_str().unwrap().contains("num_ctx"),
        "{answer}"
    );
}
