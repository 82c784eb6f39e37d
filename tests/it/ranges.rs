//! A user gives no range, or only lengths, or the name of a workload, and the search chooses its range.

use serde_json::{Value, json};

use crate::script::bench::Bench;
use crate::support::Profiler;

fn run(sets: &[&str]) -> Value {
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    let outcome = Profiler::new()
        .args(["run", "adaptive", "--json", "--set", "engine=sim"])
        .args(sets)
        .run();
    outcome.success().json()["result"].clone()
}

fn axis(value: &Value) -> (i64, i64) {
    let range = value.get("range").unwrap_or(value);
    (range[0].as_i64().unwrap(), range[1].as_i64().unwrap())
}

fn verdict(result: &Value, concurrency: i64) -> Option<String> {
    let points = result["points"].as_array().unwrap();
    let at = points
        .iter()
        .find(|point| point["point"]["concurrency"] == concurrency)?;
    at["moves"].as_str().map(str::to_owned)
}

#[test]
fn without_a_range_it_is_what_the_engine_says_and_a_little_beyond() {
    let result = run(&[]);
    let question = &result["search"]["question"];
    assert_eq!(question["given"], json!([]));
    assert_eq!(question["searched"], json!(["input", "output"]));
    let bounds = &question["bounds"];
    assert_eq!(
        (&bounds["positions"], &bounds["longest"]),
        (&json!(131_072), &json!(8352))
    );
    // The first start requests the estimated limit: far below the model's positions, but no less than fits.
    let estimate = bounds["estimate"].as_u64().unwrap();
    assert!((8352..131_072).contains(&estimate), "{estimate}");
    // The verified limit is the engine's own number, and the open range took no more probes than a fixed one.
    assert_eq!(result["search"]["verified"]["ends"], 2, "{result}");
    assert!(
        result["search"]["probes"].as_u64().unwrap() <= 18,
        "{}",
        result["search"]
    );
    assert!(
        result["search"]["starts"].as_u64().unwrap() <= 2,
        "{}",
        result["search"]
    );
    for point in result["frontier"].as_array().unwrap() {
        let total = point["input"].as_i64().unwrap() + point["output"].as_i64().unwrap();
        assert!((8352 - 64..=8352).contains(&total), "{point}");
    }
}

#[test]
fn a_card_that_holds_more_than_the_model_takes_reaches_its_positions() {
    let result = run(&["profile=llama-8b-h200-vllm", "sim.time_scale=0.001"]);
    assert_eq!(result["frontier"].as_array().unwrap().len(), 1, "{result}");
    let largest = &result["frontier"][0];
    assert_eq!(
        largest["input"].as_i64().unwrap() + largest["output"].as_i64().unwrap(),
        131_072
    );
    assert_eq!(result["search"]["probes"], 2, "{}", result["search"]);
}

#[test]
fn two_lengths_ask_for_the_concurrency() {
    let result = run(&["input=2000", "output=500"]);
    let question = &result["search"]["question"];
    assert_eq!(question["searched"], json!(["concurrency"]));
    assert_eq!(question["given"], json!(["input", "output"]));
    // The KV cache of 8,352 tokens holds three requests of 2,500.
    assert_eq!(verdict(&result, 3).as_deref(), Some("fits"), "{result}");
    assert_eq!(verdict(&result, 4).as_deref(), Some("fails"), "{result}");
    // 522 blocks of 16 hold 74 requests of 110 tokens. On a busy machine such short ones may not all overlap.
    let short = run(&["input=100", "output=10"]);
    let limit = &short["answer"]["inequality"];
    assert_eq!(
        (&limit["reported"], &limit["fails"]),
        (&json!(74), &json!(75)),
        "{short}"
    );
    let together = |point: &Value| point["cause"] != "not_resident";
    if short["points"].as_array().unwrap().iter().all(together) {
        assert_eq!(limit["fits"], 74, "{short}");
    }
    // A fixed concurrency is not searched.
    let fixed = run(&["input=[128,4096]", "output=500", "concurrency=3", "search.max_probes=2"]);
    let question = &fixed["search"]["question"];
    assert_eq!(question["searched"], json!(["input"]));
    assert_eq!(question["given"], json!(["input", "output", "concurrency"]));
    assert_eq!(fixed["points"][0]["point"]["concurrency"], 3);
}

#[test]
fn a_tolerance_is_honoured_or_refused_before_anything_starts() {
    for tolerance in [16, 1] {
        let result = run(&["output=64", &format!("tolerance={tolerance}")]);
        let points = result["points"].as_array().unwrap().iter();
        let inputs = |fits: bool| {
            let points = points.clone().filter(move |row| (row["moves"] == "fits") == fits);
            points.map(|row| row["point"]["input"].as_i64().unwrap())
        };
        let (fits, beyond) = (inputs(true).max().unwrap(), inputs(false).min().unwrap());
        // The engine reports 8,352 tokens.
        assert!(
            fits <= 8288 && beyond > 8288 && beyond - fits <= tolerance,
            "{fits} {beyond}"
        );
    }
    for (refused, reason) in [
        ("tolerance=0.5 output=64", "tolerance"),
        ("tolerance=5000 input=[128,4096] output=64", "search range"),
        ("tolerance=4 input=512 output=64 concurrency=1", "nothing is searched"),
    ] {
        let sets = refused.split(' ').flat_map(|set| ["--set", set]);
        let outcome = Profiler::new()
            .args(["run", "adaptive", "--set", "engine=sim"])
            .args(sets);
        let outcome = outcome.run().code(2).stderr(reason);
        assert!(!outcome.folder().join("runs").exists(), "{refused}");
    }
}

#[test]
fn a_workload_is_a_name_or_a_file_and_nothing_else() {
    let result = run(&["workload=chat"]);
    let question = &result["search"]["question"];
    assert_eq!(question["searched"], json!(["concurrency"]));
    assert_eq!(question["workload"]["name"], "chat");
    assert_eq!(result["frontier"][0]["input"], question["workload"]["input"]["p95"]);
    let said = "chat: input 4,083, output 451 tokens, the 95th percentiles of its lengths";
    assert_eq!(result["answer"]["workload"], said);

    let with = |text: &str, workload: &str| {
        Profiler::new()
            .file("mine.toml", text)
            .args([
                "run",
                "adaptive",
                "--json",
                "--set",
                "engine=sim",
                "--set",
                "search.max_probes=2",
            ])
            .args(["--set", workload])
            .run()
    };
    let mine = "description = \"mine\"\nsource = \"measured\"\ninput = 700\noutput = { p50 = 50, p95 = 90 }\n";
    let own = with(mine, "workload=mine.toml").success().json();
    assert_eq!(
        own["result"]["points"][0]["point"],
        json!({ "concurrency": 1, "input": 700, "output": 90 })
    );
    let _ = with(&format!("{mine}rate = 3\n"), "workload=mine.toml")
        .code(2)
        .stderr("unknown field `rate`");
    let _ = with(mine, "workload=chta").code(2).stderr("`chat`?").stderr("`rag`");
}

#[test]
fn a_dry_run_shows_the_first_launch_and_where_its_range_comes_from() {
    let dry = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let run = Profiler::new().args(["run", "adaptive", "--dry-run", "--set", "engine=sim"]);
        run.args(sets).run().success()
    };
    let whole = dry(&["profile=llama-8b-h200-vllm"]);
    let _ = whole
        .stdout("\"total\":131072")
        .stdout("input 128 to 126,976")
        .stdout("the model's 131,072 positions");
    let _ = dry(&[]).stdout("cut to ").stdout("by the memory estimate");
    let _ = dry(&["input=[128,8192]", "output=[128,4096]"])
        .stdout("\"total\":12288")
        .stdout("input 128 to 8,192")
        .nowhere("positions");
    let _ = dry(&["input=2000", "output=500"])
        .stdout("concurrency 1 to ")
        .stdout("\"total\":2500");
}

#[test]
fn a_server_that_runs_already_says_itself_how_long_a_request_may_be() {
    let script = format!(
        r#"import "std/engines" as engines; import "std/search" as search; import "std/search/range" as ranges;
        let server = process::start(#{{ command: ["{}", "sim", "--profile", "llama-8b-24gb-vllm", "--port", "{{port}}",
            "--time-scale", "0.001", "--max-model-len", "4000"], port: 0 }});
        while server.logs().is_empty() {{ sleep(0.05); }}
        let p = params(engines::parameters() + ranges::parameters()) + #{{ engine: "vllm", model: (), url: server.url }};
        let lengths = ranges::settle(p);
        let requests = ranges::settle(p + #{{ input: 1000, output: 100 }});
        // Sixty-five blocks each: eight of them.
        let short = ranges::settle(p + #{{ input: 1000, output: 30 }});
        let engine = short.engine;
        search::adaptive(short.map, |point| engine.probe(point), #{{}});
        #{{ lengths: lengths.map.axes(), requests: requests.map.axes(), short: short.map.frontier() }}"#,
        env!("CARGO_BIN_EXE_profiler")
    );
    let run = Profiler::new()
        .file("s.rhai", &script)
        .args(["run", "s.rhai", "--json", "--allow", "process"]);
    let axes = run.run().success().json()["result"].clone();
    assert_eq!(axes["short"][0]["concurrency"], 8, "{axes}");
    let (input, output) = (axis(&axes["lengths"]["input"]), axis(&axes["lengths"]["output"]));
    assert_eq!(input.1 + output.0, 4001, "one more than it takes: {axes}");
    // Its metrics page reports a KV cache of 8,352 tokens: seven requests of 1,100, and a few more to find the limit.
    let (_, most) = axis(&axes["requests"]["concurrency"]);
    assert!((8..=12).contains(&most), "{axes}");
}

#[test]
fn what_an_engine_reports_is_verified_on_a_log_scale_too() {
    let value = Bench::script(
        r#"import "std/search" as search;
        let map = boundary(#{ input: #{ range: [128, 131072], scale: "log" }, concurrency: #{ range: [1, 1000], scale: "log" } }, #{});
        let probe = |p| #{ verdict: if p.input * p.concurrency <= 200000 { "ok" } else { "queued" }, report: #{ tokens: 200000 } };
        search::verify_report(map, probe, #{})"#,
    )
    .value();
    assert_eq!(value["predicted"]["held"], true, "{value}");
    assert_eq!(value["verified"]["middle"], 1, "{value}");
}
