//! A user attaches to servers that accept only part of OpenAI's API or do not count tokens: the program finds out what
//! they accept, and still judges their answers.

use serde_json::{Value, json};

use crate::support::made_up::{MadeUp, Running, Seen};
use crate::support::{Outcome, Profiler, model, temp};

/// Runs a probe, a prompt of the user and a load. `options` are those of `attach` besides the URL.
fn used(server: &Running, options: &str) -> Outcome {
    used_with(server, options, &[])
}

fn used_with(server: &Running, options: &str, args: &[&str]) -> Outcome {
    let script = format!(
        "import \"std/engines\" as engines;
         let engine = engines::attach(\"openai\", #{{ url: \"{}\" }} + #{{ {options} }});
         let probe = engine.probe(#{{ input: 100, output: 8 }});
         let sent = engine.send(\"five words of our own\", #{{ output: 4 }});
         let load = engine.load(#{{ concurrency: 2, requests: 4, input: 50, output: 4 }});
         #{{
             probe: [probe.verdict, probe.cause, probe.input, probe.output],
             sent: [sent.complete, sent.input, sent.output],
             load: [load.completed, load.failed],
         }}",
        server.url,
    );
    Profiler::new()
        .file("main.rhai", script)
        .args(["run", "main.rhai", "--allow", "net=127.0.0.1", "--out", "run", "--json"])
        .args(args)
        .run()
}

/// The result of `used` on a server that serves everything.
fn all_served() -> Value {
    json!({ "probe": ["ok", null, 100, 8], "sent": [true, 5, 4], "load": [4, 0] })
}

/// The request form that the journal records.
fn journaled(outcome: &Outcome) -> Value {
    let journal = std::fs::read_to_string(outcome.folder().join("run/journal.jsonl")).unwrap();
    let request = journal
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|line| Some(find(&line, "request")?.clone()));
    request.unwrap_or_else(|| panic!("no form in\n{journal}"))
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

fn refused(server: &Running) -> Vec<Seen> {
    let all = server.completions();
    all.into_iter().filter(|seen| seen.status != 200).collect()
}

#[test]
fn a_server_that_takes_everything_is_asked_by_token_ids() {
    let server = MadeUp::default().start();
    let outcome = used(&server, "").success().nowhere("refused");
    assert_eq!(outcome.json()["result"], all_served());
    assert_eq!(journaled(&outcome)["form"], "token ids to `/v1/completions`");
    let bodies = server.completions();
    assert!(bodies.iter().all(|seen| seen.body["model"] == "made-up"));
    assert!(bodies.iter().all(|seen| seen.body["ignore_eos"] == true));
}

#[test]
fn a_server_of_chat_alone_is_asked_by_chat() {
    let server = MadeUp {
        completions: false,
        further_tokens: 7,
        ..MadeUp::default()
    }
    .start();
    let outcome = used(&server, "").success();
    let mut expected = all_served();
    expected["sent"][1] = json!(5 + 7);
    assert_eq!(outcome.json()["result"], expected);
    let outcome = outcome.stderr("text to `/v1/chat/completions`").stderr("404");
    assert_eq!(journaled(&outcome)["form"], "text to `/v1/chat/completions`");
    assert_eq!(refused(&server).len(), 1, "a path that is not there is asked once");
}

#[test]
fn a_server_that_takes_no_token_ids_gets_text() {
    let server = MadeUp {
        token_ids: false,
        ..MadeUp::default()
    }
    .start();
    let outcome = used(&server, "").success();
    assert_eq!(outcome.json()["result"], all_served());
    let _ = outcome
        .stderr("prompts are sent as text to `/v1/completions`")
        .stderr("422");
    assert_eq!(refused(&server).len(), 1);
}

#[test]
fn a_field_that_the_server_does_not_know_is_left_out() {
    let server = MadeUp {
        unknown_fields: &["min_tokens", "stream_options"],
        ..MadeUp::default()
    }
    .start();
    let outcome = used(&server, "").success();
    assert_eq!(outcome.json()["result"], all_served());
    let outcome = outcome.stderr("without `min_tokens`, `stream_options`");
    assert_eq!(journaled(&outcome)["left_out"], json!(["min_tokens", "stream_options"]));
    assert_eq!(refused(&server).len(), 2, "each field is refused once");
}

#[test]
fn a_newer_name_of_the_length_is_taken_over() {
    let server = MadeUp {
        newer_length: true,
        ..MadeUp::default()
    }
    .start();
    let outcome = used(&server, "").success();
    assert_eq!(outcome.json()["result"], all_served());
    let outcome = outcome.stderr("they say `max_completion_tokens` instead of `max_tokens`");
    assert_eq!(journaled(&outcome)["left_out"], json!(["max_tokens"]));
    assert_eq!(refused(&server).len(), 1);
}

/// The error message repeats the request body: the fields in it are not the rejected ones.
#[test]
fn a_refusal_that_repeats_the_request_costs_no_field() {
    let server = MadeUp {
        token_ids: false,
        repeats_body: true,
        ..MadeUp::default()
    }
    .start();
    let outcome = used(&server, "").success().nowhere("requests go without");
    assert_eq!(outcome.json()["result"], all_served());
    assert_eq!(refused(&server).len(), 1);
}

#[test]
fn a_server_that_does_not_stream_is_told_so() {
    let server = MadeUp {
        streams: false,
        ..MadeUp::default()
    }
    .start();
    let _ = used(&server, "")
        .code(3)
        .stderr("the server does not stream")
        .stdout("let it stream");
}

/// The name that the user gives is sent, even if it is the default model of the scripts.
#[test]
fn a_model_that_the_user_names_is_sent() {
    let server = MadeUp {
        models: false,
        ..MadeUp::default()
    }
    .start();
    let asked = |set: &[&str]| {
        let before = server.completions().len();
        let outcome = Profiler::new()
            .args([
                "run",
                "adaptive",
                "--set",
                "input=32",
                "--set",
                "output=4",
                "--set",
                "concurrency=1",
            ])
            .args(["--url", &server.url])
            .args(set)
            .run();
        let _ = outcome.success();
        server.completions()[before..]
            .iter()
            .map(|seen| seen.body["model"].clone())
            .collect::<Vec<_>>()
    };
    assert!(asked(&[]).iter().all(Value::is_null));
    assert!(
        asked(&["--model", "Qwen/Qwen3-8B"])
            .iter()
            .all(|model| model == "Qwen/Qwen3-8B")
    );
}

#[test]
fn a_server_that_takes_none_is_told_with_each_answer_and_a_remedy() {
    let server = MadeUp {
        completions: false,
        chat: false,
        ..MadeUp::default()
    }
    .start();
    let outcome = Profiler::new()
        .args(["run", "adaptive", "--set", &format!("url={}", server.url)])
        .run();
    let _ = outcome
        .code(3)
        .stderr("`/v1/completions` (404: ")
        .stderr("Not Found")
        .stderr("`/v1/chat/completions` (404: ")
        .stderr("engine=vllm");
    assert_eq!(server.completions().len(), 2);
}

/// Without a model list the name is unknown: the name that the user gives is sent, and never left out.
#[test]
fn a_server_without_a_model_list_gets_the_name_that_the_user_gives() {
    let server = MadeUp {
        models: false,
        ..MadeUp::default()
    }
    .start();
    assert_eq!(used(&server, "").success().json()["result"], all_served());
    assert!(server.completions().iter().all(|seen| seen.body["model"].is_null()));
    let before = server.completions().len();
    assert_eq!(
        used(&server, "model: \"mine\"").success().json()["result"],
        all_served()
    );
    assert!(
        server
            .completions()
            .split_off(before)
            .iter()
            .all(|seen| seen.body["model"] == "mine")
    );
    let server = MadeUp {
        models: false,
        only_its_model: true,
        ..MadeUp::default()
    }
    .start();
    let _ = used(&server, "model: \"mine\"").code(2);
    assert_eq!(refused(&server).len(), 1);
}

/// Covers four ways to count the input; the output is counted from the stream.
#[test]
fn a_server_that_counts_nothing_is_counted() {
    let folder = temp();
    model::write(folder.path());
    let tokenizer = format!("tokenizer: \"{}\"", folder.path().display());
    let silent = MadeUp {
        usage: false,
        ..MadeUp::default()
    };
    let text = MadeUp {
        token_ids: false,
        ..silent.clone()
    };
    let vllm = MadeUp {
        tokenize: Some("prompt"),
        ..text.clone()
    };
    let chat = MadeUp {
        completions: false,
        further_tokens: 9,
        ..vllm.clone()
    };
    let llamacpp = MadeUp {
        tokenize: Some("content"),
        ..text.clone()
    };
    for (made_up, options, how) in [
        (silent, "", "input by the token ids that were sent"),
        (vllm, "", "input by the server's `/tokenize`"),
        (chat, "", "input by the server's `/tokenize`"),
        (llamacpp, "", "input by the server's `/tokenize`"),
        (text.clone(), tokenizer.as_str(), "input by the tokenizer"),
    ] {
        let server = made_up.start();
        let mount = format!("mount={}", folder.path().display());
        let outcome = used_with(&server, options, &["--allow", &mount]).success();
        let mut expected = all_served();
        expected["sent"] = json!([true, null, null]);
        assert_eq!(outcome.json()["result"], expected, "{how}");
        let _ = outcome.stderr(how).stderr("output by the events of the stream");
    }
    let server = text.start();
    let _ = used(&server, "").code(3).stderr("tokenizer=NAME");
}

/// The server's count changes with every request, so no prompt has exactly the requested length.
#[test]
fn a_verdict_holds_for_the_length_that_was_counted() {
    let server = MadeUp {
        token_ids: false,
        uneven: 4,
        ..MadeUp::default()
    }
    .start();
    let script = format!(
        "import \"std/engines\" as engines;
         let engine = engines::attach(\"openai\", #{{ url: \"{}\" }});
         let map = boundary(#{{ input: [100, 2000], output: [8, 16] }}, #{{}});
         let seen = [];
         for input in [1000, 1500] {{
             let point = #{{ input: input, output: 8 }};
             let answer = engine.probe(point);
             map.record(point, answer);
             seen.push([answer.verdict, answer.input - input, answer.counted == #{{ input: answer.input }}, map.recorded(point)]);
         }}
         let alone = boundary(#{{ input: [700, 700], output: [8, 16] }}, #{{}});
         alone.record(#{{ input: 700, output: 8 }}, engine.probe(#{{ input: 700, output: 8 }}));
         let off = engine.probe(#{{ input: 100, output: 8 }}).evidence.message;
         #{{ seen: seen, points: map.points().map(|row| row.point.input), frontier: map.frontier(), alone: alone.frontier(), off: off }}",
        server.url,
    );
    let outcome = Profiler::new()
        .file("main.rhai", script)
        .args(["run", "main.rhai", "--allow", "net=127.0.0.1", "--out", "run", "--json"])
        .run()
        .success();
    let result = outcome.json()["result"].clone();
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
    assert!(result["off"].as_str().unwrap().contains("as the engine counts them"));
    // One small request finds the form and what is counted; then each length is sent once.
    assert_eq!(server.completions().iter().filter(|seen| seen.status == 200).count(), 5);
}

#[test]
fn a_search_goes_on_from_the_lengths_that_were_counted() {
    let server = MadeUp {
        completions: false,
        further_tokens: 30,
        uneven: 4,
        limit: Some(3000),
        ..MadeUp::default()
    }
    .start();
    let outcome = Profiler::new()
        .args(["run", "adaptive", "--json", "--set", &format!("url={}", server.url)])
        .args([
            "--set",
            "output=16",
            "--set",
            "input=[128,8192]",
            "--set",
            "search.max_probes=40",
        ])
        .run()
        .success();
    let frontier = outcome.json()["result"]["frontier"][0]["input"].as_i64().unwrap();
    assert!((2800..=3000 - 16).contains(&frontier), "{frontier}");
    // The count differs on every request, and still no length is probed twice.
    assert!(server.completions().len() <= 16);
}

#[test]
fn a_text_that_ends_early_says_what_keeps_it_going() {
    let server = MadeUp {
        unknown_fields: &["min_tokens", "ignore_eos"],
        ends_at: Some(5),
        ..MadeUp::default()
    }
    .start();
    let script = format!(
        "import \"std/engines\" as engines;
         let answer = engines::attach(\"openai\", #{{ url: \"{0}\" }}).probe(#{{ input: 100, output: 8 }});
         let near = [];
         for missing in [2, 3] {{
             near.push(engines::attach(\"openai\", #{{ url: \"{0}\", output_tolerance: missing }}).probe(#{{ input: 100, output: 8 }}).verdict);
         }}
         #{{ verdict: answer.verdict, output: answer.output, said: answer.evidence.message, near: near }}",
        server.url,
    );
    let outcome = Profiler::new()
        .file("main.rhai", script)
        .args(["run", "main.rhai", "--json", "--allow", "net=127.0.0.1"])
        .run()
        .success();
    let result = outcome.json()["result"].clone();
    assert_eq!(
        (&result["verdict"], &result["output"]),
        (&json!("short_output"), &json!(5))
    );
    // The output is three tokens short: `output_tolerance: 3` lets it pass, 2 does not.
    assert_eq!(result["near"], json!(["short_output", "ok"]));
    let _ = outcome.stderr("does not take");
    let said = result["said"].as_str().unwrap();
    assert!(
        said.contains("does not take `ignore_eos` and `min_tokens`") && said.contains("output=16"),
        "{said}"
    );
}

/// Runs a load with nothing but the server's address; the server counts every request differently.
#[test]
fn throughput_is_measured_at_a_server_of_chat_alone() {
    let server = MadeUp {
        completions: false,
        uneven: 4,
        ..MadeUp::default()
    }
    .start();
    let outcome = Profiler::new()
        .args(["run", "throughput", "--json", "--set", &format!("url={}", server.url)])
        .args([
            "--set",
            "input=200",
            "--set",
            "output=16",
            "--set",
            "concurrency=[1,2]",
            "--set",
            "requests=8",
        ])
        .run()
        .success();
    let levels = outcome.json()["result"]["workloads"][0]["levels"].clone();
    for level in levels.as_array().unwrap() {
        assert_eq!(
            (&level["completed"], &level["failed"]),
            (&json!(8), &json!(0)),
            "{level}"
        );
    }
    assert_eq!(levels.as_array().unwrap().len(), 2);
}
