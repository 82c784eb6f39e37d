//! Engine metrics, power and timeline recorded during a load.

use serde_json::Value;

use crate::support::{Outcome, Profiler};

/// Runs a script that has an `engine` with 8,352 tokens of KV cache, whose model time passes twenty times as fast as a
/// real one's.
fn run(body: &str) -> Outcome {
    let script = format!(
        "import \"std/engines\" as engines;
         let engine = engines::describe(\"sim\", #{{
             limits: #{{ input: 512, output: 512, concurrency: 64 }}, sim: #{{ time_scale: 0.05, gather_ms: 0 }},
         }});
         engine.start();
         {body}"
    );
    let outcome = Profiler::new()
        .file("load.rhai", script)
        .args(["run", "load.rhai", "--out", "out", "--json"]);
    outcome.run().success()
}

fn result(outcome: &Outcome) -> Value {
    serde_json::from_str::<Value>(&outcome.stdout).unwrap()["result"].clone()
}

fn number(value: &Value, pointer: &str) -> f64 {
    let found = value.pointer(pointer).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no number at `{pointer}` of {value:#}"))
}

#[test]
fn a_load_that_its_cache_cannot_hold_shows_it_in_every_figure_and_on_the_time_line() {
    let outcome = run("let load = engine.load(#{
             concurrency: 32, requests: 64, input: 128, output: 512, metrics_hz: 50, price_per_hour: 3.6,
         });
         #{ load: load, info: engine.info() }");
    let result = result(&outcome);
    let load = &result["load"];
    let at = |pointer| number(load, pointer);
    assert!(at("/preemptions") > 0.0 && at("/kv_usage/max") > 0.9, "{load:#}");
    assert!(
        at("/running/mean") < at("/in_flight/mean") && at("/waiting/max") > 0.0,
        "{load:#}"
    );
    assert_eq!(at("/in_flight/max"), 32.0);
    let pool = number(&result, "/info/kv_tokens");
    assert_eq!(at("/memory/pool_tokens"), pool);
    assert!(at("/memory/used_tokens/max") > 0.9 * pool && at("/memory/used_tokens/max") <= pool);
    assert!(
        at("/memory/pool_bytes") < at("/memory/peak"),
        "the pool is a part of what is held"
    );

    // The simulated card draws 20 W idle and 300 W busy.
    let (mean, energy, duration) = (at("/power/mean"), at("/energy_wh"), at("/duration"));
    assert!(mean > 100.0 && mean <= 300.0, "{mean} W");
    assert!(
        (energy / (mean * duration / 3600.0) - 1.0).abs() < 0.1,
        "{energy} Wh, {mean} W for {duration} s"
    );
    let cost = 3.6 / 3600.0 / at("/output_throughput") * 1e6;
    assert!((at("/cost/per_million_output") / cost - 1.0).abs() < 1e-6);
    assert!((at("/cost/wh_per_million_output") * 64.0 * 512.0 / 1e6 / energy - 1.0).abs() < 0.1);

    let file = load["timeline"]["file"].as_str().unwrap();
    let text = std::fs::read_to_string(outcome.folder().join("out").join(file)).unwrap();
    let mut lines = text.lines();
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("seconds,running,waiting,kv_usage,preemptions,")
    );
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(
        rows.len() > 10 && rows.len() as f64 >= at("/timeline/samples"),
        "{} rows",
        rows.len()
    );
    let last = rows.last().unwrap();
    assert_eq!(
        (last[1], last[2], last[8], last[9]),
        ("0", "0", "0", "64"),
        "idle, and all done: {last:?}"
    );
    assert_eq!(last[4].parse::<f64>().unwrap(), at("/preemptions"));
    let column = |row: &Vec<&str>, at: usize| row[at].parse::<f64>().unwrap_or(0.0);
    let tokens: f64 = rows
        .windows(2)
        .map(|pair| column(&pair[1], 10) * (column(&pair[1], 0) - column(&pair[0], 0)))
        .sum();
    assert!(
        (tokens / (64.0 * 512.0) - 1.0).abs() < 0.01,
        "{tokens} tokens on the time line"
    );
}

#[test]
fn preemption_starts_where_the_cache_is_full() {
    let outcome = run("let rows = [];
         for concurrency in [4, 8, 16, 32] {
             let load = engine.load(#{ concurrency: concurrency, requests: 2 * concurrency, input: 128, output: 512, metrics_hz: 50 });
             rows.push(#{ concurrency: concurrency, preemptions: load.preemptions });
         }
         levels::findings(rows, \"concurrency\").preemption");
    // The cache holds 13 sequences of 640 tokens.
    let start = result(&outcome);
    assert_eq!(
        (&start["last_without"], &start["first_with"]),
        (&8.into(), &16.into()),
        "{start}"
    );
}

#[test]
fn prompts_that_begin_alike_hit_the_prefix_cache_and_others_do_not() {
    let outcome = run("let hits = |alike| engine.load(#{
             concurrency: 4, requests: 16, input: 320, output: 4, shared_prefix: alike,
         }).prefix_hits;
         [hits.call(0), hits.call(256)]");
    let hits = result(&outcome);
    assert_eq!(number(&hits, "/0"), 0.0);
    // 15 of 16 requests find 256 of their 320 tokens in the cache.
    assert!((number(&hits, "/1") - 0.75).abs() < 0.06, "{hits}");
}
