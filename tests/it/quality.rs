//! A user compares the answers of an engine with those of the same engine with another number format.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::scripted::{Asked, Scripted, answer, healthy};
use crate::support::{Outcome, Profiler, needs_llama_server};

/// A Llama over bytes, trained on the pages of docs/ by `train.py` beside it.
fn model(format: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/quality");
    folder.join(format!("model-{format}.gguf")).display().to_string()
}

/// Runs `quality` with the real llama-server; the first engine has 16-bit weights and KV cache.
fn compared(args: &[&str]) -> Option<Outcome> {
    let server = needs_llama_server()?.display().to_string();
    let engine = [
        "--engine",
        "llamacpp",
        "--runtime",
        "process",
        "--allow",
        "process",
        "--program",
        &server,
    ];
    let program = Profiler::new().args(["run", "quality", "--json"]).args(engine);
    Some(program.args(["--model", &model("f16")]).args(args).run())
}

#[track_caller]
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn a_small_kv_cache_of_a_real_server_changes_answers_and_the_same_engine_does_not() {
    let Some(outcome) = compared(&["--other.kv-cache-dtype", "q4_0", "--prompts", "2"]) else {
        return;
    };
    let found = outcome.success().json()["result"].clone();
    assert_eq!(
        (&found["usual"]["agreement"], &found["usual"]["difference"]),
        (&json!(1.0), &json!(0.0)),
        "{found}"
    );
    assert_eq!(
        (&found["tokens"], &found["scored"]),
        (&json!(128), &json!(true)),
        "{found}"
    );
    let (agreement, difference) = (number(&found["agreement"]), number(&found["difference"]));
    // The server's own error with such a cache, by its sources, is some percent of a value.
    assert!(agreement > 0.8 && (0.005..0.5).contains(&difference), "{found}");
}

#[test]
fn quantized_weights_that_miss_a_limit_are_exit_status_4() {
    let Some(outcome) = compared(&[
        "--other.model",
        &model("q4_0"),
        "--quality.difference",
        "0.01",
        "--prompts",
        "1",
    ]) else {
        return;
    };
    assert_eq!(outcome.code, Some(4), "{}", outcome.stderr);
    let found = outcome.json();
    assert!(number(&found["result"]["difference"]) > 0.05, "{found}");
    let missed = found["result"]["missed"].as_str().unwrap();
    assert!(missed.contains("0.01 nats"), "{found}");
}

#[test]
fn an_engine_is_not_compared_with_itself() {
    for same in [
        &["--other.model", "b/c"][..],
        &["--other.memory-fraction", "0.8"],
        &["--kv-cache-dtype", "fp8", "--other.kv-cache-dtype", "fp8"],
    ] {
        let outcome = Profiler::new()
            .args(["run", "quality", "--engine", "sim"])
            .args(same)
            .run();
        assert_eq!(outcome.code, Some(2), "{same:?}: {}", outcome.stdout);
    }
}

/// The result of `engine.answer` by a server that answers so, for a generated text and for given tokens.
#[track_caller]
fn read(engine: &str, server: fn(&Asked) -> String) -> Value {
    let server = Scripted::start(server);
    let script = format!(
        "import \"std/engines\" as engines;
         let engine = engines::attach(\"{engine}\", #{{ url: \"{}\" }});
         let said = engine.answer(\"two words\", #{{ output: 2 }});
         let scored = ();
         try {{ scored = engine.answer([5, 6], #{{ tokens: [7, 8] }}); }} catch (problem) {{ scored = problem.kind; }}
         #{{ said: said, scored: scored }}",
        server.url
    );
    let program = Profiler::new().file("main.rhai", script);
    let outcome = program
        .args(["run", "main.rhai", "--json", "--allow", "net=127.0.0.1"])
        .run();
    outcome.success().json()["result"].clone()
}

fn json_answer(body: &Value) -> String {
    answer(200, "content-type: application/json\r\n", &body.to_string())
}

/// The forms are those of vLLM 0.24, SGLang 0.5.23 and TGI 3.3, by their sources.
#[test]
fn log_probabilities_are_read_in_the_form_of_each_engine() {
    let vllm = |asked: &Asked| match (&asked.body["logprobs"], &asked.body["prompt_logprobs"]) {
        (Value::Null, Value::Null) => healthy(asked),
        (_, Value::Null) => json_answer(&json!({ "choices": [{
            "text": "a b", "token_ids": [7, 8], "prompt_token_ids": [5, 6],
            "logprobs": { "tokens": ["a", "b"], "token_logprobs": [-0.25, -0.5], "text_offset": [0, 1], "top_logprobs": [] },
        }] })),
        _ => {
            assert_eq!(asked.body["prompt"], json!([5, 6, 7, 8]));
            let entry = |logprob: f64, rank: u32| json!({ "logprob": logprob, "rank": rank, "decoded_token": "x" });
            json_answer(&json!({ "choices": [{ "prompt_logprobs": [
                null, { "6": entry(-9.0, 90) }, { "7": entry(-0.25, 1) }, { "8": entry(-1.5, 2), "3": entry(-0.75, 1) },
            ] }] }))
        }
    };
    let scored = json!({ "prompt": [5, 6], "tokens": [7, 8], "logprobs": [-0.25, -1.5], "top": [7, 3] });
    let said = json!({ "prompt": [5, 6], "tokens": [7, 8], "logprobs": [-0.25, -0.5], "top": [7, 8] });
    assert_eq!(read("vllm", vllm), json!({ "said": said, "scored": scored }));

    // These score only what they generate.
    let sglang = |asked: &Asked| match asked.path.as_str() {
        "/generate" => json_answer(&json!({ "text": "a b", "meta_info": {
            "input_token_logprobs": [[null, 5, null], [-9.0, 6, null]],
            "output_token_logprobs": [[-0.25, 7, null], [-0.5, 8, null]],
        } })),
        _ => healthy(asked),
    };
    assert_eq!(read("sglang", sglang), json!({ "said": said, "scored": "usage" }));
    let tgi = |asked: &Asked| match asked.path.as_str() {
        "/generate" => {
            let token = |id: u32, logprob: f64| json!({ "id": id, "text": "x", "logprob": logprob, "special": false });
            json_answer(&json!({ "generated_text": "xx", "details": { "tokens": [token(7, -0.25), token(8, -0.5)] } }))
        }
        "/generate_stream" => {
            let ended = r#"{"token":{"id":7,"text":"x"},"details":{"finish_reason":"length","generated_tokens":1,"input_length":1}}"#;
            answer(200, "content-type: text/event-stream\r\n", &format!("data:{ended}\n\n"))
        }
        "/health" => answer(200, "", ""),
        _ => healthy(asked),
    };
    let ids = json!({ "prompt": [], "tokens": [7, 8], "logprobs": [-0.25, -0.5], "top": [] });
    assert_eq!(read("tgi", tgi), json!({ "said": ids, "scored": "usage" }));
    let openai = |asked: &Asked| match asked.body["logprobs"] {
        Value::Null => healthy(asked),
        _ => json_answer(
            &json!({ "choices": [{ "logprobs": { "tokens": ["a", "b"], "token_logprobs": [-0.25, -0.5] } }] }),
        ),
    };
    let texts = json!({ "prompt": [], "tokens": ["a", "b"], "logprobs": [-0.25, -0.5], "top": [] });
    assert_eq!(read("openai", openai), json!({ "said": texts, "scored": "usage" }));
}

/// Confirms a faster candidate with an 8-bit KV cache on the simulated engine, and one without.
fn confirmed(options: &str) -> Value {
    let script = format!(
        r#"
        import "std/engines" as engines;
        import "std/quality" as quality;
        import "std/tune/confirm" as confirm;
        import "std/tune/goal" as goal;
        import "std/tune/start" as start;
        let axes = engines::describe("sim", #{{}}).tunable();
        let load = #{{ input: 64, output: 48, requests_per_slot: 3, min_requests: 8, seed: 1 }};
        let plan = #{{
            engine: "sim", options: #{{ sim: #{{ time_scale: 0.005 }} }} + #{{ {options} }}.engine, axes: axes, percentile: 50, load: load,
            limits: quality::served(#{{ input: 64, output: 48, concurrency: 4 }}, axes),
        }};
        let one = |candidate| #{{ candidate: candidate, level: 4, worth: 1.0 }};
        let options = #{{ goal: goal::goodput(#{{}}), most: 4, hold: 0.0, axes: axes }} + #{{ {options} }}.limits;
        let begin = |what, candidate, ask| start::run(plan, what, candidate, ask);
        let winners = [one.call(#{{ kv_cache_dtype: "fp8" }}), one.call(#{{ kv_cache_dtype: "fp8", max_num_seqs: 64 }}), one.call(#{{ max_num_seqs: 64 }})];
        confirm::winner(winners, one.call(#{{}}), begin, options)
        "#
    );
    let program = Profiler::new().file("main.rhai", script);
    program.args(["run", "main.rhai", "--json"]).run().success().json()["result"].clone()
}

#[test]
fn a_confirmation_compares_answers_and_a_limit_rules_numbers_out() {
    let found = confirmed("engine: #{}, limits: #{}");
    assert_eq!(found["winner"], json!({ "kv_cache_dtype": "fp8" }), "{found}");
    assert!(
        number(&found["quality"]["agreement"]) < 1.0 && number(&found["quality"]["difference"]) > 0.0,
        "{found}"
    );
    assert_eq!(found["quality"]["usual"]["agreement"], json!(1.0), "{found}");

    // Each candidate with these numbers makes way, by one start.
    let found = confirmed("engine: #{}, limits: #{ quality: #{ agreement: 0.999 } }");
    assert_eq!(found["winner"], json!({ "max_num_seqs": 64 }), "{found}");
    assert_eq!(
        (found["refused"].as_array().unwrap().len(), &found["starts"]),
        (1, &json!(4)),
        "{found}"
    );

    // The simulated SGLang gives no log-probabilities: nothing else of the starts is lost.
    let other = r#"#{ profile: "llama-1b-h200-sglang" }"#;
    let found = confirmed(&format!("engine: {other}, limits: #{{}}"));
    assert_eq!(
        (&found["winner"]["kv_cache_dtype"], &found["starts"]),
        (&json!("fp8"), &json!(4)),
        "{found}"
    );
    assert!(
        found["quality"]["failed"].is_string() && found["worth"].is_number(),
        "{found}"
    );
    let found = confirmed(&format!(
        "engine: {other}, limits: #{{ quality: #{{ difference: 1.0 }} }}"
    ));
    assert_eq!(found["winner"], json!({ "max_num_seqs": 64 }), "{found}");
}
