//! A user compares settings of one knob, each at a fresh start: the claims, the record that is kept, and what a killed
//! experiment repeats.

mod scripts;

use serde_json::{Value, json};

use crate::support::{Outcome, Profiler, killed_and_resumed_at};

/// An experiment on the simulated engine, by default with three starts per setting.
const SCRIPT: &str = r#"
import "std/experiment" as experiment;
let p = params(#{ launch: param(#{}, "launch"), settings: param([], "settings"), load: param(#{}, "load"), repeats: param(3, "repeats") });
experiment::show(experiment::measure("sim", p.launch, p.settings, #{ repeats: p.repeats, load: p.load }))
"#;

fn load() -> Value {
    json!({ "input": 64, "output": 8, "concurrency": 2, "requests": 4 })
}

fn script(given: &Value) -> Profiler {
    Profiler::new()
        .file("main.rhai", SCRIPT)
        .file("given.json", given.to_string())
        .args(["run", "main.rhai", "--params", "given.json", "--seed", "7"])
}

fn run(given: &Value, more: &[&str]) -> Outcome {
    script(given).args(more).run()
}

/// The comparison of the second setting with the first by this metric.
fn contrast<'a>(found: &'a Value, name: &str) -> &'a Value {
    let all = found["comparisons"].as_array().unwrap();
    let one = all.iter().find(|one| one["name"] == name);
    &one.unwrap_or_else(|| panic!("no {name}: {all:#?}"))["contrasts"][0]
}

/// One known difference, and one knob without effect: memory and KV tokens of the simulated engine are the same at
/// every start.
#[test]
fn a_known_difference_is_found_and_a_known_none_is_not() {
    let graphs = json!([
        { "name": "on", "options": { "cuda_graphs": true } }, { "name": "off", "options": { "cuda_graphs": false } },
    ]);
    let found = run(&json!({ "settings": graphs, "load": load() }), &["--json"])
        .success()
        .json();
    assert_eq!(found["simulated"], true);
    let found = &found["result"];
    let finding = found["finding"].as_str().unwrap();
    assert!(finding.starts_with("off: 5.4 % higher KV tokens ("), "{finding}");
    assert!(finding.contains("0.19 GiB less non-KV memory"), "{finding}");
    let tokens = contrast(found, "kv_tokens");
    assert_eq!(
        (&tokens["verdict"], &tokens["difference"]),
        (&json!("better"), &json!(448.0)),
        "{tokens}"
    );
    // 490 MiB of graphs, less the larger warm-up of an eager start; the log rounds the size of the KV cache to 0.01
    // GiB.
    let memory = contrast(found, "memory_beside_kv");
    let mib = memory["difference"].as_f64().unwrap() / f64::from(1 << 20);
    assert!(memory["verdict"] == "better" && (mib + 200.0).abs() < 10.24, "{memory}");
    assert_eq!(
        contrast(found, "graphs_memory")["verdict"],
        "not measured",
        "an eager start tells of none"
    );

    let nothing = json!([
        { "name": "as it is", "options": {} }, { "name": "as it is by default", "options": { "sim": { "enforce_eager": false } } },
    ]);
    let found = run(&json!({ "settings": nothing, "load": load() }), &["--json"])
        .success()
        .json();
    for name in ["memory", "memory_per_gpu", "memory_beside_kv", "kv_tokens", "failed"] {
        let same = contrast(&found["result"], name);
        assert_eq!(
            (&same["verdict"], &same["difference"]),
            (&json!("not significant"), &json!(0.0)),
            "{name}"
        );
    }
}

#[test]
fn one_start_each_claims_nothing() {
    let settings = json!([
        { "name": "on", "options": { "cuda_graphs": true } }, { "name": "off", "options": { "cuda_graphs": false } },
    ]);
    let given = json!({ "settings": settings, "load": load(), "repeats": 1 });
    let found = run(&given, &["--json"]).success().json()["result"].take();
    let tokens = contrast(&found, "kv_tokens");
    assert_eq!(
        (&tokens["verdict"], &tokens["interval"]),
        (&json!("too few starts"), &Value::Null)
    );
    assert_eq!(found["comparisons"][0]["noise"], Value::Null);
    let _ = run(&given, &[])
        .success()
        .stdout("off: seen, but not judged: ")
        .stdout("; too few starts; set `repeats` to 3 or more")
        .stdout("means of 1 and 1 starts");
}

/// 8,640 tokens fit with an 8-bit KV cache, and do not fit with the default one.
#[test]
fn a_setting_that_does_not_start_is_kept_with_its_evidence_and_the_rest_goes_on() {
    let settings = json!([
        { "name": "auto", "options": {} }, { "name": "fp8", "options": { "kv_cache_dtype": "fp8" } },
    ]);
    let load = json!({ "input": 8632, "output": 8, "concurrency": 1, "requests": 2 });
    let outcome = run(&json!({ "settings": settings, "load": load }), &["--out", "run"]).success();
    let outcome = outcome
        .stdout("1 start failed; 2 repeats skipped")
        .stdout("ValueError: To serve at");
    let folder = outcome.folder().join("run");
    let shown = Profiler::new()
        .args(["show", &folder.display().to_string()])
        .run()
        .success();
    let _ = shown
        .stdout("1 start failed")
        .stdout("auto was not measured: ")
        .stdout("means of 0 and 3 starts");
    let result = std::fs::read_to_string(folder.join("result.json")).unwrap();
    let found: Value = serde_json::from_str(&result).unwrap();
    let trials = found["result"]["trials"].as_array().unwrap();
    let failed: Vec<_> = trials.iter().filter(|trial| !trial["failed"].is_null()).collect();
    assert_eq!(failed.len(), 3);
    assert_eq!(failed[0]["failed"]["cause"], "memory");
    assert!(!failed[0]["failed"]["evidence"]["log"].as_array().unwrap().is_empty());
    assert_eq!(contrast(&found["result"], "kv_tokens")["verdict"], "not measured");
}

#[test]
fn what_cannot_be_an_experiment_is_refused() {
    let one = json!([{ "name": "on", "options": {} }]);
    let refused = |given: Value, why: &str| {
        let _ = run(&given, &[]).code(2).stderr(why);
    };
    refused(json!({ "settings": one, "load": load() }), "two settings or more");
    let two = json!([{ "name": "on", "options": {} }, { "name": "on", "options": {} }]);
    refused(
        json!({ "settings": two, "load": load() }),
        "two settings are called `on`",
    );
    refused(
        json!({ "settings": two, "load": load(), "repeats": 0 }),
        "`repeats` is 0",
    );
    let attached = json!({ "settings": two, "load": load(), "launch": { "url": "http://127.0.0.1:1" } });
    refused(attached, "starts its engine anew");
    let misspelt = json!([{ "name": "on", "options": { "cuda_graph": true } }, { "name": "off", "options": {} }]);
    refused(json!({ "settings": misspelt, "load": load() }), "cuda_graph");
}

#[test]
fn a_killed_experiment_repeats_no_start_that_was_finished() {
    let settings = json!([
        { "name": "on", "options": { "cuda_graphs": true } }, { "name": "off", "options": { "cuda_graphs": false } },
    ]);
    // So slow that the kill comes in the middle of a start.
    let launch = json!({ "sim": { "time_scale": 0.004 } });
    let given = json!({ "settings": settings, "load": load(), "launch": launch });
    let finished = "\"event\":\"done\",\"kind\":\"experiment\"";
    let (result, journal) = killed_and_resumed_at(script(&given).args(["--out", "killed"]), finished, 2);
    assert_eq!(journal.matches(finished).count(), 6, "each start once");
    assert_eq!(result["trials"].as_array().unwrap().len(), 6);
    assert_eq!(contrast(&result, "kv_tokens")["difference"], 448.0);
    // The load of the killed start is not used for a later start.
    let loads = journal.matches("\"event\":\"done\",\"kind\":\"load\"").count();
    assert!((6..=7).contains(&loads), "{loads}");
}

#[test]
fn a_dry_run_shows_every_setting_and_starts_nothing() {
    let settings = json!([
        { "name": "on", "options": { "cuda_graphs": true } }, { "name": "off", "options": { "cuda_graphs": false } },
    ]);
    let given = json!({ "settings": settings, "load": load() });
    let outcome = run(&given, &["--dry-run"]).success();
    let _ = outcome
        .stdout("experiment: settings of sim\n  6 separate starts: ")
        .stdout("4 requests of 64 + 8 tokens, 2 concurrent");
    let found = run(&given, &["--dry-run", "--json"]).success().json();
    assert_eq!(found["engines"].as_array().unwrap().len(), 2, "{found:#}");
    assert_eq!(found["experiments"][0]["order"].as_array().unwrap().len(), 6);
}
