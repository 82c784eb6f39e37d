//! A user runs the load scripts end to end on the simulated engine, whose speeds are known: a step takes 16.5 ms plus
//! 0.1 ms per sequence, and its KV cache of 8,352 tokens holds 13 sequences of 640.

use serde_json::{Value, json};

use crate::script::bench::Bench;
use crate::support::{Outcome, Profiler, killed_and_resumed_at, model, wait_for_text};

fn script(name: &str, set: &[&str]) -> Profiler {
    let run = Profiler::new().args(["run", name, "--out", "out"]);
    set.iter().fold(run, |run, set| run.args(["--set", set]))
}

fn table(outcome: &Outcome, name: &str) -> Value {
    let path = outcome.folder().join(format!("out/tables/{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

/// The fastest clock that a test machine keeps up with.
const CLOCK: &str = "sim.time_scale=0.02";

#[test]
fn throughput_grows_until_the_cache_is_full() {
    let set = [
        CLOCK,
        "concurrency=[1, 8, 32, 64]",
        "price_per_hour=2.93",
        "requests_per_slot=3",
        "min_requests=24",
    ];
    let outcome = script("throughput", &set).arg("--json").run().success();
    let document = outcome.json();
    assert_eq!(document["simulated"], true);
    let workload = &document["result"]["workloads"][0];
    let levels = workload["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 4);
    let rate = |level: usize| number(&levels[level]["output_throughput"]);
    for (level, requests) in levels.iter().zip([24, 24, 96, 192]) {
        assert_eq!(
            (&level["issued"], &level["completed"]),
            (&json!(requests), &json!(requests)),
            "{level}"
        );
        // The price is divided by the aggregate rate, not by the rate of one request.
        let cost = 2.93 / 3600.0 / number(&level["output_throughput"]) * 1e6;
        assert!((number(&level["cost_output"]) - cost).abs() < 1e-9 * cost, "{level}");
    }
    // The model's steps allow at most 1 / 16.6 ms for one sequence, and 13 / 17.8 ms for a full cache.
    let (alone, full) = (1.0 / 0.0166, 13.0 / 0.0178);
    assert!(rate(0) < 1.05 * alone && rate(0) > 0.3 * alone, "{}", rate(0));
    assert!(
        rate(2) < 1.05 * full && rate(3) < 1.05 * full && rate(2) > 2.0 * rate(0),
        "{levels:?}"
    );
    // Latencies are those of the modelled card: a step of 16.6 ms, whatever the clock.
    assert!(number(&levels[0]["mean_tpot_ms"]) > 16.0, "{}", levels[0]);
    let finding = document["result"]["finding"].as_str().unwrap();
    assert!(finding.contains("concurrent requests"), "{finding}");
    assert!(
        !workload["waiting"].is_null() && workload["notes"].is_array(),
        "{workload}"
    );
    for level in levels {
        for percentile in ["median", "p90", "p95", "p99"] {
            for latency in ["ttft_ms", "tpot_ms", "itl_ms", "e2el_ms"] {
                let name = format!("{percentile}_{latency}");
                assert!(
                    level[&name].is_number() && level[format!("{name}_thin")] == level[format!("{name}_low")].is_null(),
                    "{name}: {level}"
                );
            }
        }
    }
    let mut rows = levels.clone();
    rows.iter_mut().for_each(|row| row["simulated"] = true.into());
    assert_eq!(table(&outcome, "throughput"), Value::Array(rows));
    let bench = std::fs::read(outcome.folder().join("out/loads/1.json")).unwrap();
    let bench: Value = serde_json::from_slice(&bench).unwrap();
    assert_eq!(bench["simulated"], true);
    let csv = std::fs::read_to_string(outcome.folder().join("out/tables/throughput.csv")).unwrap();
    assert!(csv.starts_with("concurrency,issued,completed,"), "{csv}");
    assert_eq!(csv.lines().count(), 5);
}

#[test]
fn a_sweep_is_shown_as_it_was_again() {
    let set = [CLOCK, "concurrency=[1, 4]", "output=16", "min_requests=8"];
    let outcome = script("throughput", &set).run().success();
    let outcome = outcome
        .stdout("SIMULATED")
        .stdout("throughput of sim")
        .stdout("output tokens/s")
        .stderr("] level 1 of 2: 1 concurrent request: ")
        .stderr("] level 2 of 2: 4 concurrent requests: ");
    // Further warnings depend on how busy the machine is.
    let others: Vec<&str> = outcome
        .stderr
        .lines()
        .filter(|line| !line.contains("] level ") && !line.contains("] asked: ") && !line.starts_with("warning"))
        .collect();
    assert!(others.len() <= 5, "{others:#?}");
    let shown = Profiler::new()
        .args(["show"])
        .arg(outcome.folder().join("out"))
        .run()
        .success();
    let table = outcome.stdout.split("throughput of sim").nth(1).unwrap();
    let table = table.split("\nasked ").next().unwrap();
    let _ = shown.stdout(table.trim()).stdout("SIMULATED").nowhere("result: {");
}

#[test]
fn a_sweep_ends_where_throughput_no_longer_grows() {
    let set = [
        CLOCK,
        "concurrency=[1, 16, 32, 48, 64, 80, 96, 112]",
        "requests_per_slot=2",
        "min_requests=16",
        "stop_gain=0.6",
    ];
    let document = script("throughput", &set).arg("--json").run().success().json();
    let workload = &document["result"]["workloads"][0];
    // From 16 on the cache is full: four levels are enough where nothing else slows the machine.
    assert!(workload["levels"].as_array().unwrap().len() < 8, "{workload}");
    assert!(workload["stopped"].as_str().unwrap().contains("60 %"));
}

#[test]
fn a_rehearsal_tells_the_levels_and_starts_nothing() {
    for name in ["throughput", "slo", "kv_cache", "compare_engines"] {
        let outcome = script(name, &[]).arg("--dry-run").run().success();
        let outcome = outcome.stdout("dry run").stdout("the script says").stdout("SIMULATED");
        assert!(!outcome.folder().join("out").exists(), "{name}");
    }
    let _ = script("throughput", &["study=both"])
        .arg("--dry-run")
        .run()
        .success()
        .stdout("latency: concurrency 1, 2, 4, 8; 512 + 512 tokens");
}

#[test]
fn wrong_words_are_told_before_anything_starts() {
    for (name, set, part) in [
        ("throughput", "study=fast", "`fast`"),
        ("throughput", "order=sideways", "`order` is `sideways`"),
        ("slo", "axis=width", "`axis` is `width`"),
        ("slo", "attainment=2.0", "`attainment` is 2"),
        ("kv_cache", "metrics_hz=1", "`metrics_hz` is 1"),
        (
            "compare_engines",
            r#"engines=["sim", "sim"]"#,
            "two engines are called `sim`",
        ),
        ("throughput", r#"concurrency=["many"]"#, "`concurrency` must be numbers"),
        ("throughput", r#"rates=["fast"]"#, "`rates` must be numbers"),
        ("throughput", "duration=long", "`duration` must be a number"),
        ("slo", "from=none", "`from` must be a number"),
    ] {
        // A mistake of the user is not explained by lines of a shipped script.
        let outcome = script(name, &[set]).run().code(2).stderr(part);
        let _ = outcome.nowhere("starting sim").nowhere("raised at");
    }
}

#[test]
fn prompts_that_cannot_be_read_are_told_before_anything_starts() {
    for (name, set) in [("compare_engines", r#"engines=["sim"]"#), ("tune", "engine=sim")] {
        for file in ["missing.txt", ".", "empty.txt"] {
            let prompts = format!("prompts={file}");
            let run = script(name, &[set, "input=64", &prompts]).file("empty.txt", "\n");
            let outcome = run.run().code(2).nowhere("starting sim");
            assert!(!outcome.folder().join("out").exists(), "{name} {file}");
        }
    }
}

#[test]
fn an_infinite_rate_is_a_burst() {
    let set = [CLOCK, r#"rates=["inf"]"#, "min_requests=12", "output=8"];
    let outcome = script("throughput", &set).arg("--json").run().success();
    let level = &outcome.json()["result"]["workloads"][0]["levels"][0];
    assert_eq!(level["completed"], 12, "{level}");
    let records = std::fs::read_to_string(outcome.folder().join("out/loads/1.jsonl")).unwrap();
    let due = records.lines().map(|line| {
        serde_json::from_str::<Value>(line).unwrap()["scheduled"]
            .as_f64()
            .unwrap()
    });
    assert!(due.fold(0.0, f64::max) < 0.001, "{records}");
}

/// 14 sequences of 512 + 64 tokens fill the cache and take about 1.25 s; one more waits until another ends, and takes
/// twice as long.
#[test]
fn the_largest_concurrency_that_meets_a_limit_is_found() {
    let set = [
        "sim.time_scale=0.1",
        "output=64",
        "slo.e2el_ms=2300",
        "from=8",
        "most=64",
        "tries=2",
    ];
    let outcome = script("slo", &set).arg("--json").run().success();
    let found = &outcome.json()["result"];
    let meets = found["meets"].as_i64().unwrap_or(0);
    let fails = found["fails"].as_i64().unwrap_or(0);
    assert!((2..=15).contains(&meets) && fails > meets && fails <= 64, "{found}");
    for level in found["levels"].as_array().unwrap() {
        let (low, high) = (number(&level["low"]), number(&level["high"]));
        match level["verdict"].as_str().unwrap() {
            "meets" => assert!(low >= 0.95),
            "fails" => assert!(high < 0.95),
            _ => assert!(low < 0.95 && high >= 0.95),
        }
    }
    assert_eq!(
        table(&outcome, "slo").as_array().unwrap().len(),
        found["levels"].as_array().unwrap().len()
    );
}

#[test]
fn a_level_that_begins_slowly_is_measured_once_more() {
    let rows = Bench::script(
        r#"import "std/load" as load;
        let p = params(load::parameters() + #{ output: param(16, "tokens"), sim: param(#{ time_scale: 0.001 }, "clock") });
        let answer = load::launch(p, 4).load(load::level_options(p, "concurrency", 4, 0));
        let slow = answer + #{ warnings: [#{ code: "slow_start", message: "slow", value: 2.0 }] };
        let steady = answer + #{ warnings: [] };
        let seeds = [];
        let first_slow = |times| #{
            load: |options| {
                seeds.push(options.seed);
                if seeds.len() <= times { slow } else { steady }
            },
        };
        let measured = |times| {
            seeds = [];
            let row = load::measure(first_slow.call(times), "concurrency", 4, load::level_options(p, "concurrency", 4, 0));
            #{ loads: seeds.len(), same_prompts: seeds.len() == 2 && seeds[0] == seeds[1], said: row.warnings.len() > 0, requests: row.completed }
        };
        [0, 1, 2].map(|times| measured.call(times))"#,
    )
    .value();
    let row = |loads: u64, said: bool| json!({ "loads": loads, "same_prompts": false, "said": said, "requests": 60 });
    assert_eq!(rows, json!([row(1, false), row(2, true), row(2, true)]));
}

/// One start serves all levels, though nobody knows the lengths of the prompts before it. The second level is killed, so
/// that the run goes on from its journal.
#[test]
fn no_level_finds_the_prompts_of_an_earlier_one_in_the_prefix_cache() {
    let run = |prompts: usize| {
        let text: String = (0..prompts)
            .map(|number| format!("{number} {}\n", "of its own ".repeat(40)))
            .collect();
        let set = [
            // Slow enough to be killed at its second level.
            "sim.time_scale=0.5",
            "prompts=own.txt",
            "input=130",
            "output=8",
            "concurrency=[1, 2, 4]",
            "requests=12",
        ];
        let run = Profiler::new()
            .args(["run", "throughput", "--json", "--out", "killed"])
            .file("own.txt", text);
        let run = set.iter().fold(run, |run, set| run.args(["--set", set]));
        let (result, journal) = killed_and_resumed_at(run, "\"event\":\"began\",\"kind\":\"load\"", 2);
        assert_eq!(
            journal.matches("\"event\":\"engine\"").count(),
            2,
            "a start before and after"
        );
        let levels = result["workloads"][0]["levels"].as_array().unwrap().clone();
        let hit = |level: &Value| number(&level["prefix_hits"]) > 0.0;
        let reused = |level: &Value| level["warnings"].to_string().contains("reused");
        levels
            .iter()
            .map(|level| (hit(level), reused(level)))
            .collect::<Vec<_>>()
    };
    // With the warm-up, 13, 14 and 16 requests.
    assert_eq!(run(43), [(false, false); 3]);
    assert_eq!(run(27), [(false, false), (false, false), (true, true)]);
}

/// The results of both texts would stand side by side.
#[test]
fn a_run_is_not_resumed_with_other_prompts() {
    let run = Profiler::new()
        .args(["run", "throughput", "--json", "--out", "killed"])
        .file("own.txt", "one prompt\nanother one\n".repeat(20));
    let set = [
        "sim.time_scale=0.5",
        "prompts=own.txt",
        "output=8",
        "concurrency=[1, 2]",
    ];
    let (mut child, folder) = set.iter().fold(run, |run, set| run.args(["--set", set])).spawn();
    wait_for_text(
        &folder.path().join("killed/journal.jsonl"),
        "\"event\":\"done\",\"kind\":\"load\"",
        1,
    );
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::write(folder.path().join("own.txt"), "other prompts\n".repeat(20)).unwrap();
    let resumed = Profiler::new()
        .current_dir(folder.path())
        .args(["run", "--resume", "killed"]);
    let _ = resumed.run().code(2).stderr("own.txt");
}

#[test]
fn a_limit_that_nothing_meets_is_said() {
    let set = [CLOCK, "slo.ttft_ms=0.001", "output=8", "min_requests=60"];
    let outcome = script("slo", &set)
        .run()
        .success()
        .stderr("was shown to meet TTFT <= 0.001 ms");
    let _ = outcome.stdout("fails");
}

/// The engines are closures with random answers: chance must not make the search call a bad level good.
#[test]
fn a_level_is_called_good_only_where_chance_does_not_explain_it() {
    let found = Bench::script(
        r#"import "std/load/slo" as slo;
        // Shares of good requests by level, and a deterministic chance: 97 of 100 below 20, 95 of 100 up to 40, 60 above.
        let share = |level| if level <= 20 { 99 } else if level <= 40 { 95 } else { 60 };
        slo::search(|level, again| #{ good: 2 * share.call(level), issued: 200 }, #{ most: 256 })"#,
    )
    .value();
    assert_eq!((&found["meets"], &found["fails"]), (&json!(20), &json!(64)), "{found}");
    let open = found["open"].as_array().unwrap();
    assert!(
        !open.is_empty() && open.iter().all(|level| (21..=40).contains(&level.as_i64().unwrap())),
        "{found}"
    );
    for level in found["levels"].as_array().unwrap() {
        assert_eq!(
            level["verdict"] == "borderline",
            level["tries"] == 4,
            "borderline levels are asked again: {level}"
        );
    }
}

#[test]
fn a_full_cache_is_seen_over_time() {
    let set = [
        "sim.time_scale=0.1",
        "concurrency=32",
        "requests_per_slot=2",
        "min_requests=48",
        "metrics_hz=50",
    ];
    let outcome = script("kv_cache", &set).arg("--json").run().success();
    let found = &outcome.json()["result"];
    assert_eq!(found["pool"]["tokens"], 8352);
    // The engine reports its pool in hundredths of a GiB.
    assert!(
        (number(&found["pool"]["bytes_per_token"]) / 131_072.0 - 1.0).abs() < 0.01,
        "{found}"
    );
    let usage = &found["usage"];
    assert!(
        number(&usage["peak"]) > 0.95 && number(&usage["peak"]) <= 1.0,
        "{found}"
    );
    assert!(
        number(&usage["mean"]) > 0.5 && number(&usage["share_full"]) <= 1.0,
        "{found}"
    );
    assert!(
        number(&found["load"]["running"]) <= 17.0 && number(&found["load"]["waiting"]) >= 15.0,
        "{found}"
    );
    let text = Profiler::new()
        .args(["show"])
        .arg(outcome.folder().join("out"))
        .run()
        .success();
    let _ = text
        .stdout("KV cache in use, %")
        .stdout("the KV cache holds 8,352 tokens");
}

/// Two of them take text, which the model's own tokenizer counts.
#[test]
fn vllm_tgi_and_transformers_are_compared_with_one_model() {
    let set = [
        CLOCK,
        "runtime=sim",
        "model=./model",
        "concurrency=[2]",
        "input=64",
        "output=16",
        "requests=4",
    ];
    let shape = include_str!("../data/shapes/llama-1b-shape.config.json");
    let program = script("compare_engines", &set)
        .file("model/config.json", shape)
        .file("model/tokenizer.json", model::tokenizer());
    let outcome = program
        .args(["--engines", "vllm,tgi,transformers", "--json"])
        .run()
        .success();
    let result = &outcome.json()["result"];
    let engines = result["engines"].as_array().unwrap();
    let names: Vec<_> = engines.iter().map(|engine| &engine["name"]).collect();
    assert_eq!(names, ["vllm", "tgi", "transformers"]);
    for engine in engines {
        assert!(engine["failed"].is_null(), "{engine}");
        let level = &engine["levels"][0];
        assert!(
            level["completed"] == 4 && number(&level["mean_ttft_ms"]) > 0.0,
            "{level}"
        );
    }
}

#[test]
fn an_engine_that_cannot_start_is_a_row_and_the_rest_goes_on() {
    let engines = r#"engines=["sim", {"engine":"sim","name":"broken","profile":"no-such-profile"}, {"engine":"sim","name":"slower","sim":{"time_scale":0.1,"max_num_seqs":1}}]"#;
    // Slow enough that a busy machine does not hide the difference.
    let set = [
        "sim.time_scale=0.1",
        engines,
        "concurrency=[4]",
        "output=32",
        "min_requests=24",
    ];
    let outcome = script("compare_engines", &set).arg("--json").run().success();
    let result = &outcome.json()["result"];
    let engines = result["engines"].as_array().unwrap();
    assert!(
        engines[1]["failed"].as_str().unwrap().contains("no-such-profile"),
        "{}",
        engines[1]
    );
    assert_eq!(
        engines[0]["levels"].as_array().unwrap().len(),
        3,
        "every repeat is kept"
    );
    let of = |name: &str| {
        let comparisons = result["comparisons"].as_array().unwrap();
        let found = comparisons.iter().find(|one| one["name"] == name).unwrap();
        found["contrasts"].as_array().unwrap().clone()
    };
    let rate = of("output_throughput at 4");
    let slower = rate.iter().find(|one| one["setting"] == 2).unwrap();
    assert_eq!(slower["verdict"], "worse", "a fifteenth of the speed: {slower}");
    assert!(
        result["finding"].as_str().unwrap().starts_with("slower is "),
        "{}",
        result["finding"]
    );
    let broken = rate.iter().find(|one| one["setting"] == 1).unwrap();
    assert_eq!(broken["verdict"], "not measured", "{broken}");
    let shown = Profiler::new()
        .args(["show"])
        .arg(outcome.folder().join("out"))
        .run()
        .success();
    let _ = shown.stdout("broken: not measured").stdout("differences from sim");
}

#[test]
fn where_no_engine_can_be_measured_the_comparison_fails() {
    let engines = r#"engines=[{"engine":"sim","name":"a","profile":"no-such-profile"},{"engine":"sim","name":"b","profile":"none"}]"#;
    let _ = script("compare_engines", &[engines])
        .run()
        .code(2)
        .stderr("none of the 2 engines could be measured")
        .stderr("b was not measured");
}

/// Nothing is measured for minutes before the third engine's option turns out to be wrong.
#[test]
fn an_option_that_one_engine_does_not_have_is_told_before_the_first_start() {
    let engines = r#"engines=["sim",{"engine":"transformers","runtime":"process","model":".","memory_fraction":0.2}]"#;
    let _ = script("compare_engines", &[engines])
        .run()
        .code(2)
        .stderr("memory_fraction")
        .stderr("nothing had started");
}
