//! A user probes simulated TGI and transformers through their adapters; the verdicts show what each cannot do.

use serde_json::{Value, json};

use crate::engine::value;
use crate::script::bench::Bench;
use crate::support::{Profiler, model};

/// The answers to probes of `engine`, which is simulated.
#[track_caller]
fn probes(engine: &str, options: &str, probes: &str) -> Value {
    value(&format!(
        "let engine = engines::describe(\"{engine}\", #{{ runtime: \"sim\", {options} }});
         {probes}"
    ))
}

#[track_caller]
fn expect(answer: &Value, verdict: &str, cause: Value) {
    assert_eq!(
        (&answer["verdict"], &answer["cause"]),
        (&json!(verdict), &cause),
        "{answer}"
    );
}

#[test]
fn tgi_serves_a_long_output_in_slices_to_its_last_token() {
    let answers = probes(
        "tgi",
        "limits: #{ input: 500, output: 2500 }, sim: #{ time_scale: 0.0, max_input_tokens: 2999 }",
        "[engine.probe(#{ input: 500, output: 2500 }), engine.probe(#{ input: 500, output: 1025 })]",
    );
    for (answer, output) in [(&answers[0], 2500), (&answers[1], 1025)] {
        expect(answer, "ok", Value::Null);
        assert_eq!(
            (&answer["input"], &answer["output"]),
            (&json!(500), &json!(output)),
            "{answer}"
        );
    }
}

#[test]
fn a_prompt_that_the_engine_counts_too_long_is_made_anew_where_its_limits_leave_no_room() {
    // The tokenizer adds four tokens to each text, but a prompt built from words expects one.
    let begin = json!({ "SpecialToken": { "id": "<s>", "type_id": 0 } });
    let tokenizer = json!({
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": { "type": "WhitespaceSplit" },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [begin, begin, begin, begin, { "Sequence": { "id": "A", "type_id": 0 } }],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
            "special_tokens": { "<s>": { "id": "<s>", "ids": [1], "tokens": ["<s>"] } },
        },
        "model": { "type": "WordLevel", "vocab": { "<unk>": 0, "<s>": 1 }, "unk_token": "<unk>" },
    });
    for engine in ["tgi", "ollama"] {
        let main = format!(
            "import \"std/engines\" as engines;
             let engine = engines::describe(\"{engine}\", #{{
                 runtime: \"sim\", limits: #{{ input: 300, output: 40 }}, sim: #{{ time_scale: 0.0, tokenizer: \"tokenizer.json\" }},
             }});
             engine.probe(#{{ input: 300, output: 40 }}, #{{ retries: 0 }})"
        );
        let answer = Bench::new(&[("main.rhai", &main), ("tokenizer.json", &tokenizer.to_string())]).value();
        expect(&answer, "ok", Value::Null);
        assert_eq!(
            (&answer["input"], &answer["output"], &answer["evidence"]["attempts"]),
            (&json!(300), &json!(40), &json!(2)),
            "{answer}"
        );
    }
}

#[test]
fn tgi_whose_longest_input_is_too_short_for_the_next_slice_clips_without_a_word() {
    let answer = probes(
        "tgi",
        "limits: #{ input: 500, output: 2500 }, sim: #{ time_scale: 0.0, max_input_tokens: 600 }",
        "engine.probe(#{ input: 500, output: 2500 })",
    );
    expect(&answer, "refused", json!("length_limit"));
    assert_eq!(
        (&answer["output"], &answer["moves"]),
        (&json!(1024), &json!("none")),
        "{answer}"
    );
}

#[test]
fn tgi_that_ends_its_text_early_is_short_and_an_error_within_a_good_status_is_seen() {
    let misbehaving = |misbehave: &str, output: u64| {
        probes(
            "tgi",
            &format!(
                "limits: #{{ input: 300, output: 40 }}, sim: #{{ time_scale: 0.0, max_model_len: 400, misbehave: #{{ {misbehave} }} }}"
            ),
            &format!("engine.probe(#{{ input: 300, output: {output} }}, #{{ retries: 1 }})"),
        )
    };
    let short = misbehaving("end_early: 20", 40);
    expect(&short, "short_output", json!("end_of_text"));
    assert_eq!(
        (&short["output"], &short["evidence"]["attempts"]),
        (&json!(20), &json!(2)),
        "{short}"
    );
    expect(&misbehaving("error_then_done: 5", 40), "error", json!("engine"));
    // Longer than the start allows, so it needs a restart, which the option forbids.
    let refused = misbehaving("", 200);
    expect(&refused, "refused", json!("length_limit"));
}

#[test]
fn transformers_runs_out_of_memory_within_a_stream_and_serves_the_next() {
    let answers = probes(
        "transformers",
        "sim: #{ time_scale: 0.0 }",
        "[engine.probe(#{ input: 98304, output: 8 }), engine.probe(#{ input: 512, output: 8 }), engine.info()]",
    );
    expect(&answers[0], "oom", json!("cuda"));
    assert_eq!(answers[0]["evidence"]["exit_code"], Value::Null, "{}", answers[0]);
    expect(&answers[1], "ok", Value::Null);
    assert_eq!(answers[1]["started"], false, "it lived on: {}", answers[1]);
}

#[test]
fn transformers_errors_that_are_no_json_are_read() {
    let answer = probes(
        "transformers",
        "sim: #{ time_scale: 0.0, misbehave: #{ error_then_done: 3 } }",
        "engine.probe(#{ input: 100, output: 8 }, #{ retries: 0 })",
    );
    expect(&answer, "error", json!("engine"));
    assert!(
        answer["evidence"]["message"]
            .as_str()
            .unwrap()
            .contains("SIMULATED failure of the engine"),
        "{answer}"
    );
}

/// Both refuse requests for another model than their own: the simulated ones have the model that is named.
#[test]
fn a_simulated_server_has_the_model_that_is_named() {
    for engine in ["transformers", "ollama"] {
        let outcome = Profiler::new()
            .file("mine/tokenizer.json", model::tokenizer())
            .file("mine/config.json", "{}")
            .args([
                "run",
                "throughput",
                "--engine",
                engine,
                "--runtime",
                "sim",
                "--model",
                "./mine",
            ])
            .args([
                "--concurrency",
                "1",
                "--requests",
                "4",
                "--input",
                "32",
                "--output",
                "4",
            ])
            .args(["--set", "sim.time_scale=0.02", "--json"])
            .run()
            .success();
        let level = &outcome.json()["result"]["workloads"][0]["levels"][0];
        assert_eq!(
            (&level["completed"], &level["failed"]),
            (&json!(4), &json!(0)),
            "{engine}: {level}"
        );
    }
}
