//! A user searches with `std/model_guided`: the engine's report is verified, and dropped where it is wrong.

use serde_json::{Value, json};

use crate::script::bench::Bench;
use crate::support::Profiler;

/// Searches a box where `truth` tokens fit and the engine reports `says`.
fn found(truth: u32, says: &str) -> Value {
    Bench::script(&format!(
        r#"import "std/model_guided" as model_guided;
        let map = boundary(#{{ input: [2048, 32768], output: [512, 32768] }}, #{{}});
        let truth = |p| p.input + p.output <= {truth};
        let verdicts = [];
        let done = model_guided::search(map, |p| {{
            assert((map.classify(p) == "unknown" || map.to_confirm(3).contains(p)) && !map.recorded(p), `asked ${{p}} though it is known`);
            verdicts.push(truth.call(p));
            if truth.call(p) {{ "ok" }} else {{ "oom" }}
        }}, {says});
        for p in map.frontier() {{ assert(truth.call(p)); }}
        for p in map.failing() {{ assert(!truth.call(p)); }}
        #{{ done: done, verdicts: verdicts, frontier: map.frontier(), failing: map.failing(), coverage: map.coverage() }}"#
    ))
    .value()
}

#[test]
fn what_is_right_is_verified_within_64_tokens_at_both_ends_and_the_middle() {
    for truth in [20_000i64, 45_000] {
        let result = found(u32::try_from(truth).unwrap(), &format!("#{{ tokens: {truth} }}"));
        assert_eq!(
            (&result["done"]["stopped"], &result["done"]["probes"]),
            (&json!("verified"), &json!(6))
        );
        // One start serves all fitting points; the failing ones come last.
        assert_eq!(result["verdicts"], json!([true, true, true, false, false, false]));
        let (fits, fails) = (
            result["frontier"].as_array().unwrap(),
            result["failing"].as_array().unwrap(),
        );
        assert_eq!((fits.len(), fails.len()), (3, 3));
        for (fit, fail) in fits.iter().zip(fails) {
            let apart = |axis: &str| fail[axis].as_i64().unwrap() - fit[axis].as_i64().unwrap();
            assert_eq!(
                (apart("input") + apart("output"), apart("input").min(apart("output"))),
                (64, 0)
            );
        }
    }
}

#[test]
fn what_is_wrong_is_given_up_for_a_search() {
    for says in ["#{ tokens: 60000 }", "#{ tokens: 30000 }", "#{}"] {
        let result = found(45_000, says);
        assert_eq!(result["done"]["stopped"], "coverage", "{says}: {result}");
        assert!(result["coverage"].as_f64().unwrap() >= 0.95, "{says}: {result}");
    }
}

#[test]
fn where_all_fits_or_nothing_does_as_said_one_point_tells() {
    // That nothing fits is asked twice.
    for (truth, probes) in [(100, 2), (70_000, 1)] {
        let result = found(truth, &format!("#{{ tokens: {truth} }}"));
        assert_eq!(
            (&result["done"]["stopped"], &result["done"]["probes"]),
            (&json!("verified"), &json!(probes))
        );
    }
}

#[test]
fn requests_at_once_share_the_tokens_and_other_axes_turn_round() {
    let result = Bench::script(
        r#"import "std/model_guided" as model_guided;
        let box = #{ input: [128, 8192], output: [128, 4096], concurrency: [1, 64] };
        let map = boundary(box, #{});
        let truth = |p| if (p.input + p.output) * p.concurrency <= 12000 { "ok" } else { "oom" };
        let done = model_guided::search(map, truth, #{ tokens: 12000 });
        let shares = boundary(#{ fraction: #{ range: [0.5, 0.9], easier: "up", tolerance: 0.01 } }, #{});
        #{ done: done, sides: shares.next_to_verify(#{ expects: |p| p.fraction >= 0.7, within: 0.02 }).places[0] }"#,
    );
    let result = result.value();
    assert_eq!(result["done"]["stopped"], "verified", "{result}");
    assert!(result["done"]["probes"].as_u64().unwrap() <= 12, "{result}");
    let side = |name: &str| result["sides"][name]["fraction"].as_f64().unwrap();
    assert!(
        (side("fits") - 0.72).abs() < 1e-9 && (side("fails") - 0.68).abs() < 1e-9,
        "{result}"
    );
}

#[test]
fn the_script_verifies_what_the_simulated_engine_says() {
    let command = Profiler::new().args(["run", "model_guided", "--json", "--set", "engine=sim"]);
    let result = command.run().success().json()["result"].clone();
    assert!(result["points"].as_array().unwrap().len() <= 8, "{result}");
    assert!(result["frontier"].as_array().unwrap().len() >= 3, "{result}");
}

/// The script reads the model's architecture for a lower bound on memory, and reports a model that cannot be read.
#[test]
fn the_script_reads_the_architecture_where_it_is_asked_to() {
    let shape = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/shapes/llama-1b-shape.config.json"
    );
    let run = |model: &str| {
        Profiler::new()
            .file("shape/config.json", std::fs::read_to_string(shape).unwrap())
            .args([
                "run",
                "model_guided",
                "--set",
                "engine=sim",
                "--set",
                "architecture=true",
            ])
            .args(["--set", model, "--set", "output=[128,256]"])
            .run()
    };
    let _ = run("model=shape")
        .success()
        .stdout("input + output ≤ 8,352 tokens (KV cache)");
    let _ = run("model=nowhere/config.json").stderr("nowhere/config.json");
}
