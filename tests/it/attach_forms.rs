//! A user attaches to servers that accept only part of OpenAI's API or do not count tokens: the program finds out what
//! they accept, and still judges their answers.

use serde_json::{Value, json};

use crate::support::attached::{POINT, attached, table};
use crate::support::made_up::{MadeUp, Running, made_up};
use crate::support::{Outcome, Profiler, model, temp};

/// Runs a script that attaches to the server as `engine`. `options` are those of `attach` besides the URL.
fn run(server: &Running, options: &str, args: &[&str], body: &str) -> Outcome {
    let script = format!(
        "import \"std/engines\" as engines;
         let engine = engines::attach(\"openai\", #{{ url: \"{}\" }} + #{{ {options} }});
         {body}",
        server.url,
    );
    Profiler::new()
        .file("main.rhai", script)
        .args(["run", "main.rhai", "--allow", "net=127.0.0.1", "--out", "run", "--json"])
        .args(args)
        .run()
}

/// A probe, a prompt of the user and a load.
const USE: &str = r#"
    let probe = engine.probe(#{ input: 100, output: 8 });
    let sent = engine.send("five words of our own", #{ output: 4 });
    let load = engine.load(#{ concurrency: 2, requests: 4, input: 50, output: 4 });
    #{
        probe: [probe.verdict, probe.cause, probe.input, probe.output],
        sent: [sent.complete, sent.input, sent.output],
        load: [load.completed, load.failed],
    }
"#;

/// The result of `USE` on a server that serves everything.
const SERVED: &str = r#"/result={"probe":["ok",null,100,8],"sent":[true,5,4],"load":[4,0]}"#;

fn refused(server: &Running) -> usize {
    server.completions().iter().filter(|seen| seen.status != 200).count()
}

/// Fails unless the server is used as `parts` say, with this form in the journal and this many refused requests.
fn check(server: MadeUp, form: Value, refusals: usize, parts: &[&str]) {
    let server = server.start();
    let outcome = run(&server, "", &[], USE).sees(0, parts);
    let journal = std::fs::read_to_string(outcome.folder().join("run/journal.jsonl")).unwrap();
    let lines = journal
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let request = lines
        .filter_map(|line| Some(find(&line, "request")?.clone()))
        .next()
        .unwrap();
    for (key, value) in form.as_object().unwrap() {
        assert_eq!(request[key], *value, "{request}");
    }
    assert_eq!(refused(&server), refusals);
}

table! { check:
    all: made_up! {}, json!({ "form": "token ids to `/v1/completions`" }), 0, &[SERVED, "!refused"];
    chat_alone: made_up! { completions: false, further_tokens: 7 }, json!({ "form": "text to `/v1/chat/completions`" }), 1,
        &["/result/probe/0=\"ok\"", "/result/sent=[true,12,4]", "/result/load=[4,0]", "`/v1/chat/completions`", "404"];
    no_token_ids: made_up! { token_ids: false }, json!({ "form": "text to `/v1/completions`" }), 1, &[SERVED, "422"];
    unknown_fields: made_up! { unknown_fields: &["min_tokens", "stream_options"] },
        json!({ "left_out": ["min_tokens", "stream_options"] }), 2, &[SERVED, "`min_tokens`, `stream_options`"];
    a_newer_name_of_the_length: made_up! { newer_length: true }, json!({ "left_out": ["max_tokens"] }), 1,
        &[SERVED, "`max_completion_tokens`", "`max_tokens`"];
    /// The error message repeats the request body: the fields in it are not the rejected ones.
    a_refusal_that_repeats_the_request: made_up! { token_ids: false, repeats_body: true },
        json!({ "form": "text to `/v1/completions`" }), 1, &[SERVED, "!`ignore_eos`", "!`min_tokens`"];
}

/// The first object under this key, at any depth.
fn find<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(map) => {
            let own = map.get(key).filter(|found| found.is_object());
            own.or_else(|| map.values().find_map(|inner| find(inner, key)))
        }
        Value::Array(items) => items.iter().find_map(|inner| find(inner, key)),
        _ => None,
    }
}

/// Fails unless every request that generates text has this model, or none.
fn names(server: MadeUp, command: &str, model: Value) {
    let server = server.start();
    let _ = attached(&server.url, command).run().success();
    let seen = server.completions();
    assert!(
        !seen.is_empty() && seen.iter().all(|seen| seen.body["model"] == model),
        "{seen:?}"
    );
}

table! { names:
    listed: made_up! {}, POINT, json!("made-up");
    neither_listed_nor_named: made_up! { models: false }, POINT, Value::Null;
    /// This is the default model of the scripts.
    named_but_not_listed: made_up! { models: false },
        "run adaptive --input 32 --output 4 --concurrency 1 --model Qwen/Qwen3-8B", json!("Qwen/Qwen3-8B");
}

/// The name that the user gives is never left out.
#[test]
fn a_named_model_that_the_server_does_not_have() {
    let server = made_up! { models: false, only_its_model: true }.start();
    let _ = run(&server, "model: \"mine\"", &[], USE).code(2);
    assert_eq!(refused(&server), 1);
}

/// Runs the command and returns the number of requests that generate text.
fn refuses(server: MadeUp, command: &str, requests: usize, parts: &[&str]) {
    let server = server.start();
    let _ = attached(&server.url, command).run().sees(3, parts);
    assert_eq!(server.completions().len(), requests);
}

table! { refuses:
    nothing_accepted: made_up! { completions: false, chat: false }, "run adaptive", 2,
        &["`/v1/completions` (404: ", "Not Found", "`/v1/chat/completions` (404: ", "engine=vllm"];
    no_stream: made_up! { streams: false }, "run adaptive", 3, &["stream"];
    nothing_counted: made_up! { usage: false, token_ids: false }, "run adaptive", 3, &["--tokenizer NAME"];
}

/// Fails unless the input of a server without `usage` is counted by `counted`; its output is counted from the stream.
fn counts(server: MadeUp, tokenizer: bool, counted: &str) {
    let folder = temp();
    if tokenizer {
        model::write(folder.path());
    }
    let folder = folder.path().display();
    let options = if tokenizer {
        format!("tokenizer: \"{folder}\"")
    } else {
        String::new()
    };
    let outcome = run(&server.start(), &options, &["--allow", &format!("mount={folder}")], USE);
    let result = [
        "/result/probe=[\"ok\",null,100,8]",
        "/result/sent=[true,null,null]",
        "/result/load=[4,0]",
    ];
    let _ = outcome.sees(0, &result).stderr(counted);
}

table! { counts:
    by_token_ids: made_up! { usage: false }, false, "token ids";
    by_vllm: made_up! { usage: false, token_ids: false, tokenize: Some("prompt") }, false, "`/tokenize`";
    by_vllm_of_chat: made_up! { usage: false, token_ids: false, tokenize: Some("prompt"), completions: false, further_tokens: 9 },
        false, "`/tokenize`";
    by_llamacpp: made_up! { usage: false, token_ids: false, tokenize: Some("content") }, false, "`/tokenize`";
    by_a_tokenizer: made_up! { usage: false, token_ids: false }, true, "tokenizer";
}

/// The server's count changes with every request, so no prompt has exactly the requested length.
#[test]
fn a_verdict_holds_for_the_length_that_was_counted() {
    let server = made_up! { token_ids: false, uneven: 4 }.start();
    let outcome = run(
        &server,
        "",
        &[],
        "let map = boundary(#{ input: [100, 2000], output: [8, 16] }, #{});
         let seen = [];
         for input in [1000, 1500] {
             let point = #{ input: input, output: 8 };
             let answer = engine.probe(point);
             map.record(point, answer);
             seen.push([answer.verdict, answer.input - input, answer.counted == #{ input: answer.input }, map.recorded(point)]);
         }
         let alone = boundary(#{ input: [700, 700], output: [8, 16] }, #{});
         alone.record(#{ input: 700, output: 8 }, engine.probe(#{ input: 700, output: 8 }));
         let off = engine.probe(#{ input: 100, output: 8 });
         #{ seen: seen, points: map.points().map(|row| row.point.input), frontier: map.frontier(), alone: alone.frontier(),
            off: [off.input, off.evidence.message] }",
    );
    let result = outcome.success().json()["result"].clone();
    for seen in result["seen"].as_array().unwrap() {
        let off = seen[1].as_i64().unwrap();
        assert!(off != 0 && off.abs() <= 8, "{result}");
        assert_eq!(*seen, json!(["ok", off, true, true]));
    }
    let counted = |at: usize, asked: i64| json!(asked + result["seen"][at][1].as_i64().unwrap());
    assert_eq!(result["points"], json!([counted(0, 1000), counted(1, 1500)]));
    assert_eq!(result["frontier"], json!([{ "input": counted(1, 1500), "output": 8 }]));
    assert_eq!(
        result["alone"],
        json!([{ "input": 700, "output": 8 }]),
        "a range of one length has no other"
    );
    let off = &result["off"];
    assert!(off[1].as_str().unwrap().contains(&off[0].to_string()), "{off}");
    // One small request finds the form and what is counted; then each length is sent once.
    assert_eq!(server.completions().iter().filter(|seen| seen.status == 200).count(), 5);
}

#[test]
fn a_search_goes_on_from_the_lengths_that_were_counted() {
    let server = made_up! { completions: false, further_tokens: 30, uneven: 4, limit: Some(3000) }.start();
    let command = "run adaptive --json --output 16 --input 128..8192 --search.max-probes 40";
    let outcome = attached(&server.url, command).run().success();
    let frontier = outcome.json()["result"]["frontier"][0]["input"].as_i64().unwrap();
    assert!((2800..=3000 - 16).contains(&frontier), "{frontier}");
    // The count differs on every request, and still no length is probed twice.
    assert!(server.completions().len() <= 16);
}

/// The output is three tokens short.
fn ends_early(options: &str, parts: &[&str]) {
    let server = made_up! { unknown_fields: &["min_tokens", "ignore_eos"], ends_at: Some(5) }.start();
    let probe = "engine.probe(#{ input: 100, output: 8 })";
    let _ = run(&server, options, &[], probe).sees(0, parts);
}

table! { ends_early:
    too_early: "", &["/result/verdict=\"short_output\"", "/result/output=5", "`ignore_eos` and `min_tokens`", "output=16"];
    still_too_early: "output_tolerance: 2", &["/result/verdict=\"short_output\""];
    early_but_tolerated: "output_tolerance: 3", &["/result/verdict=\"ok\""];
    early_beyond_a_share: "output_tolerance: \"37%\"", &["/result/verdict=\"short_output\""];
    early_within_a_share: "output_tolerance: \"38%\"", &["/result/verdict=\"ok\""];
}

/// Runs a load with nothing but the server's address; the server counts every request differently.
#[test]
fn throughput_is_measured_at_a_server_of_chat_alone() {
    let server = made_up! { completions: false, uneven: 4 }.start();
    let command = "run throughput --json --input 200 --output 16 --concurrency 1,2 --requests 8";
    let outcome = attached(&server.url, command).run().success();
    let levels = outcome.json()["result"]["workloads"][0]["levels"].clone();
    let counts = |level: &Value| (level["completed"].clone(), level["failed"].clone());
    let counts: Vec<_> = levels.as_array().unwrap().iter().map(counts).collect();
    assert_eq!(counts, [(json!(8), json!(0)), (json!(8), json!(0))], "{levels}");
}
