//! A user probes the simulated engine while it misbehaves, and each misbehaviour leads to its verdict.

use serde_json::Value;

use super::engine::value;

/// The answer to a probe with 512 input and 64 output tokens and this misbehaviour.
#[track_caller]
fn misbehaving(misbehave: &str) -> Value {
    value(&format!(
        "let engine = engines::describe(\"sim\", #{{ sim: #{{ misbehave: {misbehave} }} }});
         engine.probe(#{{ input: 512, output: 64 }}, #{{ timeout: 2, retries: 1 }})"
    ))
}

#[track_caller]
fn expect(answer: &Value, verdict: &str, cause: &str) {
    assert_eq!(
        (answer["verdict"].as_str(), answer["cause"].as_str()),
        (Some(verdict), Some(cause)),
        "{answer}"
    );
}

/// The engine's time passes faster than a client reads, so overlapping streams prove nothing. 2 × 7,405 tokens do not
/// fit into 8,352.
#[test]
fn requests_that_only_seem_to_overlap_do_not_fit() {
    for scale in ["", "sim: #{ time_scale: 0.0 }"] {
        let answers = value(&format!(
            "let engine = engines::describe(\"sim\", #{{ limits: #{{ input: 7315, output: 90, concurrency: 3 }}, {scale} }});
             [1, 2, 2, 3].map(|concurrency| engine.probe(#{{ input: 7315, output: 90, concurrency: concurrency }}).verdict)"
        ));
        // Requests that run one after the other do not prove that they fit together.
        let answers = answers.as_array().unwrap();
        assert_eq!(answers[0], "ok");
        assert!(answers[1..].iter().all(|answer| answer != "ok"), "{answers:?}");
    }
}

#[test]
fn an_engine_that_dies_within_a_stream_is_no_lack_of_memory() {
    let answer = misbehaving("#{ die_mid_stream: 3 }");
    expect(&answer, "error", "died");
    assert_eq!(answer["evidence"]["exit_code"], 1, "{answer}");
    assert_eq!(answer["moves"], "none");
    assert!(
        !answer["evidence"]["log"].as_array().unwrap().is_empty(),
        "the end of the log: {answer}"
    );
}

#[test]
fn status_137_without_the_kernels_word_is_no_lack_of_memory() {
    let answer = misbehaving("#{ die_mid_stream: 3, exit_code: 137 }");
    expect(&answer, "error", "died");
    assert_eq!(answer["evidence"]["exit_code"], 137);
    assert_eq!(answer["evidence"]["oom_killed"], false);
}

#[test]
fn a_hung_engine_is_a_timeout() {
    let answer = misbehaving("#{ hang: 3 }");
    expect(&answer, "timeout", "deadline");
    assert!(answer["seconds"].as_f64().unwrap() < 10.0, "{answer}");
}

#[test]
fn an_engine_that_turns_away_is_asked_again_and_then_an_error() {
    expect(&misbehaving("#{ refuse_429: 100 }"), "error", "overloaded");
    let answer = misbehaving("#{ refuse_429: 1 }");
    assert_eq!(
        (&answer["verdict"], &answer["evidence"]["attempts"]),
        (&"ok".into(), &2.into()),
        "{answer}"
    );
}

#[test]
fn a_text_that_ends_early_is_short_and_proves_what_it_produced() {
    let answer = misbehaving("#{ end_early: 40 }");
    expect(&answer, "short_output", "end_of_text");
    assert_eq!(
        (&answer["output"], &answer["evidence"]["attempts"]),
        (&40.into(), &2.into()),
        "{answer}"
    );
}

#[test]
fn events_are_not_tokens() {
    let answer = misbehaving("#{ two_tokens: true }");
    assert_eq!(
        (&answer["verdict"], &answer["output"]),
        (&"ok".into(), &64.into()),
        "{answer}"
    );
}

#[test]
fn an_error_event_before_the_end_marker_is_no_success() {
    expect(&misbehaving("#{ error_then_done: 3 }"), "error", "engine");
}

#[test]
fn clipping_is_a_length_limit_and_never_memory() {
    let answer = value(
        "let engine = engines::describe(\"sim\", #{
            limits: #{ input: 512, output: 64 }, sim: #{ max_model_len: 540, clip_output: true },
         });
         engine.probe(#{ input: 512, output: 64 })",
    );
    expect(&answer, "refused", "length_limit");
    assert_eq!(answer["moves"], "none");
}

#[test]
fn a_start_that_fails_for_memory_is_an_answer_and_is_not_repeated() {
    let answers = value(
        "let engine = engines::describe(\"sim\", #{});
         let point = #{ input: 100000, output: 1000 };
         [engine.probe(point), engine.probe(point), engine.probe(#{ input: 512, output: 64 })]",
    );
    expect(&answers[0], "start_failed", "memory");
    assert_eq!(answers[0]["moves"], "fails");
    assert!(!answers[0]["evidence"]["log"].as_array().unwrap().is_empty());
    expect(&answers[1], "start_failed", "memory");
    assert!(
        answers[1]["seconds"].as_f64() < answers[0]["seconds"].as_f64(),
        "the second start was made: {answers}"
    );
    assert_eq!(answers[2]["verdict"], "ok");
}

#[test]
fn a_request_that_runs_out_of_memory_is_oom_and_the_next_one_is_served() {
    let answers = value(
        "let engine = engines::describe(\"sim\", #{ profile: \"llama-1b-12gib-transformers\", sim: #{ oom: \"killed\", time_scale: 0.0 } });
         let small = #{ input: 512, output: 16 };
         [engine.probe(small), engine.probe(#{ input: 200000, output: 16 }), engine.probe(small)]",
    );
    assert_eq!(answers[0]["verdict"], "ok", "{}", answers[0]);
    expect(&answers[1], "oom", "host");
    assert_eq!(
        (
            &answers[1]["evidence"]["exit_code"],
            &answers[1]["evidence"]["oom_killed"]
        ),
        (&137.into(), &true.into())
    );
    assert_eq!(
        (&answers[2]["verdict"], &answers[2]["started"]),
        (&"ok".into(), &true.into()),
        "{}",
        answers[2]
    );
}

#[test]
fn several_at_once_are_resident_or_queued() {
    let answers = value(
        // With free model time, everything ends before a busy client reads the first token, and no overlap is visible.
        "let wide = engines::describe(\"sim\", #{ limits: #{ input: 256, output: 64, concurrency: 8 }, sim: #{ time_scale: 0.1 } });
         let narrow = engines::describe(\"sim\", #{
            limits: #{ input: 256, output: 64, concurrency: 8 }, sim: #{ max_num_seqs: 2, time_scale: 0.1 },
         });
         let point = #{ input: 256, output: 64, concurrency: 8 };
         [wide.probe(point), narrow.probe(point)]",
    );
    assert_eq!(
        (&answers[0]["verdict"], &answers[0]["evidence"]["completed"]),
        (&"ok".into(), &8.into()),
        "{}",
        answers[0]
    );
    expect(&answers[1], "queued", "admission");
    assert_eq!(answers[1]["moves"], "fails");
}
